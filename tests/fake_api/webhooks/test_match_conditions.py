"""Conditions are about a request, and cost no more than they may."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.webhooks.match_conditions import UndecidedError, condition_problem, conditions_hold


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("true", ""),
        (" request.kind.kind == 'Pod' && request.userInfo.groups.exists(g, g == 'x') ", ""),
        ("!has(request.subResource) || request.dryRun", ""),
        ("object.spec.replicas > 1", ""),
        ("object.spec.paused", "must evaluate to bool but got dyn"),
        ("request.object == null", "compilation failed: ERROR: <input>:1:8: undefined field 'object'"),
        ("request.name", "must evaluate to bool but got string"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
    ],
)
def test_condition_compiles(expression: str, problem: str) -> None:
    actual = condition_problem(expression)
    assert actual.startswith(problem) and bool(actual) == bool(problem)


def sent(**changes: Any) -> dict[str, Any]:
    return {"object": {"words": ["a"] * 600}, "oldObject": None, "operation": "UPDATE"} | changes


@pytest.mark.parametrize(
    ("expressions", "holds"),
    [
        ([], True),
        (["request.operation == 'UPDATE'", "oldObject == null"], True),
        (["request.operation == 'UPDATE'", "object == null"], False),
        (["object.a == 1", "false"], False),
    ],
)
def test_conditions_hold_together(expressions: list[str], holds: bool) -> None:
    assert conditions_hold([{"expression": each} for each in expressions], sent()) is holds


@pytest.mark.slow
def test_conditions_have_a_budget_together() -> None:
    slow: dict[str, object] = {"expression": "object.words.all(a, object.words.all(b, a == b))"}
    wordy = sent(object={"words": ["a"] * 330})
    assert conditions_hold([slow] * 2, wordy)
    with pytest.raises(UndecidedError, match="running out of cost budget"):
        conditions_hold([slow] * 8, wordy)
    with pytest.raises(UndecidedError, match="actual cost limit exceeded"):
        conditions_hold([slow], sent())
