"""LoadVariationRiskBalancing: prefer nodes whose load is low and steady."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeFloat

from kframework import NodeInfo, PodInfo
from kframework_load_aware.args import TrimaranArgs
from kframework_load_aware.load_aware import Figures, LoadAware
from kframework_load_aware.resources import RESOURCES, Amounts, add_requests, measure_resource, requests_of


class LoadVariationRiskBalancingArgs(TrimaranArgs):
    """What `pluginConfig` may say, with the names and defaults of scheduler-plugins."""

    safe_variance_margin: NonNegativeFloat = 1.0
    """The factor by which the deviation counts."""
    safe_variance_sensitivity: NonNegativeFloat = 1.0
    """The root that is taken of the deviation."""


class LoadVariationRiskBalancing(LoadAware[LoadVariationRiskBalancingArgs, Amounts]):
    """Score the worse of cpu and memory by mean and deviation of the node's load."""

    name: ClassVar[str] = "LoadVariationRiskBalancing"

    def demand(self, pod: PodInfo) -> Amounts:
        return requests_of(pod)

    def measure(self, nodes: Sequence[NodeInfo]) -> Figures:
        """Return mean, deviation and capacity, in milli-CPU and bytes; of shape (2 resources, 3, nodes)."""
        return np.array([self._measure_node(node) for node in nodes], dtype=np.float64).transpose(1, 2, 0)

    def _measure_node(self, node: NodeInfo) -> list[tuple[float, float, float]]:
        load = self.load(node)
        new = add_requests(self.unmeasured(node, load))
        found = []
        for resource, expected in zip(RESOURCES, new, strict=True):
            mean, deviation, capacity = measure_resource(load, resource, node.allocatable(resource))
            found.append((mean + expected, deviation, capacity))
        return found

    def rate(self, demand: Amounts, figures: Figures) -> NDArray[np.float64]:
        margin, sensitivity = self.args.safe_variance_margin, self.args.safe_variance_sensitivity
        by_resource = [
            rate_risk(
                (mean + request) / np.maximum(capacity, 1), deviation / np.maximum(capacity, 1), margin, sensitivity
            )
            for request, (mean, deviation, capacity) in zip(demand, figures, strict=True)
        ]
        # A resource that was not measured does not count.
        return np.fmin(*by_resource)


def rate_risk(
    mean: NDArray[np.float64], deviation: NDArray[np.float64], margin: float, sensitivity: float
) -> NDArray[np.float64]:
    """Return 100 less the risk in percent: the mean of the load and its deviation, as shares of the node."""
    root = 1 / sensitivity if sensitivity else math.inf
    spread = np.clip(np.clip(deviation, 0, 1) ** root * margin, 0, 1)
    return 100 * (1 - (np.clip(mean, 0, 1) + spread) / 2)
