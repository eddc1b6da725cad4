"""FewestPods: the node that runs the fewest pods is preferred."""

from __future__ import annotations

from fewest_pods.fewest import FewestPods, FewestPodsArgs

__all__ = ["FewestPods", "FewestPodsArgs"]
