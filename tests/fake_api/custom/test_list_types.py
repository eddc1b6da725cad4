"""Elements of sets and maps stand once."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.list_types import duplicates

SET = {"x-kubernetes-list-type": "set"}
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        (SET, ["x", "y"], []),
        (SET, ["x", "y", "x"], ['a[2]: Duplicate value: "x"']),
        (MAP, [{"name": "x", "b": 1}, {"name": "x", "b": 2}], ['a[1]: Duplicate value: {"name":"x"}']),
        ({}, ["x", "x"], []),
        ({"properties": {"l": SET}}, {"l": [1, 1]}, ["a.l[1]: Duplicate value: 1"]),
        ({"items": SET}, [[1, 1]], ["a[0][1]: Duplicate value: 1"]),
    ],
)
def test_duplicates(schema: Any, value: Any, found: list[str]) -> None:
    assert list(map(str, duplicates(schema, value, "a"))) == found
