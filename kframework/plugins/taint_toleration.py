"""TaintToleration: a taint keeps away the pods that do not tolerate it; a soft one only makes a node less liked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar

from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, hookimpl
from kframework.framework.suggestions import ChangeEstimates, Suggestions, remove_taint, tolerate, uncordon
from kframework.objects import Node, PodSpec, Taint, Toleration
from kframework.objects.taints import first_untolerated, is_cordon, tolerates
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows, Scores, default_normalize
from kframework.values.status import Status, unresolvable

REASON = "node(s) had untolerated taint(s)"

_UNTOLERATED = unresolvable(REASON)
_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_SOFT_EFFECT = "PreferNoSchedule"
#: The pod's tolerations that can cover a soft taint.
_SOFT_TOLERATIONS = StateKey[tuple[Toleration, ...]]("TaintToleration")


class TaintToleration(Plugin):
    """Reject nodes with a taint that the pod does not tolerate, and prefer those with few soft ones."""

    name = "TaintToleration"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        return pod.template.cached(TaintToleration, _signature)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        taints = node.taints
        return _UNTOLERATED if taints and _has_untolerated(taints, pod.spec.tolerations) else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        tolerations = pod.spec.tolerations
        return nodes.taint_sets.map_values(rows, lambda taints: _has_untolerated(taints, tolerations))

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _UNTOLERATED

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None  # only `filter` rejects
        untolerated = _untolerated(node.taints, pod.spec.tolerations)
        return [
            tuple(
                uncordon(node.name) if node.unschedulable and is_cordon(taint) else remove_taint(node.name, taint)
                for taint in untolerated
            ),
            tuple(map(tolerate, untolerated)),
        ]

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        """Count the taints, except that of a cordoned node, which NodeUnschedulable suggests to uncordon."""
        tolerations = pod.spec.tolerations
        taints = nodes.taint_sets.map_values(rows, lambda taints: len(_untolerated(taints, tolerations)))
        cordons = nodes.taint_sets.map_values(
            rows, lambda taints: sum(map(is_cordon, _untolerated(taints, tolerations)))
        )
        return taints - cordons * nodes.unschedulable.values[rows]

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> None:
        state[_SOFT_TOLERATIONS] = tuple(
            toleration for toleration in pod.spec.tolerations if toleration.effect in ("", _SOFT_EFFECT)
        )

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        tolerations = state[_SOFT_TOLERATIONS]
        return _soft_untolerated(node.taints, tolerations)

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        tolerations = state[_SOFT_TOLERATIONS]
        return nodes.taint_sets.map_values(rows, lambda taints: _soft_untolerated(taints, tolerations))

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        return default_normalize(scores, reverse=True)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, after_node_change),
            ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION, after_toleration_change),
        ]


def after_node_change(pod: PendingPod, old: Node | None, new: Node) -> QueueingHint:
    """Queue the pod for a node whose taints no longer reject it."""
    tolerations = pod.spec.tolerations
    was_tolerated = old is not None and not _has_untolerated(old.spec.taints, tolerations)
    return queue_if(not was_tolerated and not _has_untolerated(new.spec.taints, tolerations))


def after_toleration_change(pod: PendingPod, old: PodInfo, new: PodInfo) -> QueueingHint:
    return queue_if(new.uid == pod.uid)


def _has_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    return first_untolerated(taints, tolerations, _HARD_EFFECTS) is not None


def _untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> list[Taint]:
    return [taint for taint in taints if _has_untolerated((taint,), tolerations)]


def _soft_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    soft = (taint for taint in taints if taint.effect == _SOFT_EFFECT)
    return sum(not any(tolerates(toleration, taint) for toleration in tolerations) for taint in soft)


def _signature(spec: PodSpec) -> Hashable:
    return frozenset(
        (toleration.key, toleration.operator or "Equal", toleration.value, toleration.effect)
        for toleration in spec.tolerations
    )
