"""What happens by itself: ends of rests and the flush, each at its deadline (reference 05 5.2, 5.3)."""

from __future__ import annotations

import pytest

from tests.core.queue.rig import NODE_ADD, START, Rig
from tests.core.queue.states import gated


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.75])
@pytest.mark.parametrize("after_error", [False, True])
def test_backoff_ends_at_a_whole_second(fraction: float, after_error: bool) -> None:
    rig = Rig()
    rig.sleep(fraction)
    rig.add("pod")
    rig.pop()
    rig.queue.move_on_event(NODE_ADD)
    rig.put_back("pod", *(() if after_error else ("Fit",)))
    assert rig.queue.retry_deadline == START + 2
    rig.now = START + 2 - 0.125
    rig.queue.tick()
    assert rig.place() == "backoff"
    rig.now = START + 2
    rig.queue.tick()
    assert rig.place() == "active" and rig.queue.retry_deadline is None
    assert rig.queue.incoming["active", "BackoffComplete"] == 1


@pytest.mark.parametrize(
    ("waits_since", "flushed"),
    [(0.0, 330.0), (0.25, 330.0), (29.75, 330.0), (30.0, 360.0), (30.25, 360.0), (60.0, 390.0)],
    ids=str,
)
def test_pod_unschedulable_for_over_five_minutes_is_requeued(waits_since: float, flushed: float) -> None:
    rig = Rig()
    rig.sleep(waits_since)
    rig.add("pod")
    rig.pop()
    rig.put_back("pod", "Deaf")
    assert rig.queue.flush_deadline == START + flushed
    rig.now = START + flushed - 0.125
    rig.queue.tick()
    assert rig.place() == "unschedulable"
    rig.now = START + flushed
    rig.queue.tick()
    assert rig.place() == "active" and rig.deadline is None
    assert rig.queue.incoming["active", "UnschedulableTimeout"] == 1


def test_flush_asks_the_gates_again_since_1_37() -> None:
    rig = gated()
    rig.gates.clear()
    rig.sleep(329)
    assert rig.place() == "gated"
    rig.sleep(1)
    assert rig.place() == "active" and rig.deadline is None
    assert rig.queue.incoming["active", "UnschedulableTimeout"] == 1


def test_no_flush_asks_the_gates_in_1_36() -> None:
    rig = gated(minor="1.36")
    rig.gates.clear()
    assert rig.deadline is None
    rig.sleep(3600)
    rig.queue.tick()
    assert rig.place() == "gated"


def test_next_flush_of_a_pod_that_is_gated_again_counts_from_the_last() -> None:
    rig = gated()
    (queued,) = rig.queue
    flushes = []
    for _ in range(3):
        assert rig.deadline is not None
        rig.sleep(rig.deadline - rig.now)
        flushes.append(rig.now - START)
    assert flushes == [330.0, 660.0, 990.0]
    assert (rig.place(), queued.timestamp) == ("gated", START), "its place in the order is as before"


def test_first_of_several_gated_pods_is_flushed_first_whichever_was_gated_last() -> None:
    rig = Rig()
    rig.gates = {"early": "Fit", "late": "Labels"}
    rig.add("early")
    rig.sleep(60)
    rig.add("late")
    rig.queue.move_on_event(NODE_ADD)  # gates the first pod again
    assert rig.deadline == START + 330
    rig.sleep(270)
    assert rig.deadline == START + 390


def test_release_of_the_last_gated_pod_ends_its_flush() -> None:
    rig = gated(by="Fit")
    rig.gates.clear()
    rig.queue.move_on_event(NODE_ADD)
    assert rig.place() == "active" and rig.deadline is None


def test_flush_of_a_released_pod_does_not_wake_the_next_one_that_is_gated() -> None:
    rig = gated(by="Fit")
    rig.gates.clear()
    rig.queue.move_on_event(NODE_ADD)
    rig.sleep(330)
    rig.gates["late"] = "Fit"
    rig.add("late")
    assert rig.deadline == START + 660
