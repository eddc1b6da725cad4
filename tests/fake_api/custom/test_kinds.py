"""What a user defines is described, with the fields that every object has."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.kinds import CustomKind, duplicate_elements


def test_openapi_schema_has_the_common_fields() -> None:
    kind = CustomKind({"description": "A widget.", "properties": {"spec": {"type": "object"}}})
    assert kind.openapi_schema({"metadata": {"$ref": "x"}}) == {
        "type": "object",
        "description": "A widget.",
        "properties": {
            "spec": {"type": "object"},
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": "x"},
        },
    }


def test_another_schema_has_another_fingerprint() -> None:
    assert CustomKind({}).fingerprint == CustomKind({}).fingerprint != CustomKind({"type": "object"}).fingerprint


def test_object_is_defaulted_and_validated() -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
    kind = CustomKind({"type": "object", "required": ["spec", "metadata"], "properties": {"spec": spec}})
    assert kind.unknown_fields({"spec": {"size": 1, "colour": "red"}}) == [("spec", "colour")]
    assert kind.with_defaults({"spec": {}}) == {"spec": {"size": 1}}
    assert list(map(str, kind.causes({}))) == ["spec: Required value"]
    assert list(map(str, kind.causes({"spec": {"size": "big"}}))) == [
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'
    ]


def test_objects_without_a_schema_have_any_field() -> None:
    assert CustomKind(None).unknown_fields({"anything": 1}) == []
    assert CustomKind(None).causes({"anything": 1}) == []


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
def test_unknown_fields_are_listed(spec: Any, data: Any, found: list[Any]) -> None:
    whole = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "spec": data}
    assert CustomKind({"type": "object", "properties": {"spec": spec}}).unknown_fields(whole) == found


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
def test_duplicate_elements_are_reported(schema: Any, value: Any, found: list[str]) -> None:
    assert list(map(str, duplicate_elements(schema, value, "a"))) == found
