"""NodeUnschedulable: a cordoned node accepts only pods that tolerate the taint of cordoned nodes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kframework.framework.cycle_state import CycleState
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, hookimpl
from kframework.framework.suggestions import Suggestions, uncordon
from kframework.objects import Node
from kframework.objects.taints import CORDON, tolerates
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows, Scores
from kframework.values.status import Status, unresolvable

REASON = "node(s) were unschedulable"

_CORDONED = unresolvable(REASON)


class NodeUnschedulable(Plugin):
    """Reject the nodes that are cordoned, unless the pod tolerates it."""

    name = "NodeUnschedulable"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()

    @hookimpl
    def sign(self, pod: PendingPod) -> bool:
        return _tolerates_cordon(pod)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return _CORDONED if node.unschedulable and not _tolerates_cordon(pod) else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        cordoned = nodes.unschedulable.values[rows]
        return np.zeros_like(cordoned) if _tolerates_cordon(pod) else cordoned.copy()

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _CORDONED

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None  # only `filter` rejects
        return [uncordon(node.name)]

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, after_node_change),
            ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION, after_toleration_change),
        ]


def after_node_change(pod: PendingPod, old: Node | None, new: Node) -> QueueingHint:
    was_schedulable = old is not None and not old.spec.unschedulable
    return queue_if(not was_schedulable and not new.spec.unschedulable)


def after_toleration_change(pod: PendingPod, old: PodInfo, new: PodInfo) -> QueueingHint:
    """Queue the pod if it now tolerates cordoned nodes."""
    return queue_if(new.uid == pod.uid and _tolerates_cordon(new))


def _tolerates_cordon(pod: PodInfo) -> bool:
    return pod.template.cached(
        NodeUnschedulable, lambda spec: any(tolerates(each, CORDON) for each in spec.tolerations)
    )
