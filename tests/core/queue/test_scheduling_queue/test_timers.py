"""What happens by itself: ends of rests and the flush, each at its deadline (reference 05 5.2, 5.3)."""

from __future__ import annotations

import pytest

from tests.core.queue.rig import NODE_ADD, START, Rig


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
