"""SchedulingGates: a pod with scheduling gates is not tried before the last of them is gone."""

from __future__ import annotations

from kframework.framework.cycle_state import CycleState
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, hookimpl
from kframework.framework.suggestions import Suggestions, drop_item
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.status import Status, unresolvable

REASON = "waiting for scheduling gates: [{}]"


class SchedulingGates(Plugin):
    """Gate the pods that have scheduling gates."""

    name = "SchedulingGates"

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        gates = pod.spec.scheduling_gates
        return unresolvable(REASON.format(" ".join(gate.name for gate in gates))) if gates else None

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: object, status: Status) -> Suggestions:
        path = "spec.scheduling_gates"
        return [
            tuple(
                drop_item("removeGate", f"remove the scheduling gate {gate.name}", path, gate, gate=gate.name)
                for gate in pod.spec.scheduling_gates
            )
        ]

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        ungated = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return [ClusterEvent(EventResource.POD, ungated, after_gate_removal)]


def after_gate_removal(pod: PendingPod, old: PodInfo, new: PodInfo) -> QueueingHint:
    return queue_if(new.uid == pod.uid)
