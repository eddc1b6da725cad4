"""NodeResourcesFit: a node must have room for the pod; its utilization is its score."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.framework.answers import PlacedGroup
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import UNFIXABLE, ChangeEstimates, Suggestions
from kframework.objects import DeviceClass, GenericPodGroup, Node
from kframework.objects.requests import allocatable, is_scalar
from kframework.plugins.dynamic_resources.device_columns import DEVICES, DeviceColumns
from kframework.plugins.dynamic_resources.extended_resources import CLASS_PREFIX, BackedResources
from kframework.plugins.node_resources_fit.args import NodeResourcesFitArgs, ScoringStrategy
from kframework.plugins.node_resources_fit.suggestions import make_room, request_less, shortages
from kframework.plugins.shared_args import interpolate_scores
from kframework.state.columns import Column
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_templates import PodTemplate
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import MAX_SCORE, Rows, Scores
from kframework.values.status import Status, unresolvable, unschedulable

TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient {}"

_NATIVE = ("cpu", "memory", "ephemeral-storage")

#: The inputs of Filter: the columns of offered and used amounts, the pod's request, the reason bit, and whether a node
#: that offers none may have devices instead. The number of pods comes first.
_CHECKED = StateKey[Sequence[tuple[Column, Column, int, int, bool]]]("NodeResourcesFit.checked")
#: The requests once more, as an array of the shape (resources, 1), to be combined with (resources, nodes).
_REQUESTS = StateKey[NDArray[np.int64]]("NodeResourcesFit.requests")
#: The inputs of Score: the columns of offered and used amounts, the pod's request, and the weight.
_SCORED = StateKey[tuple[tuple[Column, Column, int, int], ...]]("NodeResourcesFit.scored")
#: The requests and the weights once more, each of the shape (resources, 1), to be combined with (resources, nodes).
_NUMBERS = StateKey[tuple[NDArray[np.int64], NDArray[np.int64]]]("NodeResourcesFit.numbers")

# Reason bits: these two, then one per checked resource in order. If a pod requests more than 30, the last ones share a
# bit and are named together.
_FULL, _UNRESOLVABLE = 1 << 0, 1 << 1


class NodeResourcesFit(Plugin[NodeResourcesFitArgs]):
    """Reject nodes without room for the pod, and score the others by their utilization with it.

    If a device class backs an extended resource that a node does not offer, DynamicResources decides whether the node
    has enough of it.
    """

    name = "NodeResourcesFit"
    reads: ClassVar[Reads] = "pods"
    sign_reads: ClassVar[SignReads] = (DeviceClass,)
    watches: ClassVar[tuple[Watch, ...]] = DEVICES

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        assert args.scoring_strategy is not None  # the configuration was checked
        self._resources = args.scoring_strategy.resources
        self._strategy = _create_strategy(args.scoring_strategy)
        self._backed = handle.objects(DeviceClass).index(BackedResources)
        self._device_columns = DeviceColumns(handle)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        """Sign by the pod's requests, and which of them may be devices; None if devices are scored.

        Their number depends on slices and claims, which do not invalidate cached answers.
        """
        template = pod.template
        signature, scalars = template.cached(NodeResourcesFit, lambda spec: _signature(template))
        if not scalars:
            return signature
        backed = tuple(name for name in scalars if self._backed.class_for(name) is not None)
        if any(resource.name in backed for resource in self._resources):
            return None
        return (signature, backed) if backed else signature

    # -- filter --------------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> None:
        checked = state[_CHECKED] = (
            (*_columns(nodes, "pods"), 1, _FULL, False),
            *(
                (*_columns(nodes, resource), amount, bit, self._backed.class_for(resource) is not None)
                for resource, amount, bit in self._checked_requests(pod)
            ),
        )
        state[_REQUESTS] = np.array([[amount] for _, _, amount, _, _ in checked])

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        row, bits = node.row, 0
        for offered, requested, amount, bit, backed in state[_CHECKED]:
            room = offered.cells[row]
            if amount > room - requested.cells[row] and (room or not backed):
                bits |= bit | _UNRESOLVABLE * (amount > room and bit != _FULL)
        return self.filter_status(pod, bits) if bits else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return _find_shortages(state[_CHECKED], rows, state[_REQUESTS])

    @hookimpl
    def filter_more(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows, added: Scores) -> Scores:
        used = dict(pod.on_node)
        uses: NDArray[np.int64] = np.array(
            [[1], *([used.get(resource, 0)] for resource, _, _ in self._checked_requests(pod))]
        )
        return _find_shortages(state[_CHECKED], rows, state[_REQUESTS] + uses * added)

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return pod.template.cached((self, bits), lambda spec: self._status(pod, bits))

    def _status(self, pod: PendingPod, bits: int) -> Status:
        reasons = [TOO_MANY_PODS] if bits & _FULL else []
        reasons += [INSUFFICIENT.format(resource) for resource, _, bit in self._checked_requests(pod) if bits & bit]
        return unresolvable(*reasons) if bits & _UNRESOLVABLE else unschedulable(*reasons)

    def _checked_requests(self, pod: PendingPod) -> Iterator[tuple[str, int, int]]:
        """Yield the pod's requests, native resources first, without ignored ones, with their reason bits."""
        requested = {resource: amount for resource, amount in pod.template.fit if amount}
        scalar = (resource for resource in requested if resource not in _NATIVE and not self._ignores(resource))
        names = (*(resource for resource in _NATIVE if resource in requested), *scalar)
        for number, resource in enumerate(names, 2):
            yield resource, requested[resource], 1 << min(number, 31)

    def _ignores(self, resource: str) -> bool:
        group, slash, _ = resource.partition("/")
        if not slash or "kubernetes.io/" in resource:
            return False  # only extended resources can be ignored
        return resource in self.args.ignored_resources or group in self.args.ignored_resource_groups

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None  # only `filter` rejects
        requested = [
            (resource, amount)
            for resource, amount, _ in self._checked_requests(pod)
            if not self._may_be_devices(resource, node.allocatable(resource))
        ]
        missing = shortages(node, [*requested, ("pods", 1)], self.handle.nominated_pods(pod, node.name))
        yield from make_room(node, missing)
        yield from request_less(node, missing)

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        """Estimate by the largest missing share of the pod's requests; deleting one pod may free all of it."""
        offered = nodes.allocatable("pods")[rows]
        size, short, possible = np.zeros(len(offered)), np.zeros(len(offered)), np.ones(len(offered), dtype=np.bool_)
        for room, taken, amount, _, backed in state[_CHECKED]:
            offered = room.values[rows]
            missing = taken.values[rows] + amount - offered
            if backed:
                missing *= offered > 0
            size = np.maximum(size, missing / amount)
            short += missing > 0
            possible &= (amount <= offered) | (missing <= 0)
        size += np.maximum(short - 1, 0)
        return np.where(possible, 0, UNFIXABLE) + (1 + size) / (2 + size)

    # -- score ---------------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> None:
        amounts = pod.template.scoring
        scored = state[_SCORED] = tuple(
            (*self._columns_for_scoring(nodes, resource.name), amounts.get(resource.name, 0), resource.weight)
            for resource in self._resources
            if resource.name in _NATIVE or (is_scalar(resource.name) and amounts.get(resource.name))
        )
        numbers = np.array([(amount, weight) for _, _, amount, weight in scored], dtype=np.int64).reshape(-1, 2, 1)
        state[_NUMBERS] = numbers[:, 0], numbers[:, 1]

    def _columns_for_scoring(self, nodes: NodeTable, resource: str) -> tuple[Column, Column]:
        """Return the columns with defaults for containers without cpu or memory requests, and with devices."""
        if resource not in _NATIVE:
            return self._device_columns.columns_for(resource, nodes)
        offered, requested = _columns(nodes, resource)
        return offered, {"cpu": nodes.non_zero_cpu, "memory": nodes.non_zero_memory}.get(resource, requested)

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        row, free, scores = node.row, self._strategy.free, self._strategy.scores
        total = weights = 0
        for offered, requested, amount, weight in state[_SCORED]:
            room = offered.cells[row]
            if room <= 0:
                continue
            taken = requested.cells[row] + amount
            taken = taken if taken < room else room
            score = (room - taken if free else taken) * MAX_SCORE // room
            if scores is not None:
                score = scores.item(score)
                weight = weight if score else 0
            total += score * weight
            weights += weight
        if not weights:
            return 0
        return total // weights if scores is None else (2 * total + weights) // (2 * weights)  # the nearest, halves up

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        free, scores, scored = self._strategy.free, self._strategy.scores, state[_SCORED]
        if not scored:
            return 0
        amounts, weights = state[_NUMBERS]
        room = np.array([offered.values[rows] for offered, _, _, _ in scored])
        taken = np.minimum(np.array([requested.values[rows] for _, requested, _, _ in scored]) + amounts, room)
        if np.count_nonzero(room) < room.size:  # usually all nodes offer the scored resources
            room, weights = np.maximum(room, 1), weights * (room > 0)
        each = (room - taken if free else taken) * MAX_SCORE // room
        if scores is not None:
            each = scores[each]
            weights = weights * (each > 0)
        total: Scores = np.add.reduce(each * weights)
        weight: Scores = np.maximum(np.add.reduce(weights), 1)
        return total // weight if scores is None else (2 * total + weight) // (2 * weight)

    @hookimpl
    def placement_score(self, group: GenericPodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable) -> list[int]:
        """Score by the share of all nodes' resources in use with the pods, whatever the strategy for nodes is.

        Resources that a device class backs do not count.
        """
        rows = np.concatenate([each.placement.rows for each in placed])
        bounds = np.cumsum([0, *(len(each.placement.rows) for each in placed)])
        totals, weights = [0] * len(placed), [0] * len(placed)
        # Placements where the same pods are placed share them.
        distinct = {id(each.pods): each.pods for each in placed}
        for resource in self._resources:
            name = resource.name
            is_native = name in _NATIVE
            if not is_native and (not is_scalar(name) or self._backed.class_for(name) is not None):
                continue
            amounts = {key: sum(pod.template.scoring.get(name, 0) for pod in pods) for key, pods in distinct.items()}
            offered, requested = (
                _sums(column.values[rows], bounds) for column in self._columns_for_scoring(nodes, name)
            )
            for index, (room, used) in enumerate(zip(offered, requested, strict=True)):
                amount = amounts[id(placed[index].pods)]
                if room and (amount or is_native):
                    totals[index] += min(used + amount, room) * MAX_SCORE // room * resource.weight
                    weights[index] += resource.weight
        return [total // weight if weight else 0 for total, weight in zip(totals, weights, strict=True)]

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, after_pod_change),
            ClusterEvent(
                EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, self.after_node_change
            ),
            ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE, after_class_change),
        ]

    def after_node_change(self, pod: PendingPod, old: Node | None, new: Node) -> QueueingHint:
        """Queue the pod for a node that could hold it when empty, and is new or offers more of its requests.

        A node that may have devices for its requests always wakes the pod, as in kube-scheduler.
        """
        after = allocatable(new)
        wanted, devices = {"pods": 1}, False
        for resource, amount, _ in self._checked_requests(pod):
            if self._may_be_devices(resource, after.get(resource, 0)):
                devices = True
            else:
                wanted[resource] = amount
        if any(amount > after.get(resource, 0) for resource, amount in wanted.items()):
            return QueueingHint.SKIP
        before = allocatable(old) if old is not None else {}
        grown = any(after[resource] > before.get(resource, 0) for resource in wanted)
        return queue_if(old is None or devices or grown)

    def _may_be_devices(self, resource: str, offered: int) -> bool:
        return not offered and self._backed.class_for(resource) is not None


