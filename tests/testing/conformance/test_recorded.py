"""What is recorded of a cycle."""

from __future__ import annotations

import pytest

from kframework.testing.conformance.recorded import SUCCESS, RecordedCycle, RecordedScores, RecordedStatus
from kframework.values.status import Skip, unschedulable

SOME, NONE = RecordedStatus(code="Success", node_names=("a",)), RecordedStatus(code="Success", no_nodes=True)
NO = RecordedStatus(code="Unschedulable", reasons=("no",))


def test_status_is_recorded_with_sorted_reasons() -> None:
    verdict = RecordedStatus.from_status(unschedulable("b", "a"), "Fit")
    assert verdict == RecordedStatus(code="Unschedulable", reasons=("a", "b"), plugin="Fit")
    assert RecordedStatus.from_status(None) == SUCCESS


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (SUCCESS, "Success"),
        (RecordedStatus.from_status(Skip), "Skip"),
        (RecordedStatus.from_status(unschedulable("b", "a"), "Fit"), "Fit Unschedulable: a, b"),
        (RecordedStatus(code="Success", node_names=("a", "b")), "Success: nodes a, b"),
        (RecordedStatus(code="Success", no_nodes=True), "Success: nodes none"),
    ],
)
def test_recorded_status_is_formatted_with_plugin_and_reasons(verdict: RecordedStatus, text: str) -> None:
    assert str(verdict) == text


@pytest.mark.parametrize(
    ("recorded", "voices"),
    [
        (RecordedCycle(), set()),
        (
            RecordedCycle(pre_filter={"A": SUCCESS, "B": RecordedStatus(code="Skip")}, filter_skipped=("B",)),
            set(),
        ),
        (RecordedCycle(pre_filter={"A": NO}), {"A"}),
        (RecordedCycle(pre_filter={"A": SOME, "B": NONE}), {"A", "B"}),
        (RecordedCycle(filter={"a": {"A": NO}, "b": {"B": NO}}), {"A", "B"}),
        (RecordedCycle(nodes={"a": RecordedStatus(code="Unschedulable", plugin="A"), "b": SUCCESS}), {"A"}),
    ],
)
def test_filtering_plugins_reject_or_restrict_nodes(recorded: RecordedCycle, voices: set[str]) -> None:
    assert recorded.filtering_plugins == voices


def test_scoring_plugins_score_more_than_zero() -> None:
    nothing = RecordedScores(weight=1, raw={"a": 7}, normalized={"a": 0})
    recorded = RecordedCycle(scores={"A": nothing, "B": RecordedScores(weight=1, raw={"a": 0}, normalized={"a": 100})})
    assert recorded.scoring_plugins == {"B"}


def test_plugins_include_every_recorded_answer() -> None:
    recorded = RecordedCycle(
        pre_enqueue={"A": NO},
        pre_filter={"B": NO},
        filter_skipped=("C",),
        filter_not_run=("D",),
        filter={"a": {"E": NO}},
        score_skipped=("F",),
        scores={"G": RecordedScores(weight=1)},
    )
    assert recorded.plugins == set("ABCDEFG")
