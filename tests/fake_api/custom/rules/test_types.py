"""Schemas describe types of CEL."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.rules.types import Fields, as_resource, declared_type

TEXT = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"max-size": {"type": "integer"}, "if": {"type": "boolean"}}}


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "bool"),
        (TEXT, "string"),
        (TEXT | {"format": "byte"}, "bytes"),
        (TEXT | {"format": "date"}, "google.protobuf.Timestamp"),
        (TEXT | {"format": "duration"}, "google.protobuf.Duration"),
        (TEXT | {"format": "uuid"}, "string"),
        ({"x-kubernetes-int-or-string": True}, "dyn"),
        ({"type": "array", "items": TEXT}, "list(string)"),
        ({"type": "object", "additionalProperties": {"type": "array", "items": TEXT}}, "map(string, list(string))"),
        ({"type": "array", "items": OBJECT}, "list(self.@idx)"),
        (OBJECT, "self"),
        ({"type": "object", "additionalProperties": True}, "self"),
        ({"x-kubernetes-preserve-unknown-fields": True}, "None"),
        ({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}, "None"),
        ({"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}}, "None"),
    ],
)
def test_types(schema: dict[str, Any], written: str) -> None:
    assert str(declared_type(schema, "self", {})) == written


def test_objects_have_fields_where_rules_can_name_them() -> None:
    fields: Fields = {}
    properties = {"spec": OBJECT, "a b": TEXT, "free": {"x-kubernetes-preserve-unknown-fields": True}}
    declared_type({"type": "object", "properties": properties}, "self", fields)
    assert {type.name: {name: str(each) for name, each in own.items()} for type, own in fields.items()} == {
        "self": {"spec": "self.spec"},
        "self.spec": {"max__dash__size": "int", "__if__": "bool", "if": "bool"},
    }


def test_a_whole_object_has_a_kind_and_a_name() -> None:
    fields: Fields = {}
    declared_type(as_resource({"type": "object"}), "self", fields)
    names = {type.name: set(own) for type, own in fields.items()}
    assert names == {"self": {"apiVersion", "kind", "metadata"}, "self.metadata": {"name", "generateName"}}


def test_a_schema_that_tells_more_of_the_metadata_keeps_it() -> None:
    metadata = {"type": "object", "properties": dict.fromkeys(("name", "generateName", "labels"), TEXT)}
    schema = {"type": "object", "properties": {"apiVersion": TEXT, "kind": TEXT, "metadata": metadata}}
    assert as_resource(schema) is schema
