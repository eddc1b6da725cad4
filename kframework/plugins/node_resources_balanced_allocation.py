"""NodeResourcesBalancedAllocation: prefer the node whose resource usage would be most balanced with the pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from kframework.config.args import ApiArgs
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.objects import DeviceClass
from kframework.objects.problem import Problem, duplicate, invalid
from kframework.objects.requests import is_scalar
from kframework.plugins.dynamic_resources.device_columns import DEVICES, DeviceColumns
from kframework.plugins.dynamic_resources.extended_resources import BackedResources
from kframework.plugins.shared_args import CPU_AND_MEMORY, Resources
from kframework.state.columns import Column
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_templates import Requests
from kframework.state.pods import PendingPod
from kframework.values.feature_gates import FeatureGates
from kframework.values.scores import MAX_SCORE, Rows, Scores
from kframework.values.status import Skip, Status

_NATIVE = ("cpu", "memory", "ephemeral-storage")

#: The inputs of the score: the columns of offered and used amounts, and the pod's request.
_SCORED = StateKey[tuple[tuple[Column, Column, int], ...]]("NodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocationArgs(ApiArgs):
    """The resources whose usage should be balanced."""

    resources: Resources = CPU_AND_MEMORY
    """The resources that should be used evenly; each weighs 1."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        names = [resource.name for resource in self.resources]
        for index, resource in enumerate(self.resources):
            if resource.name in names[:index]:
                yield duplicate(("resources", index, "name"), resource.name)
            if resource.weight != 1:
                yield invalid(("resources", index, "weight"), resource.weight, "must be 1")


class NodeResourcesBalancedAllocation(Plugin[NodeResourcesBalancedAllocationArgs]):
    """Score by how much the pod improves or worsens the balance of a node's resources; 75 = as balanced as before."""

    name = "NodeResourcesBalancedAllocation"
    reads: ClassVar[Reads] = "pods"
    sign_reads: ClassVar[SignReads] = (DeviceClass,)
    watches: ClassVar[tuple[Watch, ...]] = DEVICES

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scalars = frozenset(each.name for each in args.resources if each.name not in _NATIVE)
        self._backed = handle.objects(DeviceClass).index(BackedResources)
        self._device_columns = DeviceColumns(handle)

    @hookimpl
    def sign(self, pod: PendingPod) -> Requests | None:
        """Sign by the pod's requests; None if they may be devices, whose number depends on slices and claims."""
        if self._scalars:
            scored = (name for name, amount in pod.on_node if amount and name in self._scalars)
            if any(self._backed.class_for(name) is not None for name in scored):
                return None
        return pod.on_node

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        amounts = dict(pod.on_node)
        requested = {resource.name: amounts.get(resource.name, 0) for resource in self.args.resources}
        if not any(requested.values()):
            return Skip
        names = [name for name in requested if name in _NATIVE or (is_scalar(name) and requested[name])]
        state[_SCORED] = tuple((*self._device_columns.columns_for(name, nodes), requested[name]) for name in names)
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        row, before, after = node.row, [], []
        for offered, requested, amount in state[_SCORED]:
            room, taken = float(offered.cells[row]), requested.cells[row]
            if room:
                share, larger = taken / room, (taken + amount) / room
                before.append(share if share < 1.0 else 1.0)
                after.append(larger if larger < 1.0 else 1.0)
        return _score(_evenness(before), _evenness(after))

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        room = np.array([offered.values[rows] for offered, _, _ in state[_SCORED]])
        taken = np.array([requested.values[rows] for _, requested, _ in state[_SCORED]])
        amounts = np.array([[amount] for _, _, amount in state[_SCORED]])
        both = np.array((taken, taken + amounts))  # before and after, computed together
        before, after = _evenness_of_rows(np.minimum(both / np.maximum(room, 1), 1.0), room > 0)
        return _score(before, after)


# -- evenness: 100 less the deviation of the fractions in use, in the floating point steps that kube-scheduler takes ---

Evenness = TypeVar("Evenness", int, NDArray[np.int64])
Fractions = NDArray[np.float64]
Mask = NDArray[np.bool_]


def _score(before: Evenness, after: Evenness) -> Evenness:
    half = MAX_SCORE // 2
    return half + (half + after - before) // 2


def _evenness(fractions: Sequence[float]) -> int:
    number, deviation = len(fractions), 0.0
    if number == 2:
        first, second = fractions
        deviation = abs(first - second) / 2
    elif number > 2:
        mean = _sum(fractions) / number
        deviation = sqrt(_sum([(fraction - mean) * (fraction - mean) for fraction in fractions]) / number)
    return int((1 - deviation) * MAX_SCORE)


def _sum(terms: Iterable[float]) -> float:
    """Add from left to right; sum() may be more exact, and would then differ from the columns."""
    total = 0.0
    for term in terms:
        total += term
    return total


def _evenness_of_rows(fractions: Fractions, offered: Mask) -> Scores:
    """Compute the same for fractions before and after, (2, resources, nodes); only `offered` ones count."""
    if len(offered) == 2:
        deviation: Fractions = np.absolute(fractions[:, 0] - fractions[:, 1]) / 2 * (offered[0] & offered[1])
    else:
        number: Scores = np.add.reduce(offered, dtype=np.int64)
        deviation, pairs = _standard_deviation(fractions, offered, np.maximum(number, 1)), number == 2
        if pairs.any():
            high: Fractions = np.maximum.reduce(np.where(offered, fractions, 0.0), axis=1)
            low: Fractions = np.minimum.reduce(np.where(offered, fractions, 1.0), axis=1)
            deviation = np.where(pairs, (high - low) / 2, deviation)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _standard_deviation(fractions: Fractions, offered: Mask, number: Scores) -> Fractions:
    mean = _sum_rows(np.where(offered, fractions, 0.0)) / number
    distance = fractions - mean[:, np.newaxis]
    variance: Fractions = _sum_rows(np.where(offered, distance * distance, 0.0)) / number
    return np.sqrt(variance)


def _sum_rows(terms: Fractions) -> Fractions:
    """Add from left to right too, over the resources."""
    total: Fractions = np.zeros_like(terms[:, 0])
    for index in range(terms.shape[1]):
        total = total + terms[:, index]
    return total
