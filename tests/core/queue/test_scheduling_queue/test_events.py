"""What wakes a pod: events, gates, its own updates, activation; and its deletion (reference 05 5.5 to 5.8)."""

from __future__ import annotations

import pytest

from kframework.framework.events import ActionType, Occurrence
from tests.core.queue.rig import (
    ANYTHING,
    LABELLED,
    NODE_ADD,
    NODE_TAINT,
    POD_GONE,
    START,
    TOLERATES,
    Rig,
    pending,
    update_of,
)
from tests.core.queue.states import LONG, STATES, failed, gated, place_of


@pytest.mark.parametrize(
    ("rejectors", "event", "wakes"),
    [
        (("Fit",), NODE_ADD, True),
        (("Fit",), NODE_TAINT, False),
        (("Taints",), NODE_TAINT, True),
        (("Fit", "Taints"), NODE_TAINT, True),
        (("Fit",), POD_GONE, True),
        (("Labels",), POD_GONE, False),
        (("Everything",), Occurrence("example.v1.com", ActionType.UPDATE), True),
        (("Deaf",), NODE_ADD, False),
        (("Deaf",), ANYTHING, True),
        (("Unknown",), NODE_ADD, False),
    ],
)
@pytest.mark.parametrize("rested", [False, True])
def test_an_event_wakes_the_pods_whose_rejector_registered_it(
    rejectors: tuple[str, ...], event: Occurrence, wakes: bool, rested: bool
) -> None:
    rig = failed(*rejectors)
    rig.sleep(LONG if rested else 0)
    rig.queue.move(event)
    place = "unschedulable" if not wakes else "active" if rested else "backoff"
    assert rig.place() == place
    assert rig.queue.incoming[place, event.label] == (1 if wakes else 0)


@pytest.mark.parametrize(
    ("event", "place"),
    [(NODE_ADD, "active"), (NODE_TAINT, "backoff"), (ANYTHING, "backoff"), (POD_GONE, "active")],
)
def test_an_event_for_which_a_plugin_waits_skips_the_rest(event: Occurrence, place: str) -> None:
    rig = failed("Taints", pending=("Fit",))
    rig.queue.move(event)
    assert rig.place() == place


@pytest.mark.parametrize(
    ("rejectors", "waiting_for", "events", "place"),
    [
        (("Fit",), (), [], "unschedulable"),
        (("Fit",), (), [NODE_ADD], "backoff"),
        (("Fit",), (), [NODE_TAINT], "unschedulable"),
        (("Fit",), (), [NODE_TAINT, NODE_ADD], "backoff"),
        (("Deaf",), (), [NODE_ADD, POD_GONE], "unschedulable"),
        (("Deaf",), (), [ANYTHING], "backoff"),
        ((), ("Fit",), [NODE_ADD], "active"),
        (("Taints",), ("Fit",), [NODE_TAINT, NODE_ADD], "active"),
        (("Taints",), ("Fit",), [NODE_TAINT], "backoff"),
        ((), (), [NODE_ADD], "backoff"),
    ],
)
def test_what_happened_meanwhile_counts_on_return(
    rejectors: tuple[str, ...], waiting_for: tuple[str, ...], events: list[Occurrence], place: str
) -> None:
    rig = Rig()
    rig.add("pod")
    rig.queue.move(NODE_ADD)  # before the pop: of no account
    rig.pop()
    for event in events:
        rig.queue.move(event)
    rig.put_back("pod", *rejectors, pending=waiting_for)
    assert rig.place() == place
    assert rig.queue.in_flight.events == 0


@pytest.mark.parametrize(
    ("gate", "event", "place"),
    [
        ("Fit", NODE_ADD, "active"),
        ("Fit", NODE_TAINT, "gated"),
        ("Fit", ANYTHING, "gated"),
        ("Deaf", ANYTHING, "gated"),
        ("Everything", ANYTHING, "active"),
        ("Everything", NODE_TAINT, "active"),
    ],
)
def test_only_events_of_the_gating_plugin_release_a_gated_pod(gate: str, event: Occurrence, place: str) -> None:
    rig = gated(by=gate)
    rig.gates.clear()
    rig.queue.move(event)
    assert rig.place() == place


