"""The preemptions under way: who is held back by one, and until when."""

from __future__ import annotations

import pytest

from kframework.core.preemption.evaluator import ChosenVictims, OngoingPreemptions
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

VICTIM = make_pod("victim", node_name="a")
GOING = make_pod("victim", node_name="a", deletion_timestamp="2026-01-01T00:00:00Z")
UID = VICTIM.metadata.uid

STAYING = {UID: PodInfo(VICTIM, TemplateInterner())}


def in_progress() -> OngoingPreemptions:
    preempting = OngoingPreemptions()
    preempting.begin("p", 7)
    return preempting


def test_only_a_preemptor_is_blocked() -> None:
    preempting = in_progress()
    assert preempting.blocks("p", {})
    assert not preempting.blocks("q", {})


@pytest.mark.parametrize(
    ("pods", "held"), [(STAYING, True), ({UID: PodInfo(GOING, TemplateInterner())}, False), ({}, False)]
)
def test_preemptor_is_released_when_the_last_victim_terminates(pods: dict[str, PodInfo], held: bool) -> None:
    preempting = in_progress()
    preempting.record_last_victim("p", 7, UID)
    assert preempting.blocks("p", pods) is held


def test_preemptor_is_released_at_the_end_of_the_preemption() -> None:
    preempting = in_progress()
    preempting.record_last_victim("p", 7, UID)
    assert preempting.end("p", 7)
    assert not preempting.blocks("p", STAYING)
    assert not preempting.end("p", 7)
    assert len(preempting) == 0


def test_released_preemptors_are_those_that_are_not_blocked() -> None:
    preempting = in_progress()
    for uid, victim in (("q", UID), ("r", "gone")):
        preempting.begin(uid, 7)
        preempting.record_last_victim(uid, 7, victim)
    assert preempting.released(STAYING) == ["r"]
    assert preempting.released({}) == ["q", "r"]


def test_reports_on_an_older_preemption_are_ignored() -> None:
    preempting = in_progress()
    preempting.begin("p", 9)
    preempting.record_last_victim("p", 7, "gone")
    assert not preempting.end("p", 7)
    assert preempting.blocks("p", {})
    preempting.record_last_victim("unknown", 7, "gone")
    preempting.record_last_victim("p", 9, "gone")
    assert not preempting.blocks("p", {})
    assert preempting.end("p", 9)


def test_victim_is_chosen_until_it_is_seen_terminating() -> None:
    pods = dict(STAYING)
    chosen = ChosenVictims(pods)
    chosen.add("p", STAYING.values())
    chosen.forget_departed()
    assert list(chosen.by_victim) == [UID]
    pods[UID] = PodInfo(GOING, TemplateInterner())
    chosen.forget_departed()
    assert not chosen.by_victim


def test_victims_of_a_failed_preemption_are_chosen_no_more() -> None:
    chosen = ChosenVictims(STAYING)
    chosen.add("q", STAYING.values())
    chosen.forget_victims_of("p")
    assert list(chosen.by_victim) == [UID]
    chosen.forget_victims_of("q")
    assert not chosen.by_victim
