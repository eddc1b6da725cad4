from __future__ import annotations

import math

import pytest

from kframework.cel.errors import CelError
from kframework.cel.library.strings import MAX_PRECISION, format_text
from kframework.cel.values import NONE, CelDuration, Timestamp, TypeValue, Uint


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("%%", [], "%"),
        ("%s is %d%%", ["a", 5], "a is 5%"),
        ("%s %s %s %s", [True, None, Uint(1), -2], "true null 1 -2"),
        ("%s %s", [1.5, b"ab"], "1.5 ab"),
        ("%s", [2e-9], "2e-09"),
        ("%s %s", [CelDuration(10**9), Timestamp(0)], "1s 1970-01-01T00:00:00Z"),
        ("%s", [TypeValue("int")], "int"),
        ("%s", [["a", 1, 1.5, b"x"]], '["a", 1, 1.500000, b"x"]'),
        (
            "%s",
            [[CelDuration(10**9), Timestamp(0), math.nan]],
            '[duration("1s"), timestamp("1970-01-01T00:00:00Z"), "NaN"]',
        ),
        ("%s", [{"b": [1], "a": True}], '{"a":true, "b":[1]}'),
        ("%f %.2f %f", [1234.5, 0.005, "NaN"], "1,234.500000 0.01 NaN"),
        ("%f %f", [math.inf, "-Infinity"], "∞ -∞"),
        ("%.6e", [1052.032911275], "1.052033×10⁰³"),
        ("%.1e", [0.05], "5.0×10⁻⁰²"),
        ("%b %b %b", [5, True, Uint(2)], "101 1 10"),
        ("%x %X %x %x", [255, 255, "hi", b"\xff"], "ff FF 6869 ff"),
        ("%o", [8], "10"),
    ],
)
def test_clause_formats_its_value(text: str, values: list[object], expected: str) -> None:
    assert format_text(text, values) == expected


@pytest.mark.parametrize(
    ("text", "values", "problem"),
    [
        ("%s", [], "index 0 out of range"),
        ("%", ["a"], "unexpected end of string"),
        ("%q", ["a"], "unrecognized formatting clause"),
        ("%.s", ["a"], "error while parsing precision"),
        (f"%.{MAX_PRECISION + 1}f", [1.0], "error while parsing precision"),
        ("%d", ["a"], "decimal clause can only be used on integers, was given string"),
        ("%d", [True], "was given bool"),
        ("%f", [1], "fixed-point clause can only be used on doubles, was given int"),
        ("%f", ["one"], "fixed-point clause can only be used on doubles, was given string"),
        ("%e", [1], "scientific clause"),
        ("%b", [1.5], "only integers and bools"),
        ("%x", [1.5], "formatted as hex"),
        ("%o", [True], "octal clause"),
        ("%s", [NONE], "string clause"),
        ("%s", [[NONE]], "no formatting function for optional_type"),
        ("%s", [b"\xff"], "invalid UTF-8"),
    ],
)
def test_clause_rejects_a_value_of_another_type(text: str, values: list[object], problem: str) -> None:
    with pytest.raises(CelError, match=problem):
        format_text(text, values)
