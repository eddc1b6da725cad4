"""InFlight: the events since the oldest pop that is not done, and which of them each pod has to hear of."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.queue.pool import InFlight
from kframework.framework.events import ActionType, Occurrence


def event(number: int) -> Occurrence:
    """Make an event that can be told from others."""
    return Occurrence("Node", ActionType.ADD, named=str(number))


def heard(in_flight: InFlight, uid: str) -> str:
    return "".join(event.label for event in in_flight.since_pop(uid))


def test_a_pod_hears_what_happened_since_its_pop() -> None:
    in_flight = InFlight()
    in_flight.pop("a")
    in_flight.add(event(1))
    in_flight.pop("b")
    in_flight.add(event(2))
    assert (heard(in_flight, "a"), heard(in_flight, "b")) == ("12", "2")
    assert ("a" in in_flight, "c" in in_flight, len(in_flight), in_flight.events) == (True, False, 2, 2)


def test_with_nothing_in_flight_events_are_not_kept() -> None:
    in_flight = InFlight()
    in_flight.add(event(1))
    in_flight.pop("a")
    assert (heard(in_flight, "a"), in_flight.events) == ("", 0)


@pytest.mark.parametrize(
    ("first", "kept", "then"),
    [("a", 2, "b"), ("b", 3, "a")],
    ids=["the oldest goes, and what only it waited for", "a younger goes, the oldest still waits for all"],
)
def test_events_are_kept_for_the_oldest(first: str, kept: int, then: str) -> None:
    in_flight = InFlight()
    in_flight.pop("a")
    in_flight.add(event(1))
    in_flight.pop("b")
    in_flight.add(event(2))
    in_flight.add(event(3))
    assert in_flight.done(first)
    assert in_flight.events == kept
    assert in_flight.done(then)
    assert in_flight.events == 0


def test_done_twice_does_no_harm() -> None:
    in_flight = InFlight()
    in_flight.pop("a")
    assert [in_flight.done("a"), in_flight.done("a"), in_flight.done("b")] == [True, False, False]


def test_a_pod_popped_again_hears_only_of_what_came_after() -> None:
    in_flight = InFlight()
    in_flight.pop("a")
    in_flight.pop("b")
    in_flight.add(event(1))
    in_flight.done("a")
    in_flight.pop("a")
    in_flight.add(event(2))
    assert (heard(in_flight, "a"), heard(in_flight, "b")) == ("2", "12")


steps = st.lists(st.tuples(st.sampled_from(["pop", "happened", "happened", "done"]), st.sampled_from("abcd")))


@given(steps)
def test_it_is_one_list_of_pops_and_events(steps: list[tuple[str, str]]) -> None:
    """Compare with the one list of kube-scheduler, in which pods and events stand as they came."""
    in_flight = InFlight()
    entries: list[tuple[str, str]] = []
    for number, (step, uid) in enumerate(steps):
        pods = [entry[1] for entry in entries if entry[0] == "pod"]
        if step == "pop" and uid not in pods:
            in_flight.pop(uid)
            entries.append(("pod", uid))
        elif step == "happened":
            in_flight.add(event(number))
            if pods:
                entries.append(("event", str(number)))
        elif step == "done":
            assert in_flight.done(uid) == (uid in pods)
            entries = [entry for entry in entries if entry != ("pod", uid)]
            while entries and entries[0][0] == "event":
                entries.pop(0)
        pods = [entry[1] for entry in entries if entry[0] == "pod"]
        assert len(in_flight) == len(pods)
        assert in_flight.events == len(entries) - len(pods)
        assert +in_flight.kept == Counter(name for kind, name in entries if kind == "event")
        for pod in pods:
            after = entries[entries.index(("pod", pod)) :]
            assert heard(in_flight, pod) == "".join(name for kind, name in after if kind == "event")
