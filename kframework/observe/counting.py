"""The door for engines that count: families of metrics of their own, and the series that a scheduler shows of them.

The record of a binding cycle is here as well, for those who count its steps.
"""

from __future__ import annotations

from kframework.core.cycle.decision import Binding
from kframework.observe.metrics.families import Family
from kframework.observe.metrics.series import Counts, Histograms, Readings, Series, as_labels

__all__ = ["Binding", "Counts", "Family", "Histograms", "Readings", "Series", "as_labels"]