@pytest.mark.parametrize(
    ("rejector", "event", "wakes"),
    [
        ("Labels", LABELLED, True),
        ("Labels", TOLERATES, False),
        ("Taints", TOLERATES, True),
        ("Fit", LABELLED, False),
        ("Deaf", LABELLED, False),
        ("Everything", TOLERATES, True),
    ],
)
@pytest.mark.parametrize("gate", [False, True])
def test_its_own_update_wakes_a_pod_if_its_rejector_registered_it(
    rejector: str, event: Occurrence, wakes: bool, gate: bool
) -> None:
    rig = gated(by=rejector) if gate else failed(rejector)
    rig.gates.clear()
    rig.update(update_of("pod", event))
    waits, goes = ("gated", "active") if gate else ("unschedulable", "backoff")
    assert rig.place() == (goes if wakes else waits)
    assert rig.queue.incoming[goes, event.label] == (1 if wakes else 0)


@pytest.mark.parametrize("state", STATES)
def test_an_update_replaces_the_object(state: str) -> None:
    rig = STATES[state]()
    new = update_of("pod", TOLERATES)
    rig.update(new)
    (queued,) = rig.queue
    assert queued.pod is new
    assert rig.place() == place_of(state)


def test_the_update_of_an_unknown_pod_is_ignored() -> None:
    rig = Rig()
    rig.update(pending())
    assert rig.places() == {}


@pytest.mark.parametrize("state", STATES)
def test_activate_makes_any_waiting_pod_active(state: str) -> None:
    rig = STATES[state]()
    rig.gates.clear()
    rig.queue.activate(pending().uid)
    assert rig.place() == "active"
    assert rig.queue.incoming["active", "ForceActivate"] == 1  # for `active` the one that made it so
    assert rig.drain() == ["pod"]


@pytest.mark.parametrize("state", STATES)
def test_a_deleted_pod_is_gone(state: str) -> None:
    rig = STATES[state]()
    rig.queue.delete(pending().uid)
    assert rig.places() == {} and rig.deadline is None
    assert rig.drain() == []
    rig.queue.move(ANYTHING)
    rig.sleep(1000)
    assert rig.drain() == []


def test_deleting_a_pod_in_flight_leaves_its_entry_until_done() -> None:
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.queue.delete(pending().uid)
    assert rig.place() == "in flight"
    assert rig.queue.done(pending().uid)


def test_get_finds_a_pod_where_it_waits_but_not_in_flight() -> None:
    for state in STATES:
        (queued,) = (rig := STATES[state]()).queue
        assert rig.queue.get(pending().uid) is queued
    rig = Rig()
    rig.add("pod")
    rig.pop()
    assert rig.queue.get(pending().uid) is None


@pytest.mark.parametrize("rejectors", [(), ("Fit",)])
def test_a_gate_is_asked_before_a_rest_too(rejectors: tuple[str, ...]) -> None:
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.queue.move(NODE_ADD)
    rig.gates["pod"] = "Taints"
    rig.put_back("pod", *rejectors)
    assert rig.place() == "gated"


@pytest.mark.parametrize(("activated", "place"), [("pod", "backoff"), ("other", "unschedulable")])
def test_activating_a_pod_in_flight_counts_for_it_on_return(activated: str, place: str) -> None:
    rig = Rig()
    rig.add("pod", "other")
    rig.drain()
    rig.queue.activate(pending(activated).uid)
    rig.put_back("pod", "Deaf")
    assert rig.place() == place


def test_a_pod_let_in_starts_its_history_then_and_keeps_the_name_of_its_gate() -> None:
    rig = gated(by="Fit")
    rig.gates.clear()
    rig.sleep(5)
    rig.queue.move(NODE_ADD)
    (queued,) = rig.queue
    assert (queued.timestamp, queued.initial_attempt) == (START, START + 5)
    assert queued.gating_plugin == "" and queued.rejectors == {"Fit"}
