"""How values merge, by the OpenAPI document of Kubernetes or a user's schema, and what is wrong with their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Final, NamedTuple

from kframework.fake_api.apply.managed_fields import Path, field, in_words, keyed, valued
from kframework.fake_api.served import Resource
from kframework.fake_api.wire.plain_data import mapping
from kframework.objects.openapi.definitions import OBJECT_META, Schema, definition, definition_of, properties


class Part(NamedTuple):
    """A part of a value; `is_named` says that it is a field of a type, and no key of a map nor element of a list."""

    shape: Shape
    value: object
    is_named: bool = False


#: What stands where nothing does.
ABSENT: Final = object()


class Shape:
    """A value that is one: a text, a number, and lists and maps that are replaced as a whole."""

    def parts(self, value: object) -> dict[str, Part] | None:
        """Return the parts of a value by their elements in a path; None if it is one value."""
        return None

    def below(self, element: str) -> Part:
        """Return of what shape the part is that an element of a path names, without its value."""
        return Part(ANY, ABSENT)

    def always(self, element: str) -> object:
        """Return what is there in an object without the part: Go's types have some that cannot be left out."""
        return ABSENT


class Anything(Shape):
    """A value of which no type is known: maps are merged, lists are one value."""

    def parts(self, value: object) -> dict[str, Part] | None:
        if isinstance(value, dict):
            return {field(name): Part(self, item) for name, item in value.items()}
        return {} if value is ABSENT else None


ANY: Final = Anything()
ONE_VALUE: Final = Shape()


class Fields(Shape):
    """An object with the fields of a type.

    `named` finds the shape of a field; a part that it does not know has the shape `others`, and is a key of a map, or
    is not in the type at all. `always` says what of it is never left out, and with which value.
    """

    def __init__(
        self,
        named: Callable[[str], Shape | None],
        others: Shape | None = None,
        always: Callable[[str], object] = lambda _: ABSENT,
    ) -> None:
        self.named: Callable[[str], Shape | None] = named
        self.others: Shape | None = others
        self._always = always

    def parts(self, value: object) -> dict[str, Part] | None:
        if isinstance(value, dict):
            return {field(name): self._part(name)._replace(value=item) for name, item in value.items()}
        return {} if value is ABSENT else None

    def below(self, element: str) -> Part:
        return self._part(element[2:])

    def always(self, element: str) -> object:
        return self._always(element[2:])

    def _part(self, name: str) -> Part:
        found = self.named(name)
        return Part(self.others or ANY, ABSENT) if found is None else Part(found, ABSENT, is_named=True)


def map_of(shape: Shape) -> Fields:
    """Return the shape of a map with such values."""
    return Fields(lambda _: None, shape)


class Elements(Shape):
    """A list whose elements are told apart by `keys`, or, without any, by themselves."""

    def __init__(self, items: Shape, keys: tuple[str, ...], defaults: Mapping[str, object]) -> None:
        self._items = items
        self.keys: tuple[str, ...] = keys
        self._defaults = defaults

    def parts(self, value: object) -> dict[str, Part] | None:
        """Return the elements; those that stand twice are together one value."""
        if not isinstance(value, list):
            return {} if value is ABSENT else None
        found: dict[str, Part] = {}
        for item in value:
            name = self.name(item)
            known = found.get(name)
            found[name] = Part(self._items, item) if known is None else Part(ONE_VALUE, [known.value, item])
        return found

    def below(self, element: str) -> Part:
        return Part(self._items, ABSENT)

    def name(self, item: object) -> str:
        """Name an element as a path does; one without any key has a name without keys."""
        if not self.keys:
            return valued(item)
        said = item if isinstance(item, dict) else {}
        found = {key: said.get(key, self._defaults.get(key)) for key in self.keys}
        return keyed({key: value for key, value in found.items() if value is not None})


_NAMELESS = keyed({})


