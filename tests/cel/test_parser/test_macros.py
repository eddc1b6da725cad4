from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import OWN, answer


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[1, 2].all(x, x > 0)", True),
        ("[1, 2].all(x, x > 1)", False),
        ("[0, 2].all(x, 4 / x == 3)", False),
        ("[2, 0].all(x, 4 / x == 2)", "run: division by zero"),
        ("[1, 2].exists(x, x > 1)", True),
        ("[0, 2].exists(x, 4 / x == 2)", True),
        ("[0, 1].exists(x, 4 / x == 2)", "run: division by zero"),
        ("[1, 2].exists_one(x, x > 1)", True),
        ("[1, 2].existsOne(x, x > 0)", False),
        ("[0, 2].exists_one(x, 4 / x == 2)", "run: division by zero"),
        ("[1, 2].map(x, x * 2) == [2, 4]", True),
        ("[1, 2].map(x, x > 1, x * 2) == [4]", True),
        ("[1, 2].filter(x, x > 1) == [2]", True),
        ("[].map(x, x).size() == 0", True),
        ("[1, 2].map(x, [3].map(y, x + y)) == [[4], [5]]", True),
        ("{'a': 1}.all(k, k == 'a')", True),
        ("{true: 1}.map(k, k) == [true]", True),
        ("[1, 2].all(i, v, v == i + 1)", True),
        ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", True),
        ("[1, 2].existsOne(i, v, v == 2)", True),
        ("[1, 2].exists_one(i, v, v > 0)", False),
        ("[1, 2].transformList(i, v, v * i) == [0, 2]", True),
        ("[1, 2].transformList(i, v, i > 0, v) == [2]", True),
        ("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", True),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}", True),
        ("[1, 2].transformMapEntry(i, v, {v: i}) == {1: 0, 2: 1}", True),
        ("[1, 2].transformMapEntry(i, v, v > 1, {v: i}) == {2: 1}", True),
        ("[1, 1].transformMapEntry(i, v, {v: i}).size() == 1", "run: insert failed: key 1 already exists"),
        ("cel.bind(x, 1, x + x) == 2", True),
        ("cel.bind(x, 1 / 0, true)", True),
        ("cel.bind(x, 1 / 0, x == 1)", "run: division by zero"),
        ("cel.bind(x, 1 / 0, x == 1 || x == 2 || true)", True),
        ("[3, 1].sortBy(x, x) == [1, 3]", True),
        (f"{OWN}.?model.optMap(m, m == 'a100').value()", True),
        (f"!{OWN}.?nope.optMap(m, m).hasValue()", True),
        (f"{OWN}.?model.optFlatMap(m, optional.of(m)).value() == 'a100'", True),
        (f"{OWN}.?nope.optFlatMap(m, optional.of(m)).orValue('x') == 'x'", True),
        ("has(device.driver)", True),
        ("[1].all(x.y, true)", "compile: argument must be a simple name"),
        ("[1].map(1, true)", "compile: argument is not an identifier"),
        ("[1].filter(1, true)", "compile: argument is not an identifier"),
        ("[1].all(__result__, true)", "compile: iteration variable overwrites accumulator variable"),
        ("[1].all(i, i, true)", "compile: duplicate variable name: i"),
        ("has(device)", "compile: invalid argument to has() macro"),
        ("cel.bind(1, 2, true)", "compile: cel.bind() variable names must be simple identifiers"),
        ("optional.of(1).optMap(1, 2).hasValue()", "compile: optMap() variable name must be a simple identifier"),
        ("sets.bind(x, 1, true)", "compile: undeclared reference to 'x' (in container '')"),
        (
            "'a'.sortBy(x, x) == []",
            "compile: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
        (
            "device.driver.all(x, true)",
            "compile: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            f"{OWN}.model.all(x, true)",
            "run: got 'string', expected iterable type",
        ),
        ("dyn(1).all(x, true)", "run: got 'int', expected iterable type"),
        ("dyn(1).all(x, y, true)", "run: unsupported comprehension range type: int"),
        ("dyn([1]).all(x, x)", "run: no such overload: _&&_(int)"),
    ],
)
def test_macros_loop_and_bind(expression: str, expected: object) -> None:
    assert answer(expression) == expected
