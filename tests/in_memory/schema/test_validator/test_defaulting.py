"""Defaults are put where nothing was said, and inside of what was said."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validator import apply_defaults, has_defaults

ONE = {"properties": {"a": {"type": "integer", "default": 1}}}


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        (ONE, {}, {"a": 1}),
        (ONE, {"a": 2}, {"a": 2}),
        ({"properties": {"in": ONE}}, {}, {}),
        ({"properties": {"in": ONE}}, {"in": {}}, {"in": {"a": 1}}),
        ({"properties": {"in": {**ONE, "default": {}}}}, {}, {"in": {"a": 1}}),
        ({"properties": {"l": {"items": ONE}}}, {"l": [{}, {"a": 3}]}, {"l": [{"a": 1}, {"a": 3}]}),
        ({"additionalProperties": ONE}, {"k": {}}, {"k": {"a": 1}}),
        (ONE, "x", "x"),
    ],
)
def test_defaults_are_added(schema: Any, value: Any, found: Any) -> None:
    assert apply_defaults(schema, value) == found


def test_defaults_are_not_shared() -> None:
    schema = {"properties": {"l": {"default": [1]}}}
    first: Any = apply_defaults(schema, {})
    first["l"].append(2)
    assert apply_defaults(schema, {}) == {"l": [1]}


def test_schema_has_defaults() -> None:
    assert has_defaults({"properties": {"l": {"items": ONE}}})
    assert not has_defaults({"properties": {"a": {"type": "string"}}, "required": ["a"]})
