"""Whose turn it is: order, pop and return (reference 05 5.1, 5.4, 5.5)."""

from __future__ import annotations

import pytest

from kframework.state.pods import QueuedPod
from tests.core.queue.rig import NODE_ADD, START, Rig, pending
from tests.core.queue.states import LONG, STATES, failed, is_backing_off, place_of


def test_pods_are_popped_by_priority_then_time_then_arrival() -> None:
    rig = Rig()
    for name, priority, pause in [("a", 0, 0), ("b", 5, 0), ("c", 0, 0), ("d", 5, 1), ("e", 9, 1)]:
        rig.sleep(pause)
        rig.add(name, priority=priority)
    assert rig.drain() == ["e", "b", "d", "a", "c"]


def test_sort_key_is_fixed_while_the_pod_is_queued() -> None:
    ranks = {"a": 1, "b": 2}
    rig = Rig(sort=lambda queued: ranks[queued.pod.name])
    rig.add("a", "b")
    ranks.update(a=3, b=0)
    assert rig.drain() == ["a", "b"]


@pytest.mark.parametrize("state", ["active", "backoff"])
def test_update_computes_the_sort_key_again(state: str) -> None:
    ranks = {"pod": 1, "other": 2}
    rig = Rig(sort=lambda queued: ranks[queued.pod.name])
    rig.add("pod", "other")
    if state == "backoff":
        for name in rig.drain():
            rig.put_back(name, "Fit")
        rig.queue.move_on_event(NODE_ADD)
    ranks.update(pod=3)
    rig.update(pending("pod", label="new"))
    assert set(rig.places().values()) == {state}
    assert rig.drain() == ["other", "pod"]


def test_pop_counts_the_attempt_and_marks_the_pod_in_flight() -> None:
    rig = Rig()
    rig.add("pod")
    for attempts in (1, 2, 3):
        popped = rig.queue.pop()
        assert popped is not None and popped.attempts == attempts
        assert pending().uid in rig.queue.in_flight
        popped.unschedulable_plugins = frozenset({"Fit"})
        rig.queue.put_back(popped)
        rig.queue.move_on_event(NODE_ADD)


def test_rejected_pod_is_popped_from_backoff_if_none_is_active() -> None:
    rig = is_backing_off(after_error=False)
    rig.add("other")
    assert [rig.pop(), rig.pop(), rig.pop()] == ["other", "pod", None]
    assert rig.queue.incoming["active", "PopFromBackoffQ"] == 1


def test_pod_that_failed_with_an_error_is_not_popped_from_backoff() -> None:
    rig = is_backing_off(after_error=True)
    assert rig.pop() is None
    rig.sleep(2)
    assert rig.pop() == "pod"


def test_queue_entry_of_a_pod_in_flight_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.add("pod", "other")
    assert rig.drain() == ["other"]
    assert "Pod default/pod is already in flight" in caplog.text
    assert len(rig.queue) == 0 and len(rig.queue.in_flight) == 2


@pytest.mark.parametrize(
    ("rejectors", "place", "rejections", "errors"),
    [((), "backoff", 0, 1), (("Fit",), "unschedulable", 1, 0), (("Deaf",), "unschedulable", 1, 0)],
)
def test_failed_pod_is_put_into_the_expected_queue(
    rejectors: tuple[str, ...], place: str, rejections: int, errors: int
) -> None:
    rig = failed(*rejectors)
    (queued,) = rig.queue
    assert rig.place() == place
    assert (queued.unschedulable_count, queued.consecutive_errors) == (rejections, errors)
    assert len(rig.queue.in_flight) == 0
    assert rig.queue.incoming[place, "ScheduleAttemptFailure"] == 1


@pytest.mark.parametrize("state", STATES)
def test_queued_pod_is_not_put_back(state: str, caplog: pytest.LogCaptureFixture) -> None:
    rig = STATES[state]()
    (queued,) = rig.queue
    rig.queue.put_back(QueuedPod(pending(), START))
    assert list(rig.queue) == [queued]
    assert rig.place() == place_of(state)
    assert "Pod default/pod is already present in the queue" in caplog.text


def test_incomparable_key_is_reported_and_keeps_the_order_of_others() -> None:
    keys = {"a": (0, 5), "b": (1, "x"), "c": (1, 3), "d": (2, 0)}
    rig = Rig(sort=lambda queued: keys[queued.pod.name])
    rig.add(*"dcba")
    assert rig.drain() == ["a", "c", "b", "d"]
    assert [type(error) for error in rig.unsorted] == [TypeError]


def test_incomparable_keys_do_not_delay_the_end_of_backoffs() -> None:
    keys: dict[str, object] = {"a": 1, "b": "x", "c": None, "d": 2}
    rig = Rig(sort=lambda queued: keys[queued.pod.name])
    rig.add(*"abcd")
    for pause, name in zip((0, 0.5, 0, 0.5), rig.drain(), strict=True):
        rig.sleep(pause)
        rig.put_back(name, "Fit")
    rig.queue.move_on_event(NODE_ADD)
    assert rig.queue.retry_deadline == START + 2
    rig.sleep(LONG)
    assert sorted(rig.drain()) == [*"abcd"]


def test_pods_are_counted_by_queue() -> None:
    rig = Rig()
    rig.gates["gated"] = "Labels"
    rig.add("rejected", "woken", "failed", "popped")
    rig.add("gated", "active")
    for _ in range(4):
        rig.pop()
    rig.put_back("woken", "Fit")
    rig.queue.move_on_event(NODE_ADD)
    rig.put_back("failed")
    rig.put_back("rejected", "Taints")
    assert rig.queue.count_by_queue() == {"active": 1, "backoff": 2, "unschedulable": 1, "gated": 1}
    assert len(rig.queue) == 5
    assert [queued.pod.name for queued in rig.queue] == ["active", "woken", "failed", "rejected", "gated"]
