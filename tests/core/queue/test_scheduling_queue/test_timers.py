"""What happens by itself: ends of rests and the flush, each at its deadline (reference 05 5.2, 5.3)."""

from __future__ import annotations

import pytest

from tests.core.queue.rig import NODE_ADD, START, Rig, pending
from tests.core.queue.states import LONG, failed, gated


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


def test_a_pod_woken_before_its_flush_takes_its_deadline_along() -> None:
    rig = failed("Fit")
    rig.sleep(10)
    rig.queue.move(NODE_ADD)
    assert rig.place() == "active" and rig.deadline is None


def test_gated_pods_are_not_flushed() -> None:
    rig = gated(by="Everything")
    rig.gates.clear()
    rig.sleep(1000)
    assert rig.place() == "gated"
