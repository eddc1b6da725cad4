from __future__ import annotations

import pytest

from kframework.cel.library.strings import CLAUSE_TYPES
from tests.plugins.dynamic_resources.selecting import OWN, answer


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        (f"['a', {OWN}.model].size() == 2", "expected type 'string' but found 'dyn'"),
        ("[dyn(1), 1].size() == 2", "expected type 'dyn' but found 'int'"),
        ("[1, ?optional.of('a')].size() == 2", "expected type 'int' but found 'string'"),
        ("{'a': 1, 1: 2}.size() == 2", "expected type 'string' but found 'int'"),
        ("{'a': 1, 'b': 'c'}.size() == 2", "expected type 'int' but found 'string'"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("'a'.matches('(?=a)')", "invalid matches argument"),
        ("matches('(', 'a')", "invalid matches argument"),
        ("'a'.find('[') == ''", "program instantiation failed: error parsing regexp: missing ]: `[`"),
        (
            "'a'.findAll('a{2000}') == []",
            "program instantiation failed: error parsing regexp: invalid repetition size: `{2000}`",
        ),
        ("duration('1 hour') == duration('1h')", "invalid duration argument"),
        ("false && timestamp('x') == null", "invalid timestamp argument"),
        ("timestamp(-62135596801) == timestamp(0)", "invalid timestamp argument"),
        (
            "'%d'.format(['a']) == ''",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%d'.format([1, 2]) == ''", "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%d'.format([]) == ''", "index 0 out of range"),
        (
            "'%s'.format([[optional.none()]]) == ''",
            f"error during formatting: {CLAUSE_TYPES['s'][1]}, was given optional_type(dyn)",
        ),
    ],
)
def test_well_typed_expression_fails_validation(expression: str, problem: str) -> None:
    assert answer(expression) == f"compile: {problem}"


@pytest.mark.parametrize(
    "expression",
    [
        "'%s %d'.format(['a', 1]) == 'a 1'",
        "'%s'.format([[1, 'a']]) == '[1, \"a\"]'",
        "[1, ?optional.of(2)].size() == 2",
        "'a'.matches(device.driver) || true",
        "'%d'.format([dyn(1)]) == '1'",
    ],
)
def test_expression_passes_validation(expression: str) -> None:
    assert answer(expression) is True
