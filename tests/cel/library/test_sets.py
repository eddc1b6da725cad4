from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selectors.selecting import answer


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
def test_lists_are_sets(expression: str, expected: bool) -> None:
    assert answer(expression) is expected
