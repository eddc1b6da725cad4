"""The shapes of objects: of Kubernetes' own kinds by their models, of users' kinds by their schemas."""

from __future__ import annotations

from functools import cache, partial

from kframework.client.models import Type, fields, model_of
from kframework.fake_api.apply.list_types import default_of, is_atomic_map, is_atomic_object, list_map_keys
from kframework.fake_api.apply.shapes import ABSENT, ANY, ONE_VALUE, Elements, Fields, Shape, map_of
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.served import Resource

#: Fields that Go's types always have, be they empty: structs, and lists with keys.
_STRUCTS = frozenset("metadata spec status template jobTemplate strategy updateStrategy".split())
_LISTS = frozenset({"containers", "drivers"})


def shape_of(resource: Resource) -> Shape:
    """Return how objects of a kind merge; of one of which nothing is known, all but the metadata is anything."""
    if resource.custom is not None:
        return _with_metadata(_of_schema(resource.custom.schema))
    model = model_of(resource.kind.api_version, resource.kind.name)
    return _with_metadata(ANY) if model is None else _of_model(model)


# -- Kubernetes' own kinds -----------------------------------------------------------------------------------------


@cache
def _of_model(model: str) -> Shape:
    known = fields(model)
    return Fields(partial(_of_field, model), None if known else ANY, partial(_always, model))


@cache
def _of_field(model: str, name: str) -> Shape | None:
    found = fields(model).get(name)
    return None if found is None else _of_type(model, name, found)


def _of_type(model: str, name: str, type: Type) -> Shape:
    match type.within:
        case ("list", *_):
            keys = list_map_keys(model, name)
            if keys is None:
                return ONE_VALUE
            defaults = {key: default_of(key) for key in keys}
            return Elements(_of_type(model, name, type.inner), keys, defaults)
        case ("map", *_):
            return ONE_VALUE if is_atomic_map(model, name) else map_of(_of_type(model, name, type.inner))
    if type.is_model:
        return ONE_VALUE if is_atomic_object(model, name, type.name) else _of_model(type.name)
    return ANY if type.name == "object" else ONE_VALUE


def _always(model: str, name: str) -> object:
    if name in _LISTS:
        return []
    type = fields(model).get(name) if name in _STRUCTS else None
    return {} if type is not None and type.is_model else ABSENT


# -- users' kinds --------------------------------------------------------------------------------------------------


def _with_metadata(shape: Shape) -> Shape:
    """Return the shape of an object whose schema need not say what all objects have."""
    known = {"apiVersion": ONE_VALUE, "kind": ONE_VALUE, "metadata": _of_model("V1ObjectMeta")}
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


def _of_object(schema: Schema) -> Shape:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    known = properties if isinstance(properties, dict) else {}
    may_have_any = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
    if others is True or any(schema.get(marker) is True for marker in may_have_any):
        others = {}
    rest = _of_schema(others) if isinstance(others, dict) else None
    return Fields(lambda name: _of_schema(known[name]) if name in known else None, rest)


def _of_array(schema: Schema) -> Shape:
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
    properties = items.get("properties") if isinstance(items, dict) else None
    found = properties.get(name) if isinstance(properties, dict) else None
    return found.get("default") if isinstance(found, dict) else None
