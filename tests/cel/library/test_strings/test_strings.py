from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import answer


@pytest.mark.parametrize(
    "expression",
    [
        "'©αT'.charAt(1) == 'α' && 'a'.charAt(1) == ''",
        "'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('x') == -1 && 'tacocat'.indexOf('') == 0",
        "'tacocat'.indexOf('a', 3) == 5 && 'tacocat'.indexOf('', 3) == 3 && 'ab'.indexOf('a', 9) == -1",
        "'tacocat'.lastIndexOf('at') == 5 && 'tacocat'.lastIndexOf('') == 7 && 'a'.lastIndexOf('aa') == -1",
        "'tacocat'.lastIndexOf('a', 3) == 1 && 'tacocat'.lastIndexOf('', 3) == 3 && 'ab'.lastIndexOf('a', 9) == -1",
        "'Ab©Ä'.lowerAscii() == 'ab©Ä' && 'aB©ä'.upperAscii() == 'AB©ä'",
        "'aaa'.replace('a', 'b') == 'bbb'",
        "'aaa'.replace('a', 'b', 2) == 'bba' && 'aaa'.replace('a', 'b', 0) == 'aaa'",
        "'aaa'.replace('a', 'b', -1) == 'bbb' && 'ab'.replace('', '-') == '-a-b-'",
        "'a,b,c'.split(',') == ['a', 'b', 'c']",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'a,b'.split(',', 0) == [] && 'a,b'.split(',', -1) == ['a', 'b'] && 'abc'.split('', 2) == ['a', 'bc']",
        "'a,b'.split(',', 1) == ['a,b'] && ''.split(',') == ['']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'a'.substring(1) == ''",
        "' \\t\\u00a0a\\u2003'.trim() == 'a'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b' && [].join('-') == ''",
        "strings.quote('a\"b\\n') == '\"a\\\\\"b\\\\n\"'",
    ],
)
def test_string_functions_hold(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("'a'.charAt(2) == ''", "index out of range: 2"),
        ("'a'.charAt(-1) == ''", "index out of range: -1"),
        ("'a'.indexOf('a', -1) == 0", "index out of range: -1"),
        ("'a'.lastIndexOf('a', -1) == 0", "index out of range: -1"),
        ("'a'.substring(2) == ''", "index out of range: 2"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(-1, 1) == ''", "index out of range: -1"),
        ("'abc'.substring(1, 4) == ''", "index out of range: 4"),
        ("dyn(1).trim() == ''", "no such overload: trim(int)"),
    ],
)
def test_invalid_index_is_an_error(expression: str, problem: str) -> None:
    assert answer(expression) == f"run: {problem}"


def test_only_strings_are_joined() -> None:
    assert answer("dyn([dyn('a'), dyn(1)]).join() == ''") == "run: join: invalid input"
