"""A version of a kind that a user defines: what its schema makes of objects."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

import msgspec

from kframework.fake_api.custom.list_types import duplicates
from kframework.fake_api.custom.pruning import unknown_paths
from kframework.fake_api.custom.rules.written import has_rules
from kframework.fake_api.schema.causes import Cause
from kframework.fake_api.schema.defaulting import defaulted, has_defaults
from kframework.fake_api.schema.validator import causes
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping
from kframework.objects.codec import FieldPath

if TYPE_CHECKING:
    from kframework.fake_api.custom.rules.tree import Tree

_ANYTHING: Data = {"x-kubernetes-preserve-unknown-fields": True}


class CustomKind:
    """Knows the schema of a version; without one, objects may have any field."""

    def __init__(self, schema: Data | None) -> None:
        self.schema: Data = _ANYTHING if schema is None else schema

    @cached_property
    def fingerprint(self) -> str:
        """The schema as text, which is another for another schema."""
        return msgspec.json.encode(self.schema).decode()

    @cached_property
    def _has_defaults(self) -> bool:
        return has_defaults(self.schema)

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

    def broken_rules(self, data: Data, old: Data | None, complaints: list[Cause]) -> list[Cause]:
        """List the rules that an object breaks; `complaints` are what else is wrong with it, `old` it before."""
        if self._rules is None:
            return []
        from kframework.fake_api.custom.rules.judgement import broken

        return broken(self._rules, data, old, complaints)

    def causes(self, data: Data) -> list[Cause]:
        """List what keeps an object from being valid by its schema; its metadata is looked at elsewhere."""
        looked_at = {name: value for name, value in data.items() if name != "metadata"}
        schema = self.schema
        if (needed := schema.get("required")) and isinstance(needed, list):
            schema = {**schema, "required": [name for name in needed if name not in ("metadata", "apiVersion", "kind")]}
        return [*causes(schema, looked_at), *duplicates(schema, looked_at)]
