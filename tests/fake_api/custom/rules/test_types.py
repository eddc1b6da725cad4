"""Schemas describe types of CEL."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.cel.values import CelDuration, KeyedList, Timestamp
from kframework.fake_api.custom.rules.types import (
    Fields,
    declared_type,
    escape_name,
    property_names,
    to_cel_value,
    with_object_fields,
)

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
def test_schema_has_a_cel_type(schema: dict[str, Any], written: str) -> None:
    assert str(declared_type(schema, "self", {})) == written


def test_object_type_has_expressible_fields() -> None:
    fields: Fields = {}
    properties = {"spec": OBJECT, "a b": TEXT, "free": {"x-kubernetes-preserve-unknown-fields": True}}
    declared_type({"type": "object", "properties": properties}, "self", fields)
    assert {type.name: {name: str(each) for name, each in own.items()} for type, own in fields.items()} == {
        "self": {"spec": "self.spec"},
        "self.spec": {"max__dash__size": "int", "__if__": "bool", "if": "bool"},
    }


def test_whole_object_has_a_kind_and_a_name() -> None:
    fields: Fields = {}
    declared_type(with_object_fields({"type": "object"}), "self", fields)
    names = {type.name: set(own) for type, own in fields.items()}
    assert names == {"self": {"apiVersion", "kind", "metadata"}, "self.metadata": {"name", "generateName"}}


def test_schema_with_metadata_keeps_it() -> None:
    metadata = {"type": "object", "properties": dict.fromkeys(("name", "generateName", "labels"), TEXT)}
    schema = {"type": "object", "properties": {"apiVersion": TEXT, "kind": TEXT, "metadata": metadata}}
    assert with_object_fields(schema) is schema


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({"type": "number"}, 1, 1.0),
        ({"type": "integer"}, 1.0, 1),
        ({"type": "boolean"}, True, True),
        ({"x-kubernetes-int-or-string": True}, "50%", "50%"),
        (TEXT | {"format": "byte"}, "QUI=", b"AB"),
        (TEXT | {"format": "duration"}, "1m", CelDuration(60 * 10**9)),
        (TEXT | {"format": "date"}, "1970-01-02", Timestamp(86_400 * 10**9)),
        (TEXT | {"format": "date-time"}, "1970-01-01T01:00:00+01:00", Timestamp(0)),
        ({"type": "object", "properties": {"a-b": TEXT, "c": TEXT}}, {"a-b": "x", "c": None}, {"a__dash__b": "x"}),
        ({"type": "object", "properties": {"if": TEXT}}, {"if": "x"}, {"__if__": "x", "if": "x"}),
        ({"type": "object", "properties": {}}, {"else where": 1}, {"else where": 1}),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a-b": 1}, {"a-b": 1.0}),
        ({"type": "array", "items": {"type": "number"}}, [1, 2], [1.0, 2.0]),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"a-b": [1]}, {"a__dash__b": [1]}),
    ],
)
def test_value_is_converted_to_cel(schema: dict[str, Any], value: object, found: object) -> None:
    assert repr(to_cel_value(schema, value)) == repr(found) or to_cel_value(schema, value) == found


def test_lists_are_sets_or_maps_by_their_schema() -> None:
    items = {"type": "object", "properties": {"host-port": {"type": "integer"}}}
    as_set = to_cel_value({"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, ["a"])
    as_map = to_cel_value(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["host-port"],
            "items": items,
        },
        [{"host-port": 1}],
    )
    assert isinstance(as_set, KeyedList) and as_set.keys == ()
    assert isinstance(as_map, KeyedList) and as_map.keys == ("host__dash__port",)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("size", "size"),
        ("max-size", "max__dash__size"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("namespaces", "namespaces"),
        ("0", None),
        ("", None),
        ("a b", None),
        ("größe", None),
    ],
)
def test_names_are_escaped(name: str, written: str | None) -> None:
    assert escape_name(name) == written


def test_reserved_words_may_be_used_unescaped() -> None:
    assert property_names("if") == ("__if__", "if")
    assert property_names("size") == ("size",)
    assert property_names("a b") == ()
