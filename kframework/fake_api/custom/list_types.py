"""Lists that are sets or maps: none of their elements may stand twice."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.fake_api.schema.causes import Cause, duplicate
from kframework.fake_api.schema.validator import Schema


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
        yield from _repeated(schema, value, path)


def _repeated(schema: Schema, value: list[object], path: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        told = item
        if list_type == "map":
            found = item if isinstance(item, dict) else {}
            told = {key: found[key] for key in keys if key in found} if isinstance(keys, list) else {}
        identity = msgspec.json.encode(told, order="sorted")
        if identity in seen:
            yield duplicate(f"{path}[{index}]", told)
        seen.add(identity)
