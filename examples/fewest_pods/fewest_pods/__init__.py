"""Two plugins for kframework: FewestPods spreads pods by count, Together starts groups as one."""

from __future__ import annotations

from fewest_pods.fewest import FewestPods, FewestPodsArgs
from fewest_pods.together import GROUP, SIZE, Together, TogetherArgs

__all__ = ["GROUP", "SIZE", "FewestPods", "FewestPodsArgs", "Together", "TogetherArgs"]
