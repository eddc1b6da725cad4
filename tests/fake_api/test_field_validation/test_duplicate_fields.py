"""Fields that stand twice are found with their paths."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.field_validation import find_duplicates
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
def test_duplicate_fields_are_listed(body: bytes, found: list[FieldPath]) -> None:
    assert find_duplicates(body) == found


def test_deeply_nested_body_is_rejected() -> None:
    with pytest.raises(ClusterError, match="nested too deeply"):
        find_duplicates(b"[" * 100_000)
