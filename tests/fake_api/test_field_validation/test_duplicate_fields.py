"""Fields that stand twice are found with their paths."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.field_validation import duplicates
from kframework.objects.problem import FieldPath


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a": 1}', []),
        (b'{"a": 1, "a": 2}', [("a",)]),
        (b'{"a": [{"b": 1}, {"b": 1, "b": 2}]}', [("a", 1, "b")]),
        (b'{"a": "\\u0022\\u0022", "a": "\\u0022"}', [("a",)]),
        (b'{"a": "x", "\\u0061": "y"}', [("a",)]),
        (b'{"a": "b\\"c"}', []),
        (b'{"": {"": ""}}', []),
        (b'{"": {"": "", "": ""}}', [("", "")]),
    ],
)
def test_what_stands_twice(body: bytes, found: list[FieldPath]) -> None:
    assert duplicates(body) == found


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ClusterError, match="nested too deeply"):
        duplicates(b"[" * 100_000)
