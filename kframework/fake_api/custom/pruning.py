"""What of a custom resource its schema does not know: it is not stored."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.validator import Schema
from kframework.objects.codec import FieldPath

#: What every object has, so that no schema needs to say it.
_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")


def unknown_paths(schema: Schema, data: dict[str, object]) -> list[FieldPath]:
    """List the fields that a schema does not have, in their order; `data` is a whole object."""
    return list(_unknown({**schema, "x-kubernetes-embedded-resource": True}, data, ()))


def _unknown(schema: Schema | None, value: object, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, dict):
        yield from _in_object(schema or {}, value, path)
    elif isinstance(value, list):
        items = _schema((schema or {}).get("items"))
        if items is not None or not _preserves(schema):
            for index, item in enumerate(value):
                yield from _unknown(items, item, (*path, index))


def _in_object(schema: Schema, value: dict[str, object], path: FieldPath) -> Iterator[FieldPath]:
    properties = _schema(schema.get("properties")) or {}
    others, preserves = schema.get("additionalProperties"), _preserves(schema)
    for name, item in value.items():
        if schema.get("x-kubernetes-embedded-resource") is True and name in _OF_EVERY_OBJECT:
            continue
        if name in properties:
            yield from _unknown(_schema(properties[name]), item, (*path, name))
        elif isinstance(others, dict):
            yield from _unknown(others, item, (*path, name))
        elif others is not True and not preserves:
            yield (*path, name)


def _preserves(schema: Schema | None) -> bool:
    return (schema or {}).get("x-kubernetes-preserve-unknown-fields") is True


def _schema(found: object) -> Schema | None:
    return found if isinstance(found, dict) else None
