"""Defaults are put where nothing was said, and inside of what was said."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.validator import defaulted, has_defaults

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
def test_what_is_filled_in(schema: Any, value: Any, found: Any) -> None:
    assert defaulted(schema, value) == found


def test_defaults_are_not_shared() -> None:
    schema = {"properties": {"l": {"default": [1]}}}
    first: Any = defaulted(schema, {})
    first["l"].append(2)
    assert defaulted(schema, {}) == {"l": [1]}


def test_whether_there_are_any() -> None:
    assert has_defaults({"properties": {"l": {"items": ONE}}})
    assert not has_defaults({"properties": {"a": {"type": "string"}}, "required": ["a"]})
