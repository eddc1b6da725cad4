from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selectors.selecting import answer


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
def test_loops_fill_maps(expression: str, expected: object) -> None:
    assert answer(expression) == expected
