"""DynamicResources: resource claims are not allocated here, so pods with claims wait; to all others it says nothing."""

from __future__ import annotations

from typing import ClassVar

from kframework.config.args import DynamicResourcesArgs
from kframework.framework.answers import Diagnosis, Rows
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ClusterEvent
from kframework.framework.plugin import Plugin, Reads, hookimpl
from kframework.framework.status import Skip, Status, error, unresolvable, unschedulable
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod

REASON = "resource claims are not allocated by this scheduler: [{}]"
NOTHING_TO_DEALLOCATE = "no new claims to deallocate"

#: Set when `pre_filter` ran.
_PREPARED = StateKey[bool]("DynamicResources")

_NOTHING = unschedulable(NOTHING_TO_DEALLOCATE)


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Hold back the pods that have resource claims.

    It stands at every point where kube-scheduler has it, as a configuration may name it there.
    """

    name = "DynamicResources"
    reads: ClassVar[Reads] = "node"

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        claims = pod.spec.resource_claims
        return unresolvable(REASON.format(" ".join(claim.name for claim in claims))) if claims else None

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return ""

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status:
        state[_PREPARED] = True
        return Skip

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        return None

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status:
        return _NOTHING if _PREPARED in state else error("not found")  # kube-scheduler's words

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 0

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> int:
        return 0

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        return None

    @hookimpl
    def pre_bind_pre_flight(self, state: CycleState, pod: PendingPod, node_name: str) -> Status:
        return Skip

    @hookimpl
    def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        return None

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return []
