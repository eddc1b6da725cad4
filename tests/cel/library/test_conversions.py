from __future__ import annotations

import math

import pytest

from kframework.cel.errors import CelError
from kframework.cel.library.conversions import format_double, parse_double
from tests.plugins.dynamic_resources.selecting import answer


@pytest.mark.parametrize(
    "expression",
    [
        "bool('t') && bool('True') && !bool('0') && bool(true)",
        "int('-12') == -12 && int('+1') == 1 && int(1.9) == 1 && int(-1.9) == -1 && int(5u) == 5 && int(3) == 3",
        "int(duration('1s')) == 1000000000 && int(timestamp('1970-01-01T00:00:05Z')) == 5",
        "uint('12') == 12u && uint(1.9) == 1u && uint(5) == 5u && uint(1u) == 1u",
        "double('1.5') == 1.5 && double(1) == 1.0",
        "double(1u) == 1.0 && double('1e3') == 1000.0 && double(1.0) == 1.0",
        "string(1) == '1' && string(1u) == '1' && string(true) == 'true' && string(b'a') == 'a' && string('a') == 'a'",
        "string(1.0) == '1' && string(1.5e10) == '1.5e+10' && string(duration('90s')) == '90s'",
        "string(timestamp('2026-01-01T00:00:00Z')) == '2026-01-01T00:00:00Z'",
        "bytes('a') == b'a' && bytes(b'a') == b'a'",
        "duration(1000) == duration('1us') && duration(duration('1s')) == duration('1s')",
        "timestamp(5) == timestamp('1970-01-01T00:00:05Z') && timestamp(timestamp(5)) == timestamp(5)",
    ],
)
def test_types_are_converted(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("bool('yes')", "type conversion error from 'string' to 'bool'"),
        ("int('1.5') == 1", "type conversion error from 'string' to 'int'"),
        ("int('9223372036854775808') == 1", "integer overflow"),
        ("int(1e19) == 1", "integer overflow"),
        ("int(18446744073709551615u) == 1", "integer overflow"),
        ("uint('-1') == 1u", "type conversion error from 'string' to 'uint'"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("uint(-1.0) == 1u", "integer overflow"),
        ("double('x') == 1.0", "type conversion error from 'string' to 'double'"),
        ("string(b'\\xff') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
        ("timestamp(253402300800) == timestamp(0)", "invalid timestamp argument"),
        ("int(dyn([1])) == 1", "no such overload: int(list)"),
    ],
)
def test_impossible_conversion_is_an_error(expression: str, problem: str) -> None:
    when, _, said = str(answer(expression)).partition(": ")
    assert when in ("compile", "run")
    assert said.removeprefix("program instantiation failed: ") == problem


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.5, "1.5"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (1234567.0, "1.234567e+06"),
        (-1e21, "-1e+21"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.25e-9, "1.25e-09"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_double_is_formatted_as_in_go(value: float, text: str) -> None:
    assert format_double(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [(".5", 0.5), ("5.", 5.0), ("-1e-3", -0.001), ("0x1p4", 16.0), ("inf", math.inf), ("-Infinity", -math.inf)],
)
def test_double_is_parsed(text: str, value: float) -> None:
    assert parse_double(text) == value


@pytest.mark.parametrize("text", ["", "1_0", " 1", "1e", "e5", "0x1", "1e999", "0x1p99999", "--1", "one"])
def test_invalid_double_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        parse_double(text)


def test_nan_is_parsed() -> None:
    assert math.isnan(parse_double("NaN"))
