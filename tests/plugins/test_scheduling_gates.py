from __future__ import annotations

from kframework import ActionType, unresolvable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.plugins.scheduling_gates import SchedulingGates, after_gate_removal
from kframework.testing import make_pod
from tests.plugins.asking import made, pending


def test_pod_with_gates_is_held_back_and_the_gates_are_named() -> None:
    held = made(SchedulingGates).pre_enqueue(pending(make_pod(gates=["example.com/a", "b"])))
    assert held == unresolvable("waiting for scheduling gates: [example.com/a b]")


def test_pod_without_gates_goes_on() -> None:
    assert made(SchedulingGates).pre_enqueue(pending(make_pod())) is None


def test_only_the_end_of_its_own_gates_wakes_a_pod() -> None:
    assert made(SchedulingGates).events_to_register() == [
        ClusterEvent("Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, after_gate_removal)
    ]
    gated, free = pending(make_pod("a", gates=["x"])), pending(make_pod("a"))
    other, other_free = pending(make_pod("b", gates=["x"])), pending(make_pod("b"))
    assert after_gate_removal(gated, gated, free) is QueueingHint.QUEUE
    assert after_gate_removal(gated, other, other_free) is QueueingHint.SKIP
