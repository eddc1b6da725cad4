from __future__ import annotations

import pytest

from kframework.cel.library.quantity import CelQuantity
from tests.plugins.dynamic_resources.selecting import answer


@pytest.mark.parametrize(
    "expression",
    [
        "quantity('1Ki') == quantity('1024') && quantity('1000m') == quantity('1') && quantity('1') != quantity('2')",
        "isQuantity('10Mi') && !isQuantity('10mi') && !isQuantity('')",
        "sign(quantity('-1')) == -1 && sign(quantity('0')) == 0 && sign(quantity('1m')) == 1",
        "quantity('2').isGreaterThan(quantity('1')) && quantity('1').isLessThan(quantity('2'))",
        "quantity('1').compareTo(quantity('2')) == -1 && quantity('1k').compareTo(quantity('1000')) == 0",
        "quantity('1').add(quantity('500m')) == quantity('1500m') && quantity('1').add(2) == quantity('3')",
        "quantity('1').sub(quantity('2')) == quantity('-1') && quantity('1').sub(1) == quantity('0')",
        "quantity('1k').asInteger() == 1000 && quantity('1.5').asApproximateFloat() == 1.5",
        "quantity('-5').asInteger() == -5",
    ],
)
def test_quantity_functions_hold(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("text", "integer"),
    [
        ("40Gi", 40 * 2**30),
        ("1.5Gi", None),
        ("1000m", None),
        ("1.0", None),
        ("100m", None),
        ("1e3", 1000),
        ("5E", 5 * 10**18),
        ("50E", None),
        ("0", 0),
        ("-3", -3),
        ("9223372036854775807", None),
        ("123456789012345678", 123456789012345678),
        ("00012", 12),
        ("12345678901234Ki", None),
    ],
)
def test_quantity_is_an_integer_when_kubernetes_stores_it_as_one(text: str, integer: int | None) -> None:
    assert CelQuantity.parse(text).as_integer() == integer


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("quantity('1').add(quantity('1Ki')).asInteger() == 1025", True),
        ("quantity('1').add(quantity('0.5')).isInteger()", False),
        ("quantity('1.5Gi').add(1).isInteger()", False),
        ("quantity('9E').add(quantity('9E')).isInteger()", False),
        ("quantity('0').add(5).asInteger() == 5", True),
        ("quantity('5').sub(quantity('0.0')).asInteger() == 5", True),
        ("quantity('1E').add(quantity('1n')).isInteger()", False),
        ("quantity('1.5Gi').asInteger() == 1", "run: cannot convert value to integer"),
    ],
)
def test_sum_is_an_integer_when_kubernetes_stores_it_as_one(expression: str, expected: object) -> None:
    assert answer(expression) == expected


def test_invalid_quantity_is_an_error() -> None:
    assert str(answer("quantity('1e3K') == quantity('1')")).startswith("run: quantities must match")
    assert hash(CelQuantity.parse("1")) == hash(CelQuantity.parse("1000m"))
