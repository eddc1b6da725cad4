from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import answer, fails


@pytest.mark.parametrize(
    "expression",
    [
        "1 + 2 == 3 && 1u + 2u == 3u && 1.5 + 1.5 == 3.0",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
        "duration('1s') + duration('2s') == duration('3s')",
        "timestamp('2026-01-01T00:00:00Z') + duration('1s') == timestamp('2026-01-01T00:00:01Z')",
        "duration('1s') + timestamp('2026-01-01T00:00:00Z') == timestamp('2026-01-01T00:00:01Z')",
        "timestamp('2026-01-01T00:00:01Z') - timestamp('2026-01-01T00:00:00Z') == duration('1s')",
        "timestamp('2026-01-01T00:00:01Z') - duration('1s') == timestamp('2026-01-01T00:00:00Z')",
        "duration('1s') - duration('2s') == duration('-1s')",
        "3 - 5 == -2 && 2 * 3 == 6 && 2u * 3u == 6u",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 / -2 == -3 && 7u / 2u == 3u",
        "7 % 3 == 1 && -7 % 3 == -1 && 7 % -3 == 1 && 7u % 4u == 3u",
        "1.0 / 0.0 > 1e300 && -1.0 / 0.0 < -1e300 && 1.0 / -0.0 < -1e300 && -1.0 / -0.0 > 1e300",
        "0.0 / 0.0 != 0.0 / 0.0",
        "-(1) == -1 && -(1.5) == -1.5",
        "!false && !(!true)",
        "1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3",
        "1 < 2u && 1 < 1.5 && 1u < 1.5 && 2u > 1 && 1.5 > 1 && 1.5 > 1u",
        "'a' < 'b' && b'a' < b'b' && false < true && duration('1s') < duration('2s')",
        "1 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1} && !('b' in {'a': 1})",
        "dyn(1) in {true: 1} == false && dyn(1.0) in {1: 1}",
        "!(dyn([1]) in {1: 1})",
        "size('©a') == 2 && 'abc'.size() == 3 && b'©'.size() == 2 && [1].size() == 1 && {}.size() == 0",
        "type('a') == string && type(1u) == uint && type(null) == null_type",
        "dyn(1) == 1",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && !'abc'.contains('x')",
        "9223372036854775807 == 9223372036854775806 + 1",
    ],
)
def test_operators_and_functions_hold(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("-9223372036854775808 - 1 == 0", "integer overflow"),
        ("9223372036854775807 * 2 == 0", "integer overflow"),
        ("-9223372036854775808 / -1 == 0", "integer overflow"),
        ("-9223372036854775808 % -1 == 0", "integer overflow"),
        ("-(-9223372036854775808) == 0", "integer overflow"),
        ("18446744073709551615u + 1u == 0u", "unsigned integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("1 / 0 == 0", "division by zero"),
        ("1 % 0 == 0", "modulus by zero"),
        ("1u / 0u == 0u", "division by zero"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("dyn(1) + dyn('a') == 2", "no such overload: _+_(int, string)"),
        ("dyn(1) + dyn(1u) == 2", "no such overload: _+_(int, uint)"),
        ("dyn(1.0) % dyn(2.0) == 2", "no such overload: _%_(double, double)"),
        ("-dyn('a') == 1", "no such overload: -_(string)"),
        ("dyn('a') < dyn(1)", "no such overload: compare(string, int)"),
        ("1 in dyn(1)", "no such overload: @in(int, int)"),
        ("size(dyn(1)) == 1", "no such overload: size(int)"),
        ("dyn(1).startsWith('a')", "no such overload: string(int, string)"),
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp('2026-01-01T00:00:00Z')",
            "timestamp overflow",
        ),
        ("duration('2000000h') + duration('2000000h') == duration('1s')", "duration overflow"),
    ],
)
def test_invalid_arguments_are_an_error(expression: str, problem: str) -> None:
    assert answer(expression) == f"run: {problem}"


def test_negated_duration_is_a_duration() -> None:
    assert answer("-dyn(duration('1s')) == duration('-1s')") is True
    assert fails("-dyn([1]) == [1]")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("optional.of(1).value() == 1", True),
        ("optional.none().hasValue()", False),
        ("optional.none().value() == 1", "run: optional.none() dereference"),
        ("optional.ofNonZeroValue('').hasValue()", False),
        ("optional.ofNonZeroValue('a').hasValue()", True),
        ("optional.none().or(optional.of(1)).value() == 1", True),
        ("optional.of(1).or(optional.of(1 / 0)).value() == 1", True),
        ("optional.of(1).orValue(2) == 1", True),
        ("optional.none().orValue(2) == 2", True),
        ("optional.of(1) == optional.of(1)", True),
        ("optional.of(1) == optional.none()", False),
        ("[1, 2].first().value() == 1 && [1, 2].last().value() == 2", True),
        ("[].first().hasValue() || [].last().hasValue()", False),
        ("optional.unwrap([optional.of(1), optional.none()]) == [1]", True),
        ("[optional.of(1), optional.none()].unwrapOpt() == [1]", True),
        ("dyn(1).value() == 1", "run: no such overload: value(int)"),
        (
            "dyn([dyn(optional.of(1)), dyn(1)]).unwrapOpt() == [1]",
            "run: optional.unwrap of a value that is not optional",
        ),
        ("dyn(1).orValue(2) == 1", True),
    ],
)
def test_optional_functions_hold(expression: str, expected: object) -> None:
    assert answer(expression) == expected
