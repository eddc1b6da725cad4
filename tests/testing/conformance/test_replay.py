"""Cases of every kind."""

from __future__ import annotations

import pytest

from kframework import PendingPod, Plugin, hookimpl
from kframework.core.runtime.registry import Registry
from kframework.errors import InputError
from kframework.testing.conformance.facts import Uncompared
from tests.testing.conformance.planted import PLUGINS, replayed, single, with_plugins


def test_the_kind_picks_the_comparer_whatever_the_suite() -> None:
    case = {**single(), "suite": "my own"}
    comparison = replayed(case)
    assert (comparison.case, comparison.suite) == ("planted-1", "my own")
    assert replayed({**case, "kind": "preemption"}).facts == comparison.facts


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(InputError) as error:
        replayed({**single(), "kind": "batch"})
    known = "single, preemption, sequence, resources, selector, quantity"
    assert str(error.value) == f"planted.jsonl:1: planted-1: unknown kind 'batch' (known: {known})"


def test_a_case_that_cannot_be_read_is_an_error() -> None:
    case = single()
    case["input"]["pod"] = None
    with pytest.raises(InputError, match=r"planted\.jsonl:1: planted-1: input: .*pod"):
        replayed(case)


def test_fields_that_nobody_knows_are_left_uncompared() -> None:
    case = single()
    case["expect"]["mood"] = "good"
    assert Uncompared("mood", "it is no field that this version knows") in replayed(case).uncompared


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


def test_a_case_that_raises_has_failed() -> None:
    case = single()
    case["input"]["profile"] = with_plugins(*PLUGINS, "Explosive")
    (difference,) = replayed(case, Registry.of(Explosive)).differences
    assert difference.path == ("exception",)
    assert "boom" in str(difference.got)
