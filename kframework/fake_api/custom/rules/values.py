"""Values of custom resources as rules see them."""

from __future__ import annotations

import base64
from collections.abc import Callable

from kframework.cel.library.times import read_duration, read_timestamp
from kframework.cel.values import KeyedList
from kframework.fake_api.custom.rules.property_names import escaped, written_names
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.wire.plain_data import mapping

_READ: dict[str, Callable[[str], object]] = {
    "byte": base64.b64decode,
    "duration": read_duration,
    "date": lambda text: read_timestamp(f"{text}T00:00:00Z"),
    "date-time": read_timestamp,
}


def seen(schema: object, value: object) -> object:
    """Return a valid value of a schema as a value of CEL.

    Fields have the names that rules write, and one that is null is not there. What the schema does not know keeps its
    place, so that it counts in comparisons. Raises CelError for a time span that CEL cannot read.
    """
    if not isinstance(schema, dict) or schema.get("x-kubernetes-int-or-string") is True:
        return value
    match value:
        case dict():
            return _map(schema, value)
        case list():
            return _list(schema, value)
        case str() if (read := _READ.get(str(schema.get("format")))) is not None and schema.get("type") == "string":
            return read(value)
        case int() if schema.get("type") == "number":
            return float(value)
        case float() if schema.get("type") == "integer":
            return int(value)
    return value


def _map(schema: Schema, value: dict[str, object]) -> dict[str, object]:
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return {key: seen(others, item) for key, item in value.items()}
    properties = mapping(schema, "properties")
    fields: dict[str, object] = {}
    for name, item in value.items():
        if item is not None:
            fields |= dict.fromkeys(written_names(name) or (name,), seen(properties.get(name), item))
    return fields


def _list(schema: Schema, value: list[object]) -> list[object]:
    items = [seen(schema.get("items"), item) for item in value]
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return KeyedList(items)
        case "map":
            keys = schema.get("x-kubernetes-list-map-keys")
            return KeyedList(items, tuple(escaped(key) or key for key in keys) if isinstance(keys, list) else ())
    return items