def _find_shortages(
    checked: Sequence[tuple[Column, Column, int, int, bool]], rows: Rows, needed: NDArray[np.int64]
) -> Scores:
    """Return the reason bits of nodes without this much of each resource, (resources, nodes), in addition."""
    rooms = np.array([offered.values[rows] for offered, _, _, _, _ in checked])
    shorts = needed > rooms - np.array([requested.values[rows] for _, requested, _, _, _ in checked])
    if not np.count_nonzero(shorts):  # most nodes have room, and then none is too small
        return np.zeros(shorts.shape[1], dtype=np.int64)
    bits: Scores = _FULL * shorts[0]
    for (_, _, amount, bit, backed), room, short in zip(checked[1:], rooms[1:], shorts[1:], strict=True):
        if backed:
            short &= room > 0
        bits |= bit * short
        bits |= _UNRESOLVABLE * (short & (amount > room))
    return bits


def _sums(values: NDArray[np.int64], bounds: NDArray[np.int64]) -> list[int]:
    """Return the sums of the values between these bounds."""
    sums: list[int] = np.diff(np.concatenate(([0], np.cumsum(values)))[bounds]).tolist()
    return sums


def _signature(template: PodTemplate) -> tuple[Hashable, tuple[str, ...]]:
    """Return the requests of pods of a template, and which of them devices could satisfy."""
    scalars = tuple(name for name, amount in template.fit if amount and name not in _NATIVE)
    return (template.fit, tuple(template.scoring.items())), scalars


