from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import answer


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2, 3].slice(1, 2) == [2] && [1].slice(1, 1) == []",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [[[1]]].flatten() == [[1]] && dyn([1, 2]).flatten() == [1, 2]",
        "[[[1]]].flatten(2) == [1] && [[1]].flatten(0) == [[1]]",
        "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [true, false].sort() == [false, true]",
        "[].sort() == [] && [3, 1].sortBy(x, -x) == [3, 1]",
        "[[2], [1]].sortBy(x, x[0]) == [[1], [2]]",
        "lists.range(3) == [0, 1, 2] && lists.range(-1) == []",
        "[1, 2].reverse() == [2, 1]",
        "[1, 1, 2].distinct() == [1, 2] && [[1], [1]].distinct() == [[1]] && [].distinct() == []",
        "[1, 2].isSorted() && ![2, 1].isSorted() && [].isSorted() && ['a', 'b'].isSorted()",
        "[1, 2].sum() == 3 && [1u].sum() == 1u && [1.5, 1.0].sum() == 2.5 && [duration('1s')].sum() == duration('1s')",
        "[3, 1].max() == 3 && [3, 1].min() == 1 && ['a', 'b'].max() == 'b'",
        "['a', 'b', 'a'].indexOf('a') == 0 && ['a', 'b', 'a'].lastIndexOf('a') == 2 && [1].indexOf(2) == -1",
        "[quantity('1')].indexOf(quantity('1000m')) == 0 && [1].lastIndexOf(3) == -1",
        "dyn([quantity('1'), quantity('1')]).distinct().size() == 1",
        "[dyn(quantity('1')), dyn('a')].distinct().size() == 2",
    ],
)
def test_list_functions_hold(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("[1].slice(-1, 1) == []", "cannot slice(-1, 1), negative indexes not supported"),
        ("[1].slice(1, 0) == []", "cannot slice(1, 0), start index must be less than or equal to end index"),
        ("[1].slice(0, 2) == []", "cannot slice(0, 2), list is length 1"),
        ("[[1]].flatten(-1) == [1]", "level must be non-negative"),
        ("dyn(1).flatten() == [1]", "no such overload: flatten(int, int)"),
        ("dyn([dyn(1), dyn('a')]).sort() == []", "list elements must have the same type"),
        ("dyn([[1], [2]]).sort() == []", "no such overload: compare(list, list)"),
        ("dyn(1).sort() == []", "no such overload: sort(int, int)"),
        ("[].max() == 1", "max called on empty list"),
        ("[].min() == 1", "min called on empty list"),
        ("[9223372036854775807, 1].sum() == 0", "integer overflow"),
        ("dyn(1).max() == 1", "no such overload: max(int)"),
    ],
)
def test_invalid_arguments_are_an_error(expression: str, problem: str) -> None:
    assert answer(expression) == f"run: {problem}"


def test_unordered_elements_are_not_sorted() -> None:
    assert str(answer("[[1]].sort() == []")).startswith("compile: found no matching overload for 'sort'")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sets.contains([1, 2], [2])", True),
        ("sets.contains([1, 2], [])", True),
        ("sets.contains([1, 2], [3])", False),
        ("sets.equivalent([1, 2], [2, 1, 1])", True),
        ("sets.equivalent([1, 2], [1])", False),
        ("sets.equivalent([1], [1, 2])", False),
        ("sets.intersects([1], [1, 2])", True),
        ("sets.intersects([3], [1, 2])", False),
        ("sets.intersects([], [1])", False),
    ],
)
def test_set_functions_hold(expression: str, expected: bool) -> None:
    assert answer(expression) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("{'a': 1}.transformMap(k, v, k + 'x') == {'a': 'ax'}", True),
        ("{true: 1}.transformMap(k, v, k) == {true: true}", True),
        ("['a', 'b'].transformMapEntry(i, v, {v: i, v + v: i}).size() == 4", True),
        ("[true, false].transformMapEntry(i, v, {v: i})[false] == 1", True),
        ("['a', 'a'].transformMapEntry(i, v, {v: i}).size() == 1", "run: insert failed: key a already exists"),
        ("{'a': 0}.transformMap(k, v, 1 / v).size() == 1", "run: division by zero"),
    ],
)
def test_two_variable_macros_build_maps(expression: str, expected: object) -> None:
    assert answer(expression) == expected
