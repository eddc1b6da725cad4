"""The shapes of objects: of Kubernetes' own kinds by its OpenAPI document, of users' kinds by their schemas."""

from __future__ import annotations

from functools import cache, partial

from kframework.fake_api.apply.shapes import ABSENT, ANY, ONE_VALUE, Elements, Fields, Shape, map_of
from kframework.fake_api.schema.validator import Schema as UserSchema
from kframework.fake_api.served import Resource
from kframework.objects.openapi.definitions import OBJECT_META, Schema, definition, definition_of, properties

#: Fields that Go's types always have, be they empty: structs, and lists with keys.
_STRUCTS = frozenset("metadata spec status template jobTemplate strategy updateStrategy".split())
_LISTS = frozenset({"containers", "drivers"})
#: What a key of an element counts as where it is left out. The document has no defaults.
_DEFAULTS = {"protocol": "TCP"}


def shape_of(resource: Resource) -> Shape:
    """Return how objects of a kind merge; of one of which nothing is known, all but the metadata is anything."""
    if resource.custom is not None:
        return _with_metadata(_of_schema(resource.custom.schema))
    name = definition_of(resource.kind.api_version, resource.kind.name)
    return _with_metadata(ANY) if name is None else _of_definition(name)


# -- Kubernetes' own kinds -----------------------------------------------------------------------------------------


@cache
def _of_definition(name: str) -> Shape:
    """Return the shape of objects of a type, and of what has no fields."""
    if properties(name):
        return Fields(partial(_of_property, name), None, partial(_always, name))
    return ONE_VALUE if definition(name).type == "string" else ANY


@cache
def _of_property(name: str, field: str) -> Shape | None:
    schema = properties(name).get(field)
    return None if schema is None else _of_published(schema)


def _of_published(schema: Schema) -> Shape:
    if schema.items is not None:
        return _of_published_list(schema, schema.items)
    if schema.additional_properties is not None:
        return ONE_VALUE if schema.map_type == "atomic" else map_of(_of_published(schema.additional_properties))
    if not schema.reference:
        return ANY if schema.type == "object" else ONE_VALUE
    name = schema.definition_name
    return ONE_VALUE if (schema.map_type or definition(name).map_type) == "atomic" else _of_definition(name)


def _of_published_list(schema: Schema, items: Schema) -> Shape:
    if schema.list_type not in ("map", "set"):
        return ONE_VALUE
    keys = schema.list_map_keys
    return Elements(_of_published(items), keys, {key: _DEFAULTS.get(key) for key in keys})


def _always(name: str, field: str) -> object:
    if field in _LISTS:
        return []
    schema = properties(name).get(field) if field in _STRUCTS else None
    return {} if schema is not None and schema.reference else ABSENT


# -- users' kinds --------------------------------------------------------------------------------------------------


def _with_metadata(shape: Shape) -> Shape:
    """Return the shape of an object whose schema need not say what all objects have."""
    known = {"apiVersion": ONE_VALUE, "kind": ONE_VALUE, "metadata": _of_definition(OBJECT_META)}
    rest = shape if isinstance(shape, Fields) else map_of(ANY)
    return Fields(lambda name: known.get(name) or rest.named(name), rest.others)


def _of_schema(schema: object) -> Shape:
    if not isinstance(schema, dict):
        return ANY
    if schema.get("type") == "array":
        return _of_array(schema)
    if schema.get("type") in _SCALARS or schema.get("x-kubernetes-int-or-string") is True:
        return ONE_VALUE
    if schema.get("type") == "object":
        return ONE_VALUE if schema.get("x-kubernetes-map-type") == "atomic" else _of_object(schema)
    return ANY


_SCALARS = ("string", "integer", "number", "boolean")


def _of_object(schema: UserSchema) -> Shape:
    fields, others = schema.get("properties"), schema.get("additionalProperties")
    known = fields if isinstance(fields, dict) else {}
    may_have_any = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
    if others is True or any(schema.get(marker) is True for marker in may_have_any):
        others = {}
    rest = _of_schema(others) if isinstance(others, dict) else None
    return Fields(lambda name: _of_schema(known[name]) if name in known else None, rest)


def _of_array(schema: UserSchema) -> Shape:
    items = schema.get("items")
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return Elements(_of_schema(items), (), {})
        case "map":
            keys = schema.get("x-kubernetes-list-map-keys")
            names = tuple(str(key) for key in keys) if isinstance(keys, list) else ()
            return Elements(_of_schema(items), names, {name: _default(items, name) for name in names})
    return ONE_VALUE


def _default(items: object, name: str) -> object:
    fields = items.get("properties") if isinstance(items, dict) else None
    found = fields.get(name) if isinstance(fields, dict) else None
    return found.get("default") if isinstance(found, dict) else None
