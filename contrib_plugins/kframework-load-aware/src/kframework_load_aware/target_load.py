"""TargetLoadPacking: fill nodes up to a target load, then prefer the less loaded ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat

from kframework import Handle, NodeInfo, PodInfo
from kframework.objects import Container, PodSpec, RawQuantity, milli
from kframework_load_aware.args import TrimaranArgs
from kframework_load_aware.load_aware import Figures, LoadAware


class TargetLoadPackingArgs(TrimaranArgs):
    """What `pluginConfig` may say, with the names and defaults of scheduler-plugins."""

    default_requests: Mapping[str, RawQuantity] = Field(default_factory=lambda: {"cpu": 1})
    """The `cpu` that a container without request and limit is expected to use."""
    default_requests_multiplier: NonNegativeFloat = 1.5
    """What a container without a limit is expected to use for each cpu that it requests."""
    target_utilization: Annotated[int, Field(ge=1, le=100)] = 40
    """The percentage of a node's cpu up to which nodes are filled: 10 less than what you want."""


class TargetLoadPacking(LoadAware[TargetLoadPackingArgs, int]):
    """Prefer the node that comes closest to the target load from below; above it, the least loaded one."""

    name: ClassVar[str] = "TargetLoadPacking"

    def __init__(self, args: TargetLoadPackingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._default = milli(args.default_requests.get("cpu", 0))
        self._prediction = (self.name, args.default_requests_multiplier, self._default)

    def demand(self, pod: PodInfo) -> int:
        return pod.template.cached(self._prediction, self._predict)

    def _predict(self, spec: PodSpec) -> int:
        return sum(map(self._predict_container, spec.containers)) + milli(spec.overhead.get("cpu", 0))

    def _predict_container(self, container: Container) -> int:
        resources = container.resources
        if "cpu" in resources.limits:
            return milli(resources.limits["cpu"])
        if "cpu" in resources.requests:
            return math.floor(milli(resources.requests["cpu"]) * self.args.default_requests_multiplier + 0.5)
        return self._default

    def measure(self, nodes: Sequence[NodeInfo]) -> Figures:
        """Return the cpu in use, with what is to be expected of new pods, and the capacity, in milli-CPU."""
        return np.array([self._measure_node(node) for node in nodes], dtype=np.float64).T

    def _measure_node(self, node: NodeInfo) -> tuple[float, float]:
        load = self.load(node)
        capacity = milli(node.object.status.capacity.get("cpu", 0)) or node.allocatable("cpu")
        if load.cpu is None:
            return math.nan, capacity
        used = load.cpu if load.unit == "amount" else load.cpu / 100 * capacity
        missing = sum(self.demand(pod) * part for pod, part in self.unmeasured(node, load))
        return used + missing, capacity

    def rate(self, demand: int, figures: Figures) -> NDArray[np.float64]:
        used, capacity = figures
        return rate_utilization(100 * (used + demand) / np.maximum(capacity, 1), self.args.target_utilization)


def rate_utilization(percent: NDArray[np.float64], target: float) -> NDArray[np.float64]:
    """Rise from the target at an idle node to 100 at the target, then fall from the target to 0 at a full node."""
    below = (100 - target) * percent / target + target
    above = target * (100 - percent) / max(100 - target, 1)
    return np.where(percent <= target, below, np.where(percent <= 100, above, 0.0))