def after_pod_change(pod: PendingPod, old: PodInfo, new: PodInfo | None) -> QueueingHint:
    """Queue the pod if it requests less itself, or if another one frees something that it requests."""
    if new is None:
        return queue_if(old.node_name or old.nominated_node_name)
    if new.uid == pod.uid:
        return QueueingHint.QUEUE
    before, after = dict(old.on_node), dict(new.on_node)
    wanted = (resource for resource, amount in pod.template.fit if amount)
    return queue_if(new.node_name and any(after.get(name, 0) < before.get(name, 0) for name in wanted))


def after_class_change(pod: PendingPod, old: DeviceClass | None, new: DeviceClass) -> QueueingHint:
    """Queue the pod if the class now backs a resource that it requests."""
    name = new.spec.extended_resource_name
    names = {name, CLASS_PREFIX + new.metadata.name} if old is None else {name} - {old.spec.extended_resource_name}
    return queue_if(any(amount and resource in names for resource, amount in pod.template.fit))


def _columns(nodes: NodeTable, resource: str) -> tuple[Column, Column]:
    nodes.allocatable(resource)  # makes the columns if no node has offered any yet
    return nodes.allocatables[resource], nodes.requesteds[resource]


# -- strategies: the same arithmetic for one node and for many ---------------------------------------------------------


class _Strategy(msgspec.Struct, frozen=True):
    """A function from the utilization of each resource to a score, and from these scores to the node's.

    `scores` maps each percentage in use to a score, and 0 does not count; None takes the share of the resource
    that is `free`, or in use.
    """

    free: bool
    scores: NDArray[np.int64] | None = None


def _create_strategy(strategy: ScoringStrategy) -> _Strategy:
    if strategy.requested_to_capacity_ratio is not None:
        scores = interpolate_scores(strategy.requested_to_capacity_ratio.shape)
        return _Strategy(free=False, scores=np.array(scores, dtype=np.int64))
    return _Strategy(free=strategy.type != "MostAllocated")
