"""The values that a schema gives to what its writer left out."""

from __future__ import annotations

from copy import deepcopy

from kframework.fake_api.schema.validator import Schema


def has_defaults(schema: object) -> bool:
    """Return whether anything in a schema has a default."""
    if isinstance(schema, dict):
        return "default" in schema or any(has_defaults(each) for each in schema.values())
    return isinstance(schema, list) and any(has_defaults(each) for each in schema)


def defaulted(schema: Schema, value: object) -> object:
    """Return a value with the defaults that are missing in it; what is not touched is shared."""
    if isinstance(value, dict):
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        known = properties if isinstance(properties, dict) else {}
        filled = {
            name: deepcopy(each["default"])
            for name, each in known.items()
            if isinstance(each, dict) and "default" in each and name not in value
        }
        whole = value | filled
        return {name: _inner(known.get(name, others), item) for name, item in whole.items()}
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [defaulted(items, item) for item in value]
    return value


def _inner(schema: object, value: object) -> object:
    return defaulted(schema, value) if isinstance(schema, dict) else value
