from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selectors.selecting import answer


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
def test_values_may_be_absent(expression: str, expected: object) -> None:
    assert answer(expression) == expected
