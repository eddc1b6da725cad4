"""The door for engines that count: families of metrics of their own, and the series that a scheduler shows of them."""

from __future__ import annotations

from kframework.observe.metrics.families import Family
from kframework.observe.metrics.series import Counts, Histograms, Readings, Series, as_labels

__all__ = ["Counts", "Family", "Histograms", "Readings", "Series", "as_labels"]
