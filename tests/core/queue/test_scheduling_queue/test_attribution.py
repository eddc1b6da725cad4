"""A queued pod knows which event called for its next attempt."""

from __future__ import annotations

from kframework.framework.events import ActionType, ObservedEvent
from tests.core.queue.rig import NODE_ADD, Rig, pending
from tests.core.queue.states import gated


def woken(rig: Rig) -> str:
    """Pop the pod, and say what called for the attempt."""
    assert rig.pop() == "pod"
    return rig.popped["pod"].requeued_by


def tried(*rejectors: str) -> Rig:
    """Put a pod back after its first attempt."""
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.put_back("pod", *rejectors)
    return rig


def test_first_attempt_is_attributed_to_the_new_pod() -> None:
    rig = Rig()
    rig.add("pod")
    assert woken(rig) == "UnscheduledPodAdd"


def test_attempt_is_attributed_to_the_event_before_the_backoff() -> None:
    rig = tried("Fit")
    rig.queue.move_on_event(NODE_ADD)
    assert rig.place() == "backoff"
    rig.sleep(10)
    assert woken(rig) == "NodeAdd"


def test_attempt_is_attributed_to_the_event_if_backoff_is_cut_short() -> None:
    rig = tried("Fit")
    rig.queue.move_on_event(NODE_ADD)
    assert rig.place() == "backoff"
    assert woken(rig) == "NodeAdd"


def test_attempt_is_attributed_to_the_flush() -> None:
    rig = tried("Fit")
    rig.sleep(360)
    assert woken(rig) == "UnschedulableTimeout"


def test_attempt_of_a_pod_that_the_flush_found_gated_is_attributed_to_what_released_it() -> None:
    rig = gated(by="Fit")
    rig.sleep(360)
    assert rig.place() == "gated"
    rig.gates.clear()
    rig.queue.move_on_event(NODE_ADD)
    assert woken(rig) == "NodeAdd"


def test_attempt_is_attributed_to_the_error_before() -> None:
    rig = tried()
    rig.sleep(10)
    assert woken(rig) == "ScheduleAttemptFailure"


def test_attempt_is_attributed_to_the_failure_if_the_event_came_in_flight() -> None:
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.queue.move_on_event(ObservedEvent("Node", ActionType.ADD))
    rig.put_back("pod", "Fit")
    assert woken(rig) == "ScheduleAttemptFailure"


def test_attempt_is_attributed_to_the_activation() -> None:
    rig = tried("Fit")
    rig.queue.activate(pending().uid)
    assert woken(rig) == "ForceActivate"
