from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import OWN, answer, cost


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("bool('true')", 0),
        ("int('12') == 12", 1),
        ("timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-02T00:00:00Z')", 1),
        ("[1, 2][0] == 1", 3),
        ("{'a': [1, int('2')]}.size() == 1", 2),
        (f"{OWN}.nope in []", 0),
        (f"{OWN}.model in ['a100']", 4),
        ("type(1) == int", 1),
    ],
)
def test_constants_cost_nothing(expression: str, expected: int) -> None:
    assert cost(expression) == expected


@pytest.mark.parametrize(
    "expression",
    ["bool('yes')", "int('a') == 1", "true || double('x') == 1.0"],
)
def test_conversion_of_a_constant_fails_at_compile_time(expression: str) -> None:
    assert str(answer(expression)).startswith("compile: program instantiation failed: type conversion error")


def test_conversion_of_an_attribute_fails_at_run_time() -> None:
    assert answer(f"int({OWN}.model) == 1") == "run: type conversion error from 'string' to 'int'"


def test_folded_constant_is_not_modified() -> None:
    expression = "[1].map(x, []).size() == 1 && [1, 2].map(x, x) == [1, 2] && [1, 2].map(x, x) == [1, 2]"
    assert answer(expression) is True
    assert answer(expression) is True
