"""How values merge, according to Kubernetes' OpenAPI document or a custom resource's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Final, NamedTuple

from kframework.fake_api.apply.managed_fields import Path, field_element, format_field_path, key_element, value_element
from kframework.fake_api.resources import ApiResource
from kframework.objects.openapi.definitions import OBJECT_META, Schema, definition, definition_of, properties
from kframework.objects.plain_data import mapping


class ValuePart(NamedTuple):
    """A part of a value; `is_named` if it is a field of a struct, not a map key or list element."""

    shape: MergeShape
    value: object
    is_named: bool = False


ABSENT: Final = object()


class MergeShape:
    """An atomic value: a scalar, or a list or map that is replaced as a whole."""

    def parts(self, value: object) -> dict[str, ValuePart] | None:
        """Return the parts of a value by path element; None if it is atomic."""
        return None

    def child(self, element: str) -> ValuePart:
        return ValuePart(UNTYPED, ABSENT)

    def implied_value(self, element: str) -> object:
        """Return the value that an absent part has in Go, whose structs always exist."""
        return ABSENT


ATOMIC: Final = MergeShape()


class StructShape(MergeShape):
    """A struct or a map.

    `find_field` returns the shape of a field; other keys have the shape `others`, or are unknown without it. `implied`
    returns the value of a field that always exists.
    """

    def __init__(
        self,
        find_field: Callable[[str], MergeShape | None],
        others: MergeShape | None = None,
        implied: Callable[[str], object] = lambda _: ABSENT,
    ) -> None:
        self.find_field: Callable[[str], MergeShape | None] = find_field
        self.others: MergeShape | None = others
        self._implied = implied

    def parts(self, value: object) -> dict[str, ValuePart] | None:
        if isinstance(value, dict):
            return {field_element(name): self._part(name)._replace(value=item) for name, item in value.items()}
        return {} if value is ABSENT else None

    def child(self, element: str) -> ValuePart:
        return self._part(element[2:])

    def implied_value(self, element: str) -> object:
        return self._implied(element[2:])

    def _part(self, name: str) -> ValuePart:
        shape = self.find_field(name)
        return ValuePart(self.others or UNTYPED, ABSENT) if shape is None else ValuePart(shape, ABSENT, is_named=True)


def map_shape(shape: MergeShape) -> StructShape:
    return StructShape(lambda _: None, shape)


#: A value without a known type: maps are merged, lists are atomic.
UNTYPED: Final = map_shape(ATOMIC)
UNTYPED.others = UNTYPED


class ListShape(MergeShape):
    """A list whose elements are identified by `keys`, or by their values if there are none."""

    def __init__(self, items: MergeShape, keys: tuple[str, ...], defaults: Mapping[str, object]) -> None:
        self._items = items
        self.keys: tuple[str, ...] = keys
        self._defaults = defaults

    def parts(self, value: object) -> dict[str, ValuePart] | None:
        """Return the elements; duplicates together are one atomic part."""
        if not isinstance(value, list):
            return {} if value is ABSENT else None
        parts: dict[str, ValuePart] = {}
        for item in value:
            name = self.name(item)
            previous = parts.get(name)
            parts[name] = (
                ValuePart(self._items, item) if previous is None else ValuePart(ATOMIC, [previous.value, item])
            )
        return parts

    def child(self, element: str) -> ValuePart:
        return ValuePart(self._items, ABSENT)

    def name(self, item: object) -> str:
        """Return the path element of a list element; a missing key is left out."""
        if not self.keys:
            return value_element(item)
        fields = item if isinstance(item, dict) else {}
        keys = {key: fields.get(key, self._defaults.get(key)) for key in self.keys}
        return key_element({key: value for key, value in keys.items() if value is not None})


_NAMELESS = key_element({})


def problems(shape: MergeShape, value: object, path: Path = ()) -> Iterator[str]:
    """Yield why a value cannot be applied, with the messages of structured-merge-diff."""
    if isinstance(shape, ListShape) and isinstance(value, list):
        seen: dict[str, int] = {}
        location = format_field_path(path)
        for index, item in enumerate(value):
            name = shape.name(item)
            if shape.keys and not isinstance(item, dict):
                yield f"{location}: element {index}: associative list with keys may not have non-map elements"
            elif shape.keys and name == _NAMELESS:
                missing = " ".join(f'"{key}"' for key in shape.keys)
                yield (
                    f"{location}: element {index}: associative list with keys has an element that omits all key"
                    f" fields [{missing}] (and doesn't have default values for any key fields)"
                )
            elif seen.get(name) == 1:
                yield f"{location}: duplicate entries for key {format_field_path((name,))}"
            seen[name] = seen.get(name, 0) + 1
    for element, part in (shape.parts(value) or {}).items():
        if isinstance(shape, StructShape) and not shape.others and not part.is_named:
            yield f"{format_field_path((*path, element))}: field not declared in schema"
        else:
            yield from problems(part.shape, part.value, (*path, element))


#: Fields that Go's types always have, possibly empty: structs, and lists with keys.
_STRUCTS = frozenset("metadata spec status template jobTemplate strategy updateStrategy".split())
_LISTS = frozenset({"containers", "drivers"})
#: Defaults of list keys; the OpenAPI document has none.
_DEFAULTS = {"protocol": "TCP"}


def resource_shape(resource: ApiResource) -> MergeShape:
    """Return how objects of a kind merge; of an unknown kind, all but the metadata is untyped."""
    if resource.custom is not None:
        return _with_metadata(_custom_shape(resource.custom.schema))
    name = definition_of(resource.kind.api_version, resource.kind.name)
    return _with_metadata(UNTYPED) if name is None else _definition_shape(name)


@cache
def _definition_shape(name: str) -> MergeShape:
    if properties(name):
        known = properties(name)
        find = cache(lambda field: _published_shape(known[field]) if field in known else None)
        return StructShape(find, None, partial(_implied_value, name))
    return ATOMIC if definition(name).type == "string" else UNTYPED


def _published_shape(schema: Schema) -> MergeShape:
    if schema.items is not None:
        if schema.list_type not in ("map", "set"):
            return ATOMIC
        keys = schema.list_map_keys
        return ListShape(_published_shape(schema.items), keys, {key: _DEFAULTS.get(key) for key in keys})
    if schema.additional_properties is not None:
        return ATOMIC if schema.map_type == "atomic" else map_shape(_published_shape(schema.additional_properties))
    if not schema.reference:
        return UNTYPED if schema.type == "object" else ATOMIC
    name = schema.definition_name
    return ATOMIC if (schema.map_type or definition(name).map_type) == "atomic" else _definition_shape(name)


def _implied_value(name: str, field: str) -> object:
    if field in _LISTS:
        return []
    schema = properties(name).get(field) if field in _STRUCTS else None
    return {} if schema is not None and schema.reference else ABSENT


def _with_metadata(shape: MergeShape) -> MergeShape:
    known = {"apiVersion": ATOMIC, "kind": ATOMIC, "metadata": _definition_shape(OBJECT_META)}
    rest = shape if isinstance(shape, StructShape) else UNTYPED
    return StructShape(lambda name: known.get(name) or rest.find_field(name), rest.others)


def _custom_shape(schema: object) -> MergeShape:
    if not isinstance(schema, dict):
        return UNTYPED
    if schema.get("type") == "array":
        items, keys = schema.get("items"), schema.get("x-kubernetes-list-map-keys")
        match schema.get("x-kubernetes-list-type"):
            case "set":
                return ListShape(_custom_shape(items), (), {})
            case "map":
                names = tuple(map(str, keys)) if isinstance(keys, list) else ()
                properties = {name: mapping(items, "properties").get(name) for name in names}
                defaults = {name: each.get("default") for name, each in properties.items() if isinstance(each, dict)}
                return ListShape(_custom_shape(items), names, defaults)
        return ATOMIC
    if schema.get("type") in _SCALARS or schema.get("x-kubernetes-int-or-string") is True:
        return ATOMIC
    if schema.get("type") == "object":
        if schema.get("x-kubernetes-map-type") == "atomic":
            return ATOMIC
        known, others = mapping(schema, "properties"), schema.get("additionalProperties")
        may_have_any = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
        if others is True or any(schema.get(marker) is True for marker in may_have_any):
            others = {}
        rest = _custom_shape(others) if isinstance(others, dict) else None
        return StructShape(lambda name: _custom_shape(known[name]) if name in known else None, rest)
    return UNTYPED


_SCALARS = ("string", "integer", "number", "boolean")
