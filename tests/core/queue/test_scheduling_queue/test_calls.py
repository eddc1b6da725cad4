"""A queued pod knows which event called for its next attempt."""

from __future__ import annotations

from kframework.framework.events import ActionType, ObservedEvent
from tests.core.queue.rig import NODE_ADD, Rig, pending


def woken(rig: Rig) -> str:
    """Pop the pod, and say what called for the attempt."""
    assert rig.pop() == "pod"
    return rig.popped["pod"].woken_by


def tried(*rejectors: str) -> Rig:
    """Put a pod back after its first attempt."""
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.put_back("pod", *rejectors)
    return rig


def test_the_first_attempt_is_called_for_by_the_pod_itself() -> None:
    rig = Rig()
    rig.add("pod")
    assert woken(rig) == "PodAdd"


def test_the_event_counts_and_not_the_end_of_the_rest_after_it() -> None:
    rig = tried("Fit")
    rig.queue.move_on_event(NODE_ADD)
    assert rig.place() == "backoff"
    rig.sleep(10)
    assert woken(rig) == "NodeAdd"


def test_nor_does_it_count_that_the_rest_is_cut_short() -> None:
    rig = tried("Fit")
    rig.queue.move_on_event(NODE_ADD)
    assert rig.place() == "backoff"
    assert woken(rig) == "NodeAdd"


def test_time_may_have_called() -> None:
    rig = tried("Fit")
    rig.sleep(360)
    assert woken(rig) == "UnschedulableTimeout"


def test_an_error_calls_for_another_attempt() -> None:
    rig = tried()
    rig.sleep(10)
    assert woken(rig) == "ScheduleAttemptFailure"


def test_an_event_of_the_attempt_itself_calls_when_it_ends() -> None:
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.queue.move_on_event(ObservedEvent("Node", ActionType.ADD))
    rig.put_back("pod", "Fit")
    assert woken(rig) == "ScheduleAttemptFailure"


def test_whoever_activates_a_pod_calls() -> None:
    rig = tried("Fit")
    rig.queue.activate(pending().uid)
    assert woken(rig) == "ForceActivate"
