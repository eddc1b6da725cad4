from __future__ import annotations

import pytest

from kframework.plugins.dynamic_resources.device_selectors import MAX_VALUES
from tests.plugins.dynamic_resources.selecting import OWN, answer


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{OWN}.model.includes('a100')", True),
        (f"{OWN}.model.includes('h100')", False),
        (f"{OWN}.model.includes(quantity('1'))", False),
        ("[1, 2].includes(2)", True),
        ("[1, 2].includes(3)", False),
        (f"lists.range({MAX_VALUES}).includes({MAX_VALUES - 1})", True),
        (
            f"lists.range({MAX_VALUES + 1}).includes({MAX_VALUES})",
            f"run: 'includes' function cannot be applied to lists longer than {MAX_VALUES} values",
        ),
    ],
)
def test_attribute_includes_a_value(expression: str, expected: object) -> None:
    assert answer(expression) == expected
