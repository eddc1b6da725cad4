"""Values are merged into objects, and removed from them."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.field_manager import merge_value, remove_fields
from kframework.fake_api.apply.managed_fields import decode_fields
from kframework.fake_api.apply.shapes import ATOMIC, UNTYPED, ListShape, MergeShape, StructShape, map_shape

SET = ListShape(ATOMIC, (), {})
NAMED = ListShape(map_shape(ATOMIC), ("name",), {})
SHAPES: dict[str, MergeShape] = {"map": map_shape(ATOMIC), "one": ATOMIC, "set": SET, "named": NAMED, "any": UNTYPED}
SHAPE = StructShape(SHAPES.get)


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        ({"map": {"a": 1}}, {"map": {"b": 2}}, {"map": {"a": 1, "b": 2}}),
        ({"map": {"a": 1}}, {"map": {}}, {"map": {"a": 1}}),
        ({"map": {"a": 1}}, {"map": {"a": 2}}, {"map": {"a": 2}}),
        ({}, {"map": {}}, {"map": {}}),
        ({"one": {"a": 1}}, {"one": {"b": 2}}, {"one": {"b": 2}}),
        ({"one": [1]}, {"one": [2]}, {"one": [2]}),
        ({"any": {"a": [1], "b": 1}}, {"any": {"a": [2]}}, {"any": {"a": [2], "b": 1}}),
        ({"any": {"a": 1}}, {"any": 1}, {"any": 1}),
        (
            {"named": [{"name": "a", "x": 1}]},
            {"named": [{"name": "a", "y": 2}]},
            {"named": [{"name": "a", "x": 1, "y": 2}]},
        ),
        (
            {"named": [{"name": "a", "x": 1}, {"name": "a", "x": 2}, {"name": "b"}]},
            {"named": [{"name": "b", "x": 1}]},
            {"named": [{"name": "a", "x": 1}, {"name": "a", "x": 2}, {"name": "b", "x": 1}]},
        ),
        (
            {"named": [{"name": "a", "x": 1}, {"name": "a", "x": 2}]},
            {"named": [{"name": "a", "y": 1}]},
            {"named": [{"name": "a", "y": 1}]},
        ),
    ],
)
def test_applied_value_is_merged(live: object, applied: object, expected: object) -> None:
    assert merge_value(SHAPE, live, applied) == expected


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        ("abc", "", "abc"),
        ("", "abc", "abc"),
        ("abc", "cba", "cba"),
        ("abc", "xb", "axbc"),
        ("abcde", "dxb", "acdexb"),
        ("abc", "bx", "abcx"),
        ("ab", "xy", "abxy"),
        ("abcd", "da", "bcda"),
    ],
)
def test_applied_elements_keep_their_order(live: str, applied: str, expected: str) -> None:
    result = merge_value(SHAPE, {"set": list(live)}, {"set": list(applied)})
    assert result == {"set": list(expected)}


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ({}, {"map": {"a": 1, "b": 2}, "set": ["x", "y"], "named": [{"name": "a", "x": 1}], "one": {"a": 1}}),
        (
            {"f:map": {"f:a": {}, "f:b": {}}},
            {"map": {}, "set": ["x", "y"], "named": [{"name": "a", "x": 1}], "one": {"a": 1}},
        ),
        ({"f:map": {}, "f:one": {}, "f:named": {}, "f:set": {'v:"x"': {}}}, {"set": ["y"]}),
        (
            {"f:map": {}, "f:set": {}, "f:named": {'k:{"name":"a"}': {"f:x": {}}}, "f:one": {"f:a": {}}},
            {"named": [{"name": "a"}], "one": {"a": 1}},
        ),
        ({"f:map": {}, "f:set": {}, "f:named": {'k:{"name":"a"}': {}}, "f:one": {}}, {"named": []}),
    ],
)
def test_fields_are_removed(gone: object, left: object) -> None:
    whole = {"map": {"a": 1, "b": 2}, "set": ["x", "y"], "named": [{"name": "a", "x": 1}], "one": {"a": 1}}
    assert remove_fields(SHAPE, whole, decode_fields(gone)) == left
