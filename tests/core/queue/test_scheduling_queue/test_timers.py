"""What happens by itself: ends of rests and the flush, each at its deadline (reference 05 5.2, 5.3)."""

from __future__ import annotations

import pytest

from kframework.core.queue.scheduling_queue import Backoff
from tests.core.queue.rig import NODE_ADD, START, Rig, pending
from tests.core.queue.states import LONG, failed, gated


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.75])
@pytest.mark.parametrize("after_error", [False, True])
def test_a_rest_ends_at_a_whole_second(fraction: float, after_error: bool) -> None:
    rig = Rig()
    rig.sleep(fraction)
    rig.add("pod")
    rig.pop()
    rig.queue.move(NODE_ADD)
    rig.put_back("pod", *(() if after_error else ("Fit",)))
    assert rig.queue.retry_deadline == START + 2
    rig.now = START + 2 - 0.125
    rig.queue.tick()
    assert rig.place() == "backoff"
    rig.now = START + 2
    rig.queue.tick()
    assert rig.place() == "active" and rig.queue.retry_deadline is None
    assert rig.queue.incoming["active", "BackoffComplete"] == 1


def test_the_first_rest_to_end_makes_the_deadline() -> None:
    rig = failed("Fit")
    rig.queue.move(NODE_ADD)
    rig.sleep(0.5)
    rig.add("late")
    rig.pop()
    rig.put_back("late")
    assert rig.queue.retry_deadline == START + 2
    rig.queue.delete(pending().uid)
    assert rig.queue.retry_deadline == START + 2
    rig.sleep(LONG)
    assert rig.places() == {"late": "active"}


def test_an_idle_queue_has_no_deadline() -> None:
    rig = Rig()
    assert rig.deadline is None
    rig.add("pod", "gated")
    assert rig.deadline is None
    rig.pop()
    assert rig.deadline is None


@pytest.mark.parametrize(
    ("waits_since", "flushed"),
    [(0.0, 330.0), (0.25, 330.0), (29.75, 330.0), (30.0, 360.0), (30.25, 360.0), (60.0, 390.0)],
    ids=str,
)
def test_a_pod_that_has_waited_for_more_than_five_minutes_is_tried_again(waits_since: float, flushed: float) -> None:
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


def test_the_flush_counts_from_the_start_of_the_queue() -> None:
    rig = Rig(start=START + 0.7)
    rig.now = START + 11.3
    rig.add("pod")
    rig.pop()
    rig.put_back("pod", "Fit")
    assert rig.queue.flush_deadline == START + 0.7 + 330


def test_a_flush_lets_a_long_rest_go_on() -> None:
    rig = Rig(backoff=Backoff(600, 600))
    rig.add("pod")
    rig.pop()
    rig.put_back("pod", "Fit")
    rig.sleep(330)
    assert rig.place() == "backoff"
    assert rig.queue.retry_deadline == START + 601


def test_a_late_flush_takes_no_pod_before_its_time() -> None:
    rig = Rig()
    rig.add("a", "b")
    rig.pop()
    rig.put_back("a", "Fit")
    rig.now = START + 30
    rig.pop()
    rig.put_back("b", "Fit")
    rig.now = START + 345  # both are older than five minutes, but b was not when the pool was to be looked through
    rig.queue.tick()
    assert rig.places() == {"a": "active", "b": "unschedulable"}
    assert rig.queue.flush_deadline == START + 360


def test_gated_pods_are_not_flushed() -> None:
    rig = gated(by="Everything")
    rig.gates.clear()
    rig.sleep(1000)
    assert rig.place() == "gated"


def test_a_flush_counts_for_pods_in_flight() -> None:
    rig = Rig()
    rig.add("old", "pod")
    rig.pop()
    rig.put_back("old", "Deaf")
    rig.pop()
    rig.sleep(330)
    rig.put_back("pod", "Deaf")
    assert rig.places() == {"old": "active", "pod": "backoff"}


def test_a_pod_woken_before_its_flush_takes_its_deadline_along() -> None:
    rig = failed("Fit")
    rig.sleep(10)
    rig.queue.move(NODE_ADD)
    assert rig.place() == "active" and rig.deadline is None
