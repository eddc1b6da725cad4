"""A version of a kind that a user defines: what its schema makes of objects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, cast

import msgspec

from kframework.fake_api.custom.rules.written import has_rules
from kframework.fake_api.schema.causes import Cause, duplicate
from kframework.fake_api.schema.validator import Schema, causes, defaulted, has_defaults
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping
from kframework.objects.problem import FieldPath

if TYPE_CHECKING:
    from kframework.fake_api.custom.rules.tree import Tree


class CustomKind:
    """Knows the schema of a version; without one, objects may have any field."""

    def __init__(self, schema: Data | None) -> None:
        self.schema: Data = {"x-kubernetes-preserve-unknown-fields": True} if schema is None else schema

    @cached_property
    def _has_defaults(self) -> bool:
        return has_defaults(self.schema)

    @cached_property
    def fingerprint(self) -> str:
        """The schema as text, which is another for another schema."""
        return msgspec.json.encode(self.schema).decode()

    def described(self, metadata: Data) -> Data:
        """Return the schema as OpenAPI documents have it, with the fields that every object has."""
        strings = {name: {"type": "string"} for name in ("apiVersion", "kind")}
        properties = {**mapping(self.schema, "properties"), **strings, **metadata}
        return {"type": "object", **self.schema, "properties": properties}

    def unknown(self, data: Data) -> list[FieldPath]:
        """List the fields of an object that are not stored, because the schema does not have them."""
        return unknown_paths(self.schema, data)

    def defaulted(self, data: Data) -> Data:
        """Return an object with the defaults of what it does not say."""
        return cast("Data", defaulted(self.schema, data)) if self._has_defaults else data

    @cached_property
    def _rules(self) -> Tree | None:
        if not has_rules(self.schema):
            return None
        from kframework.fake_api.custom.rules.tree import tree_of  # most clusters have no rules, and need no CEL

        return tree_of(self.schema)

    def broken_rules(self, data: Data, old: Data | None, causes: list[Cause]) -> list[Cause]:
        """List the rules that an object breaks; `causes` are what else is wrong with it, `old` it before."""
        if self._rules is None:
            return []
        from kframework.fake_api.custom.rules.tree import broken

        return broken(self._rules, data, old, causes)

    def causes(self, data: Data) -> list[Cause]:
        """List what keeps an object from being valid by its schema; its metadata is looked at elsewhere."""
        looked_at = {name: value for name, value in data.items() if name != "metadata"}
        schema = self.schema
        if (needed := schema.get("required")) and isinstance(needed, list):
            schema = {**schema, "required": [name for name in needed if name not in ("metadata", "apiVersion", "kind")]}
        return [*causes(schema, looked_at), *duplicates(schema, looked_at)]


#: What every object has, so that no schema needs to say it.
_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")


def unknown_paths(schema: Schema, data: dict[str, object]) -> list[FieldPath]:
    """List the fields that a schema does not have, in their order; `data` is a whole object."""
    return list(_unknown({**schema, "x-kubernetes-embedded-resource": True}, data, ()))


def _unknown(schema: Schema | None, value: object, path: FieldPath) -> Iterator[FieldPath]:
    schema = schema or {}
    preserves = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if isinstance(value, dict):
        properties, others = _schema(schema.get("properties")) or {}, schema.get("additionalProperties")
        for name, item in value.items():
            if schema.get("x-kubernetes-embedded-resource") is True and name in _OF_EVERY_OBJECT:
                continue
            if name in properties:
                yield from _unknown(_schema(properties[name]), item, (*path, name))
            elif isinstance(others, dict):
                yield from _unknown(others, item, (*path, name))
            elif others is not True and not preserves:
                yield (*path, name)
    elif isinstance(value, list):
        items = _schema(schema.get("items"))
        if items is not None or not preserves:
            for index, item in enumerate(value):
                yield from _unknown(items, item, (*path, index))


def _schema(found: object) -> Schema | None:
    return found if isinstance(found, dict) else None


def duplicates(schema: Schema, value: object, path: str = "") -> Iterator[Cause]:
    """Yield the elements that stand twice where they must not."""
    if isinstance(value, dict):
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        known = properties if isinstance(properties, dict) else {}
        for name, item in value.items():
            if isinstance(inner := known.get(name, others), dict):
                yield from duplicates(inner, item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from duplicates(items, item, f"{path}[{index}]")
        list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
        seen: set[bytes] = set()
        for index, item in enumerate(value if list_type in ("set", "map") else ()):
            told = item
            if list_type == "map":
                found = item if isinstance(item, dict) else {}
                told = {key: found[key] for key in keys if key in found} if isinstance(keys, list) else {}
            identity = msgspec.json.encode(told, order="sorted")
            if identity in seen:
                yield duplicate(f"{path}[{index}]", told)
            seen.add(identity)
