"""A case replayed, and sums over many."""

from __future__ import annotations

import pytest

from kframework import PendingPod, Plugin, hookimpl
from kframework.core.runtime.registry import Registry
from kframework.errors import InputError
from kframework.testing.conformance.cases import Fact, Uncompared, UncomparedCount, unimplemented_plugin
from kframework.testing.conformance.recorded import SUCCESS
from kframework.testing.conformance.replay import CaseComparison, ConformanceSummary
from tests.testing.conformance.planted import PLUGINS, replayed, single, with_plugins


def test_kind_selects_the_comparer() -> None:
    case = {**single(), "suite": "my own"}
    comparison = replayed(case)
    assert (comparison.case, comparison.suite) == ("planted-1", "my own")
    assert replayed({**case, "kind": "preemption"}).facts == comparison.facts


def test_case_of_unknown_kind_is_not_compared() -> None:
    comparison = replayed({**single(), "kind": "batch"})
    known = "single, preemption, sequence, allocation, resources, selector, quantity, group, cel"
    assert comparison.uncompared == (Uncompared("answers", f"the kind 'batch' is unknown (known: {known})"),)
    assert not comparison.facts


def test_invalid_case_is_an_input_error() -> None:
    case = single()
    case["input"]["pod"] = None
    with pytest.raises(InputError, match=r"planted\.jsonl:1: planted-1: input: .*pod"):
        replayed(case)


def test_unknown_fields_are_left_uncompared() -> None:
    case = single()
    case["expect"]["mood"] = "good"
    assert Uncompared("mood", "this version does not know the field") in replayed(case).uncompared


class Explosive(Plugin):
    """Cannot even be signed."""

    name = "Explosive"
    reads = "node"

    @hookimpl
    def sign(self, pod: PendingPod) -> object:
        raise RuntimeError("boom")

    @hookimpl
    def filter(self, state: object, pod: object, node: object) -> None:
        return None


def test_case_that_raises_has_failed() -> None:
    case = single()
    case["input"]["profile"] = with_plugins(*PLUGINS, "Explosive")
    (difference,) = replayed(case, Registry.with_plugins(Explosive)).differences
    assert difference.path == ("exception",)
    assert "boom" in str(difference.got)


SAME, OTHER = Fact(("best",), ["a"], ["a"]), Fact(("nodes", "a"), SUCCESS, None)


def summary() -> ConformanceSummary:
    created = ConformanceSummary()
    left_out = unimplemented_plugin("totals", "B")
    created.add(CaseComparison("one-1", "one", "1.36", (SAME, OTHER), (left_out, left_out)))
    created.add(CaseComparison("two-1", "two", "1.36", (SAME,), (unimplemented_plugin("answers", "A"),)))
    created.add(CaseComparison("one-2", "one", "1.36", (SAME,), (left_out, Uncompared("mood", "unknown"))))
    return created


def test_suites_are_counted_separately() -> None:
    assert [(suite.name, suite.passed, suite.total) for suite in summary()] == [("one", 1, 2), ("two", 1, 1)]
    assert (summary().overall.passed, summary().overall.total) == (2, 3)


def test_differences_are_stored_by_case() -> None:
    one, two = summary()
    assert one.differences == {"one-1": [OTHER]}
    assert two.differences == {}


def test_uncompared_part_is_counted_once_per_case() -> None:
    assert summary().overall.uncompared == [
        UncomparedCount("A is not implemented", "answers", 1),
        UncomparedCount("B is not implemented", "totals", 2),
        UncomparedCount("unknown", "mood", 1),
    ]
