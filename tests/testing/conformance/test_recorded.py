"""What is recorded of a cycle."""

from __future__ import annotations

import pytest

from kframework.testing.conformance.recorded import PASSES, Recorded, Scored, Verdict
from kframework.values.status import Skip, unschedulable

SOME, NONE = Verdict(code="Success", node_names=("a",)), Verdict(code="Success", no_nodes=True)
NO = Verdict(code="Unschedulable", reasons=("no",))


def test_a_status_is_recorded_with_sorted_reasons() -> None:
    verdict = Verdict.of(unschedulable("b", "a"), "Fit")
    assert verdict == Verdict(code="Unschedulable", reasons=("a", "b"), plugin="Fit")
    assert Verdict.of(None) == PASSES


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (PASSES, "Success"),
        (Verdict.of(Skip), "Skip"),
        (Verdict.of(unschedulable("b", "a"), "Fit"), "Fit Unschedulable: a, b"),
        (Verdict(code="Success", node_names=("a", "b")), "Success: nodes a, b"),
        (Verdict(code="Success", no_nodes=True), "Success: nodes none"),
    ],
)
def test_a_verdict_in_words(verdict: Verdict, text: str) -> None:
    assert str(verdict) == text


@pytest.mark.parametrize(
    ("recorded", "voices"),
    [
        (Recorded(), set()),
        (Recorded(pre_filter={"A": PASSES, "B": Verdict(code="Skip")}, filter_skipped=("B",)), set()),
        (Recorded(pre_filter={"A": NO}), {"A"}),
        (Recorded(pre_filter={"A": SOME, "B": NONE}), {"A", "B"}),
        (Recorded(filter={"a": {"A": NO}, "b": {"B": NO}}), {"A", "B"}),
        (Recorded(nodes={"a": Verdict(code="Unschedulable", plugin="A"), "b": PASSES}), {"A"}),
    ],
)
def test_who_rejects_or_narrows_has_a_say_in_the_verdicts(recorded: Recorded, voices: set[str]) -> None:
    assert recorded.filter_voices == voices


def test_who_gives_more_than_zero_has_a_say_in_the_totals() -> None:
    nothing = Scored(weight=1, raw={"a": 7}, normalized={"a": 0})
    recorded = Recorded(scores={"A": nothing, "B": Scored(weight=1, raw={"a": 0}, normalized={"a": 100})})
    assert recorded.score_voices == {"B"}


def test_every_plugin_with_an_answer_is_known() -> None:
    recorded = Recorded(
        pre_enqueue={"A": NO},
        pre_filter={"B": NO},
        filter_skipped=("C",),
        filter_not_run=("D",),
        filter={"a": {"E": NO}},
        score_skipped=("F",),
        scores={"G": Scored(weight=1)},
    )
    assert recorded.plugins == set("ABCDEFG")
