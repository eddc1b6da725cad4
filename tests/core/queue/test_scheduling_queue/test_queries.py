"""Queries of the queue find every pod in its state, in the order in which it will leave."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.queue.rig import NODE_ADD, NODE_TAINT, START, Rig, pending
from tests.core.queue.states import STATES, place_of

PLACES = ("active", "backoff", "unschedulable", "gated")


def looked_up(rig: Rig, place: str) -> list[str]:
    return [queued.pod.name for queued in rig.queue.pods_in(place)]


@pytest.mark.parametrize("state", STATES)
def test_queue_of_names_the_queue_of_a_pod(state: str) -> None:
    rig = STATES[state]()
    assert rig.queue.queue_of(pending().uid) == place_of(state)
    assert {place: looked_up(rig, place) for place in PLACES if looked_up(rig, place)} == {place_of(state): ["pod"]}


def test_queue_of_is_empty_for_a_pod_in_no_queue() -> None:
    rig = Rig()
    rig.add("pod")
    rig.pop()
    assert rig.queue.queue_of(pending().uid) == ""


def test_unknown_queue_raises_value_error() -> None:
    with pytest.raises(ValueError, match="there is no queue 'elsewhere'"):
        Rig().queue.pods_in("elsewhere")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "pop", "reject", "fail", "node", "taint", "wait"]),
            st.integers(0, 9),
            st.sets(st.sampled_from(["Fit", "Taints", "Labels"]), min_size=1),
        ),
        max_size=60,
    )
)
def test_iteration_lists_each_pod_once(steps: list[tuple[str, int, set[str]]]) -> None:
    rig = Rig()
    rig.gates["9"] = "Labels"
    for step, number, plugins in steps:
        _do(rig, step, str(number), plugins)
    by_place = {place: looked_up(rig, place) for place in PLACES}
    assert {name: place for place, names in by_place.items() for name in names} == {
        name: place for name, place in rig.places().items() if place != "in flight"
    }
    assert {place: len(names) for place, names in by_place.items()} == rig.queue.count_by_queue()
    held = [queued for queued in rig.queue if rig.queue.waits_for_event(queued.pod.uid)]
    by_plugin = {
        plugin: [q.pod.name for q in held if plugin in ([q.gating_plugin] if q.gating_plugin else q.rejectors)]
        for plugin in ("Fit", "Taints", "Labels")
    }
    for plugin, names in by_plugin.items():
        assert [queued.pod.name for queued in rig.queue.held_by(("default-scheduler", plugin))] == names
    counts = {("default-scheduler", plugin): len(names) for plugin, names in by_plugin.items() if names}
    assert rig.queue.count_by_plugin() == Counter(counts)
    ends = [rig.queue.backoff_expires_at(queued) for queued in rig.queue.pods_in("backoff")]
    assert ends == sorted(ends) and all(end > rig.now for end in ends)
    active = looked_up(rig, "active")
    assert rig.drain()[: len(active)] == active


def _do(rig: Rig, step: str, name: str, plugins: set[str]) -> None:
    in_flight = [popped for popped, queued in rig.popped.items() if rig.in_flight(queued)]
    match step:
        case "add" if name not in rig.places():
            rig.add(name, priority=int(name) % 3)
        case "pop":
            rig.pop()
        case "reject" if in_flight:
            rig.put_back(in_flight[0], *sorted(plugins))
        case "fail" if in_flight:
            rig.put_back(in_flight[0])
        case "node":
            rig.queue.move_on_event(NODE_ADD)
        case "taint":
            rig.queue.move_on_event(NODE_TAINT)
        case "wait":
            rig.sleep(0.7)


def test_backoff_expiry_time_is_reported() -> None:
    rig = STATES["backoff"]()
    (queued,) = rig.queue.pods_in("backoff")
    assert rig.queue.backoff_expires_at(queued) == START + 2 == rig.queue.retry_deadline
