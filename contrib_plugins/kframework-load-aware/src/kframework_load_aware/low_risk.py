"""LowRiskOverCommitment: prefer nodes on which pods are unlikely to want more than the node has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from kframework import Handle, NodeInfo, PodInfo
from kframework_load_aware.args import TrimaranArgs
from kframework_load_aware.beta import share_below
from kframework_load_aware.load_aware import Figures, LoadAware
from kframework_load_aware.resources import (
    RESOURCES,
    Amounts,
    add_requests,
    limits_of,
    measure_resource,
    requests_of,
)

#: The share of the largest variance that a Beta distribution with a mean can have which the fitted one may have.
_VARIANCE = 0.99

_Array = NDArray[np.float64]


class LowRiskOverCommitmentArgs(TrimaranArgs):
    """What `pluginConfig` may say, with the names and defaults of scheduler-plugins."""

    smoothing_window_size: PositiveInt = 5
    """The number of samples that were averaged for a measured value: the deviation is larger by its root."""
    risk_limit_weights: Mapping[str, Annotated[float, Field(ge=0, le=1)]] = {}
    """How much the limits count for `cpu` and `memory` (0.5), the rest being left to the measured load."""


class LowRiskOverCommitment(LoadAware[LowRiskOverCommitmentArgs, tuple[Amounts, Amounts]]):
    """Score the worse of cpu and memory by the risk that pods want more than they request, and than the node has."""

    name: ClassVar[str] = "LowRiskOverCommitment"

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._weights = np.array([[args.risk_limit_weights.get(resource, 0.5)] for resource in RESOURCES])

    def demand(self, pod: PodInfo) -> tuple[Amounts, Amounts] | None:
        demand = requests_of(pod), limits_of(pod)
        return demand if any(demand[1]) else None  # none at all: of pods without requests and limits nothing is known

    def measure(self, nodes: Sequence[NodeInfo]) -> Figures:
        """Return the risk from the load, sums of requests and limits, capacity; of shape (4, 2 resources, nodes)."""
        found = np.array([self._measure_node(node) for node in nodes], dtype=np.float64).transpose(2, 1, 0)
        mean, deviation, requests, limits, capacity = found
        size = np.maximum(capacity, 1)
        load = rate_load(
            mean / size, deviation / size * self.args.smoothing_window_size**0.5, requests / size, limits / size
        )
        return np.array([load, requests, limits, capacity])

    def _measure_node(self, node: NodeInfo) -> list[tuple[float, float, float, float, float]]:
        load = self.load(node)
        new = add_requests(self.unmeasured(node, load))
        limits = [sum(amounts) for amounts in zip(*map(limits_of, node.pods), strict=True)] or [0, 0]
        found: list[tuple[float, float, float, float, float]] = []
        for resource, expected, limit in zip(RESOURCES, new, limits, strict=True):
            mean, deviation, capacity = measure_resource(load, resource, node.allocatable(resource))
            found.append((min(mean + expected, capacity), deviation, node.requested(resource), limit, capacity))
        return found

    def rate(self, demand: tuple[Amounts, Amounts], figures: Figures) -> _Array:
        load, requests, limits, capacity = figures
        request, limit = (np.array(amounts, dtype=np.float64)[:, None] for amounts in demand)
        risk = self._weights * rate_limits(requests + request, limits + limit, capacity) + (1 - self._weights) * load
        scores: _Array = 100 * (1 - np.clip(risk, 0, 1).max(axis=0))
        return scores


def rate_limits(requests: _Array, limits: _Array, capacity: _Array) -> _Array:
    """Return the part of what pods may use beyond their requests that the node does not have."""
    over = limits > capacity
    beyond = np.where(over, limits - np.minimum(requests, capacity), 1)
    return np.where(over, (limits - capacity) / beyond, 0.0)


def rate_load(mean: _Array, deviation: _Array, requests: _Array, limits: _Array) -> _Array:
    """Return the chance that the load exceeds the requests; all are shares of the node.

    If the limits are less than the node, the load cannot exceed them. What was not measured is no risk.
    """
    mean = np.clip(mean, 0, 1)
    deviation = np.minimum(deviation, np.sqrt(mean * (1 - mean) * _VARIANCE))
    requests = np.clip(requests, 0, 1)
    covered = share_below(requests, mean, deviation)
    bounded = (limits < 1) & (requests <= limits)
    most = np.where(bounded & (deviation > 0), share_below(np.clip(limits, 0, 1), mean, deviation), 1)
    covered = np.where(most > 0, np.clip(covered / np.where(most > 0, most, 1), 0, 1), covered)
    return np.where(np.isnan(mean) | (bounded & (limits == 0)), 0.0, 1 - covered)
