"""What a schema does not have is found with its path."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.pruning import unknown_paths

SPEC: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
FREE = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("spec", "data", "found"),
    [
        (SPEC, {"a": "x"}, []),
        (SPEC, {"a": "x", "b": {"c": 1}}, [("spec", "b")]),
        (SPEC | FREE, {"b": {"c": 1}}, []),
        ({**FREE, "properties": {"in": SPEC}}, {"in": {"b": 1}, "c": 1}, [("spec", "in", "b")]),
        ({"additionalProperties": SPEC}, {"k": {"b": 1}}, [("spec", "k", "b")]),
        ({"additionalProperties": True}, {"k": {"b": 1}}, []),
        ({"properties": {"l": {"items": SPEC}}}, {"l": [{"a": "x"}, {"b": 1}]}, [("spec", "l", 1, "b")]),
        (
            {"properties": {"r": {"x-kubernetes-embedded-resource": True, "properties": {}}}},
            {"r": {"kind": "X", "metadata": {"name": "n"}, "b": 1}},
            [("spec", "r", "b")],
        ),
    ],
)
def test_what_is_unknown(spec: Any, data: Any, found: list[Any]) -> None:
    schema = {"type": "object", "properties": {"spec": spec}}
    whole = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "spec": data}
    assert unknown_paths(schema, whole) == found
