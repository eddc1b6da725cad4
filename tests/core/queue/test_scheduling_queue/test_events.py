"""What wakes a pod: events, gates, its own updates, activation; and its deletion (reference 05 5.5 to 5.8)."""

from __future__ import annotations

import pytest

from kframework.framework.events import ActionType, ObservedEvent
from kframework.values.feature_gates import MINORS
from tests.core.queue.rig import (
    ANYTHING,
    LABELLED,
    NODE_ADD,
    NODE_TAINT,
    POD_GONE,
    TOLERATES,
    Rig,
    pending,
    update_of,
)
from tests.core.queue.states import LONG, STATES, failed, gated


@pytest.mark.parametrize(
    ("rejectors", "event", "wakes"),
    [
        (("Fit",), NODE_ADD, True),
        (("Fit",), NODE_TAINT, False),
        (("Taints",), NODE_TAINT, True),
        (("Fit", "Taints"), NODE_TAINT, True),
        (("Fit",), POD_GONE, True),
        (("Labels",), POD_GONE, False),
        (("Everything",), ObservedEvent("example.v1.com", ActionType.UPDATE), True),
        (("Deaf",), NODE_ADD, False),
        (("Deaf",), ANYTHING, True),
        (("Unknown",), NODE_ADD, False),
    ],
)
@pytest.mark.parametrize("rested", [False, True])
def test_event_requeues_pods_whose_rejector_registered_it(
    rejectors: tuple[str, ...], event: ObservedEvent, wakes: bool, rested: bool
) -> None:
    rig = failed(*rejectors)
    rig.sleep(LONG if rested else 0)
    rig.queue.move_on_event(event)
    place = "unschedulable" if not wakes else "active" if rested else "backoff"
    assert rig.place() == place
    assert rig.queue.incoming[place, event.label] == (1 if wakes else 0)


@pytest.mark.parametrize(
    ("event", "place"),
    [(NODE_ADD, "active"), (NODE_TAINT, "backoff"), (ANYTHING, "backoff"), (POD_GONE, "active")],
)
def test_event_of_a_pending_plugin_skips_the_backoff(event: ObservedEvent, place: str) -> None:
    rig = failed("Taints", pending=("Fit",))
    rig.queue.move_on_event(event)
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
def test_events_in_flight_count_when_the_pod_is_put_back(
    rejectors: tuple[str, ...], waiting_for: tuple[str, ...], events: list[ObservedEvent], place: str
) -> None:
    rig = Rig()
    rig.add("pod")
    rig.queue.move_on_event(NODE_ADD)  # before the pop: of no account
    rig.pop()
    for event in events:
        rig.queue.move_on_event(event)
    rig.put_back("pod", *rejectors, pending=waiting_for)
    assert rig.place() == place
    assert rig.queue.in_flight.events == 0


def test_gated_pod_has_no_attempt() -> None:
    rig = gated()
    (queued,) = rig.queue
    assert rig.place() == "gated"
    assert queued.gating_plugin == "Labels" and queued.rejectors == {"Labels"}
    assert (queued.initial_attempt, queued.unschedulable_count) == (None, 0)
    assert rig.queue.incoming == {("unschedulable", "UnscheduledPodAdd"): 1}
    assert rig.pop() is None


def test_hints_are_not_asked_of_a_pod_whose_gate_stays_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = gated(by="Fit")
    asked: list[str] = []
    monkeypatch.setattr(rig, "is_worth_requeuing", lambda event, pod, plugin: asked.append(plugin))
    rig.queue.move_on_event(NODE_ADD)
    assert not asked
    rig.gates["pod"] = "Labels"
    rig.queue.move_on_event(NODE_ADD)
    assert asked, "another plugin may let it go"


def test_pod_that_is_gated_again_has_not_entered_a_queue() -> None:
    """As in kube-scheduler, whose gated and rejected pods are in one place."""
    rig = gated(by="Fit")
    before = rig.queue.incoming.copy()
    rig.queue.move_on_event(NODE_ADD)
    rig.queue.activate(pending().uid)
    assert rig.place() == "gated"
    assert rig.queue.incoming == before


@pytest.mark.parametrize(
    ("gate", "event", "place", "place_in_1_36"),
    [
        ("Fit", NODE_ADD, "active", "active"),
        ("Fit", NODE_TAINT, "gated", "gated"),
        ("Fit", ANYTHING, "active", "gated"),
        ("Deaf", ANYTHING, "active", "gated"),
        ("Everything", ANYTHING, "active", "active"),
        ("Everything", NODE_TAINT, "active", "active"),
    ],
)
@pytest.mark.parametrize("minor", MINORS)
def test_gated_pod_is_released_by_events_of_its_gating_plugin_and_by_wildcards_since_1_37(
    gate: str, event: ObservedEvent, place: str, place_in_1_36: str, minor: str
) -> None:
    rig = gated(by=gate, minor=minor)
    rig.gates.clear()
    rig.queue.move_on_event(event)
    assert rig.place() == (place_in_1_36 if minor == "1.36" else place)


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
def test_update_of_a_pod_requeues_it_if_its_rejector_registered_it(
    rejector: str, event: ObservedEvent, wakes: bool, gate: bool
) -> None:
    rig = gated(by=rejector) if gate else failed(rejector)
    rig.gates.clear()
    rig.update(update_of("pod", event))
    waits, goes = ("gated", "active") if gate else ("unschedulable", "backoff")
    assert rig.place() == (goes if wakes else waits)
    assert rig.queue.incoming[goes, event.label] == (1 if wakes else 0)


def test_update_of_unknown_pod_is_ignored() -> None:
    rig = Rig()
    rig.update(pending())
    assert rig.places() == {}


@pytest.mark.parametrize("state", STATES)
def test_activate_moves_any_waiting_pod_to_the_active_queue(state: str) -> None:
    rig = STATES[state]()
    rig.gates.clear()
    rig.queue.activate(pending().uid)
    assert rig.place() == "active"
    assert rig.queue.incoming["active", "ForceActivate"] == 1  # for `active` the one that made it so
    assert rig.drain() == ["pod"]


def test_activation_of_unknown_pod_is_ignored() -> None:
    rig = Rig()
    rig.queue.activate("unknown")
    assert rig.places() == {} and not rig.queue.incoming


def test_get_finds_queued_pods_but_not_pods_in_flight() -> None:
    for state in STATES:
        (queued,) = (rig := STATES[state]()).queue
        assert rig.queue.get(pending().uid) is queued
    rig = Rig()
    rig.add("pod")
    rig.pop()
    assert rig.queue.get(pending().uid) is None
