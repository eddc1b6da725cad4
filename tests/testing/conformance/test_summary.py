"""Sums over many cases."""

from __future__ import annotations

from kframework.testing.conformance.facts import Fact, Uncompared, not_built
from kframework.testing.conformance.recorded import PASSES
from kframework.testing.conformance.replay import Comparison
from kframework.testing.conformance.summary import Summary, SummedUp, item

SAME, OTHER = Fact(("best",), ["a"], ["a"]), Fact(("nodes", "a"), PASSES, None)


def summary() -> Summary:
    made = Summary()
    left_out = not_built("totals", "B")
    made.add(Comparison("one-1", "one", (SAME, OTHER), (left_out, left_out)))
    made.add(Comparison("two-1", "two", (SAME,), (not_built("answers", "A"),)))
    made.add(Comparison("one-2", "one", (SAME,), (left_out, Uncompared("mood", "unknown"))))
    return made


def test_suites_are_counted_apart() -> None:
    assert [(suite.name, suite.passed, suite.total) for suite in summary()] == [("one", 1, 2), ("two", 1, 1)]
    assert (summary().passed, summary().total) == (2, 3)


def test_differences_are_kept_by_case() -> None:
    one, two = summary()
    assert one.differences == {"one-1": [OTHER]}
    assert two.differences == {}


def test_what_is_left_uncompared_is_counted_once_a_case() -> None:
    assert summary().uncompared == [
        SummedUp("A is not built yet", "answers", 1),
        SummedUp("B is not built yet", "totals", 2),
        SummedUp("unknown", "mood", 1),
    ]


def test_a_suite_as_plain_data() -> None:
    one, _ = summary()
    assert one.as_item() == {
        "suite": "one",
        "passed": 1,
        "total": 2,
        "differences": [{"case": "one-1", "field": "nodes.a", "expected": {"code": "Success"}, "got": None}],
        "uncompared": [
            {"reason": "B is not built yet", "part": "totals", "cases": 2},
            {"reason": "unknown", "part": "mood", "cases": 1},
        ],
    }
    assert item(SAME) == {"field": "best", "expected": ["a"], "got": ["a"]}
