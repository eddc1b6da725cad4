"""A version of a kind that a user defines: what its schema makes of objects."""

from __future__ import annotations

from functools import cached_property

import msgspec

from kframework.apiserver.wire.documents import Data
from kframework.apiserver.wire.plain_data import mapping


class CustomKind:
    """Knows the schema of a version; it is read when it is first needed."""

    def __init__(self, schema: Data) -> None:
        self.schema: Data = schema

    @cached_property
    def fingerprint(self) -> str:
        """The schema as text, which is another for another schema."""
        return msgspec.json.encode(self.schema).decode()

    def described(self, metadata: Data) -> Data:
        """Return the schema as OpenAPI documents have it, with the fields that every object has."""
        strings = {name: {"type": "string"} for name in ("apiVersion", "kind")}
        properties = {**mapping(self.schema, "properties"), **strings, **metadata}
        return {"type": "object", **self.schema, "properties": properties}
