"""A version of a custom kind: defaults and validation by its schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, cast

import msgspec

from kframework.fake_api.custom.rules.spec import has_rules
from kframework.fake_api.wire.documents import Data
from kframework.in_memory.schema.causes import Cause, duplicate
from kframework.in_memory.schema.validator import Schema, apply_defaults, causes, has_defaults
from kframework.objects.plain_data import mapping
from kframework.objects.problem import FieldPath

if TYPE_CHECKING:
    from kframework.fake_api.custom.rules.tree import RuleTree


class CustomKind:
    """The schema of a version; without one, objects may have any field."""

    def __init__(self, schema: Data | None) -> None:
        self.schema: Data = {"x-kubernetes-preserve-unknown-fields": True} if schema is None else schema

    @cached_property
    def _has_defaults(self) -> bool:
        return has_defaults(self.schema)

    @cached_property
    def fingerprint(self) -> str:
        return msgspec.json.encode(self.schema).decode()

    def openapi_schema(self, metadata: Data) -> Data:
        strings = {name: {"type": "string"} for name in ("apiVersion", "kind")}
        properties = {**mapping(self.schema, "properties"), **strings, **metadata}
        return {"type": "object", **self.schema, "properties": properties}

    def unknown_fields(self, data: Data) -> list[FieldPath]:
        """List the fields of an object that the schema does not have; they are not stored."""
        return list(_unknown_paths({**self.schema, "x-kubernetes-embedded-resource": True}, data, ()))

    def with_defaults(self, data: Data) -> Data:
        return cast("Data", apply_defaults(self.schema, data)) if self._has_defaults else data

    @cached_property
    def _rules(self) -> RuleTree | None:
        if not has_rules(self.schema):
            return None
        from kframework.fake_api.custom.rules.tree import compile_rules  # most clusters have no rules, and need no CEL

        return compile_rules(self.schema)

    def rule_violations(self, data: Data, old: Data | None, causes: list[Cause]) -> list[Cause]:
        if self._rules is None:
            return []
        from kframework.fake_api.custom.rules.tree import violations

        return violations(self._rules, data, old, causes)

    def causes(self, data: Data) -> list[Cause]:
        own_fields = {name: value for name, value in data.items() if name != "metadata"}
        schema = self.schema
        if (needed := schema.get("required")) and isinstance(needed, list):
            schema = {**schema, "required": [name for name in needed if name not in ("metadata", "apiVersion", "kind")]}
        return [*causes(schema, own_fields), *duplicate_elements(schema, own_fields)]


_COMMON_FIELDS = ("apiVersion", "kind", "metadata")


def _unknown_paths(schema: Schema | None, value: object, path: FieldPath) -> Iterator[FieldPath]:
    schema = schema or {}
    preserves = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if isinstance(value, dict):
        properties, others = _as_schema(schema.get("properties")) or {}, schema.get("additionalProperties")
        for name, item in value.items():
            if schema.get("x-kubernetes-embedded-resource") is True and name in _COMMON_FIELDS:
                continue
            if name in properties:
                yield from _unknown_paths(_as_schema(properties[name]), item, (*path, name))
            elif isinstance(others, dict):
                yield from _unknown_paths(others, item, (*path, name))
            elif others is not True and not preserves:
                yield (*path, name)
    elif isinstance(value, list):
        items = _as_schema(schema.get("items"))
        if items is not None or not preserves:
            for index, item in enumerate(value):
                yield from _unknown_paths(items, item, (*path, index))


def _as_schema(value: object) -> Schema | None:
    return value if isinstance(value, dict) else None


def duplicate_elements(schema: Schema, value: object, path: str = "") -> Iterator[Cause]:
    if isinstance(value, dict):
        known, others = mapping(schema, "properties"), schema.get("additionalProperties")
        for name, item in value.items():
            if isinstance(inner := known.get(name, others), dict):
                yield from duplicate_elements(inner, item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from duplicate_elements(items, item, f"{path}[{index}]")
        list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
        seen: set[bytes] = set()
        for index, item in enumerate(value if list_type in ("set", "map") else ()):
            key = item
            if list_type == "map":
                fields = item if isinstance(item, dict) else {}
                key = {name: fields[name] for name in keys if name in fields} if isinstance(keys, list) else {}
            identity = msgspec.json.encode(key, order="sorted")
            if identity in seen:
                yield duplicate(f"{path}[{index}]", key)
            seen.add(identity)