def problems(shape: Shape, value: object, path: Path = ()) -> Iterator[str]:
    """Yield what keeps a value from being applied, in the words of structured-merge-diff."""
    if isinstance(shape, Elements) and isinstance(value, list):
        seen: dict[str, int] = {}
        for index, item in enumerate(value):
            name = shape.name(item)
            if shape.keys and not isinstance(item, dict):
                yield f"{in_words(path)}: element {index}: associative list with keys may not have non-map elements"
            elif shape.keys and name == _NAMELESS:
                lacking = " ".join(f'"{key}"' for key in shape.keys)
                yield (
                    f"{in_words(path)}: element {index}: associative list with keys has an element that omits all key"
                    f" fields [{lacking}] (and doesn't have default values for any key fields)"
                )
            elif seen.get(name) == 1:
                yield f"{in_words(path)}: duplicate entries for key {in_words((name,))}"
            seen[name] = seen.get(name, 0) + 1
    for element, part in (shape.parts(value) or {}).items():
        if isinstance(shape, Fields) and not shape.others and not part.is_named:
            yield f"{in_words((*path, element))}: field not declared in schema"
        else:
            yield from problems(part.shape, part.value, (*path, element))


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


@cache
def _of_definition(name: str) -> Shape:
    """Return the shape of objects of a type, and of what has no fields."""
    if properties(name):
        known = properties(name)
        find = cache(lambda field: _of_published(known[field]) if field in known else None)
        return Fields(find, None, partial(_always, name))
    return ONE_VALUE if definition(name).type == "string" else ANY


def _of_published(schema: Schema) -> Shape:
    if schema.items is not None:
        if schema.list_type not in ("map", "set"):
            return ONE_VALUE
        keys = schema.list_map_keys
        return Elements(_of_published(schema.items), keys, {key: _DEFAULTS.get(key) for key in keys})
    if schema.additional_properties is not None:
        return ONE_VALUE if schema.map_type == "atomic" else map_of(_of_published(schema.additional_properties))
    if not schema.reference:
        return ANY if schema.type == "object" else ONE_VALUE
    name = schema.definition_name
    return ONE_VALUE if (schema.map_type or definition(name).map_type) == "atomic" else _of_definition(name)


def _always(name: str, field: str) -> object:
    if field in _LISTS:
        return []
    schema = properties(name).get(field) if field in _STRUCTS else None
    return {} if schema is not None and schema.reference else ABSENT


def _with_metadata(shape: Shape) -> Shape:
    """Return the shape of an object whose schema need not say what all objects have."""
    known = {"apiVersion": ONE_VALUE, "kind": ONE_VALUE, "metadata": _of_definition(OBJECT_META)}
    rest = shape if isinstance(shape, Fields) else map_of(ANY)
    return Fields(lambda name: known.get(name) or rest.named(name), rest.others)


def _of_schema(schema: object) -> Shape:
    if not isinstance(schema, dict):
        return ANY
    if schema.get("type") == "array":
        items, keys = schema.get("items"), schema.get("x-kubernetes-list-map-keys")
        match schema.get("x-kubernetes-list-type"):
            case "set":
                return Elements(_of_schema(items), (), {})
            case "map":
                names = tuple(map(str, keys)) if isinstance(keys, list) else ()
                told = {name: mapping(items, "properties").get(name) for name in names}
                defaults = {name: each.get("default") for name, each in told.items() if isinstance(each, dict)}
                return Elements(_of_schema(items), names, defaults)
        return ONE_VALUE
    if schema.get("type") in _SCALARS or schema.get("x-kubernetes-int-or-string") is True:
        return ONE_VALUE
    if schema.get("type") == "object":
        if schema.get("x-kubernetes-map-type") == "atomic":
            return ONE_VALUE
        known, others = mapping(schema, "properties"), schema.get("additionalProperties")
        may_have_any = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
        if others is True or any(schema.get(marker) is True for marker in may_have_any):
            others = {}
        rest = _of_schema(others) if isinstance(others, dict) else None
        return Fields(lambda name: _of_schema(known[name]) if name in known else None, rest)
    return ANY


_SCALARS = ("string", "integer", "number", "boolean")
