"""NodeName: a pod that names its node runs there or nowhere."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kframework.framework.cycle_state import CycleState
from kframework.framework.events import ActionType, ClusterEvent, EventResource
from kframework.framework.plugin import Plugin, Reads, SignReads, hookimpl
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Rows, Scores
from kframework.values.status import Status, unresolvable

REASON = "node(s) didn't match the requested node name"

_OTHER_NODE = unresolvable(REASON)


class NodeName(Plugin):
    """Reject every node but the one in the pod's spec."""

    name = "NodeName"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return pod.spec.node_name

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        wanted = pod.spec.node_name
        return _OTHER_NODE if wanted and wanted != node.name else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        wanted = pod.spec.node_name
        other = np.full(nodes.capacity, bool(wanted), dtype=np.int64)
        row = nodes.row(wanted)
        if row is not None:
            other[row] = 0
        return other[rows]

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _OTHER_NODE

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [ClusterEvent(EventResource.NODE, ActionType.ADD)]
