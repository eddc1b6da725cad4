"""A decision that differs names itself, and the first value in it that differs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.core.cycle.records import Decision, Result
from kframework.observe.recording.diff import DecisionDiff, ReplayResult
from kframework.values.status import Code


def decision(**fields: Any) -> Decision:
    return msgspec.structs.replace(
        Decision(
            attempt=3,
            pod="shop/web",
            uid="u",
            profile="default-scheduler",
            pod_attempts=1,
            queued_at=0.0,
            popped_at=7.0,
            result=Result.SCHEDULED,
        ),
        **fields,
    )


A, B = (
    decision(node="a", feasible=2, best_nodes=(("a", 9), ("b", 8))),
    decision(node="b", feasible=2, best_nodes=(("b", 9),)),
)
MADE_ROOM = decision(nominated="a", victims=("shop/low",), message="no room")


@pytest.mark.parametrize(
    ("kind", "recorded", "replayed", "texts", "message"),
    [
        ("other node", A, B, ("a", "b"), "b 9"),
        ("fits now", MADE_ROOM, B, ("(a)", "b"), "no room"),
        ("fits no more", A, MADE_ROOM, ("a", "(a)"), "no room"),
        ("other victims", decision(), MADE_ROOM, ("<none>", "(a)"), "preempts shop/low"),
        ("other victims", MADE_ROOM, decision(message="none"), ("(a)", "<none>"), "none"),
        ("no profile", A, None, ("a", "<none>"), ""),
        ("no such attempt", None, B, ("<none>", "b"), ""),
    ],
)
def test_difference_of_an_attempt_has_texts_of_both_decisions(
    kind: str, recorded: Decision | None, replayed: Decision | None, texts: tuple[str, str], message: str
) -> None:
    diff = DecisionDiff.from_attempt(kind, recorded, replayed)
    assert (diff.recorded_text, diff.replayed_text) == texts
    assert diff.message == message
    assert (diff.name, diff.subject, diff.at) == (3, "shop/web", 7.0)
    assert str(diff) == f"attempt 3 of pod shop/web: {kind}"


def test_first_difference_names_members_of_enumerations_by_their_words() -> None:
    unschedulable = decision(result=Result.UNSCHEDULABLE, code=Code.UNSCHEDULABLE)
    diff = DecisionDiff.from_attempt("result", decision(), unschedulable, line=5, fields=("result", "code"))
    assert str(diff) == (
        "line 5: attempt 3 of pod shop/web got result 'unschedulable', not 'scheduled'; "
        "code 'UNSCHEDULABLE', not 'SUCCESS'"
    )


class Brew(msgspec.Struct):
    name: str
    cups: tuple[int, ...] = ()
    herbs: dict[str, str] = {}


@pytest.mark.parametrize(
    ("now", "fields", "text"),
    [
        (Brew("green", (1, 3)), ("cups",), "line 9: brew 1 got cups[1] 3, not 2"),
        (Brew("green", (1,)), ("cups",), "line 9: brew 1 got cups (1,), not (1, 2)"),
        (Brew("green", (1, 2), {"mint": "no"}), ("herbs",), "line 9: brew 1 got herbs['mint'] 'no', not None"),
        (
            Brew("black", (0, 2)),
            ("name", "cups"),
            "line 9: brew 1 got name 'black', not 'green'; cups[0] 0, not 1",
        ),
        (None, (), "line 9: brew 1 is in the recording only"),
    ],
)
def test_difference_names_the_first_different_value(now: Brew | None, fields: tuple[str, ...], text: str) -> None:
    diff = DecisionDiff(
        record="brew", name="1", kind="", recorded=Brew("green", (1, 2)), replayed=now, line=9, fields=fields
    )
    assert str(diff) == text


def test_record_of_the_replay_only_is_named() -> None:
    diff = DecisionDiff(record="brew", name="1", kind="", recorded=None, replayed=Brew("green"), line=9)
    assert str(diff) == "line 9: brew 1 is in the replay only"


def test_result_counts_attempts_and_has_the_first_difference() -> None:
    first, second = (DecisionDiff.from_attempt("fits now", A, B) for _ in range(2))
    result = ReplayResult(compared={"attempt": [1, 2], "brew": ["a"]}, differences=(first, second))
    assert (result.attempts, result.difference) == (2, first)
    assert (ReplayResult(compared={"brew": ["a"]}).attempts, ReplayResult(compared={}).difference) == (0, None)
