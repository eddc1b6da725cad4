"""Resource quantities."""

from __future__ import annotations

import pytest

from tests.testing.conformance.planted import Json, Part, differing, replayed

ONE = {"canonical": "1500m", "json": "1500m", "format": "DecimalSI", "sign": 1, "value": 2, "milliValue": 1500}
TWO = {"cmp": -1, "sum": "3Gi", "difference": "-1Gi"}


def case(expect: Part, op: str = "quantity", **question: str) -> Part:
    """Write a case."""
    return {
        "id": "q-1",
        "kind": "quantity",
        "suite": "q",
        "input": {"op": op, **question},
        "expect": dict(expect),
    }


@pytest.mark.parametrize(
    "question",
    [
        case(ONE, value="1.5"),
        case(TWO, "quantityOp", a="1Gi", b="2Gi"),
        case({"error": "in other words"}, value="one"),
        case({"error": "in other words"}, "quantityOp", a="1", b="one"),
    ],
)
def test_quantities_are_compared(question: Part) -> None:
    assert replayed(question).differences == []


@pytest.mark.parametrize("field", ONE)
def test_every_field_of_a_quantity_is_compared(field: str) -> None:
    changed: Json = None
    assert differing(case(ONE, value="1.5"), lambda c: c["expect"].update({field: changed})).keys() == {field}


@pytest.mark.parametrize("field", TWO)
def test_every_field_of_an_operation_is_compared(field: str) -> None:
    question = case(TWO, "quantityOp", a="1Gi", b="2Gi")
    assert differing(question, lambda c: c["expect"].pop(field)).keys() == {field}


def test_amounts_beyond_64_bits_may_be_missing() -> None:
    large = {"canonical": "9223372036854775808", "json": "9223372036854775808", "format": "DecimalSI", "sign": 1}
    assert replayed(case(large, value="9223372036854775808")).differences == []
    assert differing(case(ONE, value="1.5"), lambda c: c["expect"].pop("value")).keys() == {"value"}


def test_error_on_one_side_is_reported() -> None:
    assert "error" in differing(case(ONE, value="one"), lambda c: None)
    assert "error" in differing(case({"error": "no"}, value="1.5"), lambda c: None)
