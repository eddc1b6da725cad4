"""What schemas and their values are in CEL: types, values, and names of properties."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import lru_cache

from kframework.cel.library.times import parse_duration, parse_timestamp
from kframework.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of
from kframework.cel.values import KeyedList
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.wire.plain_data import mapping, text

#: The fields of each type that has some.
Fields = dict[Type, dict[str, Type]]

_SCALARS = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_STRINGS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_STRING: Schema = {"type": "string"}
_OF_EVERY_OBJECT: Schema = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "metadata": {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}},
}


def as_resource(schema: Schema) -> Schema:
    """Return the schema of a whole object: of its metadata, rules may ask for the name, unless it tells more of it."""
    told = mapping(schema, "properties")
    names = mapping(told, "metadata.properties")
    texts = (told.get("apiVersion"), told.get("kind"), names.get("name"), names.get("generateName"))
    if all(text(each, "type") == "string" for each in texts):
        return schema
    return {**schema, "properties": {**told, **_OF_EVERY_OBJECT}}


def declared_type(schema: object, name: str, fields: Fields) -> Type | None:
    """Return the type of the values of a schema, None if rules do not see them; its objects' `fields` are added.

    `name` is for messages: types of objects are called by where they stand.
    """
    if not isinstance(schema, dict):
        return None
    if schema.get("x-kubernetes-int-or-string") is True:
        return DYN
    if schema.get("x-kubernetes-embedded-resource") is True:
        schema = as_resource(schema)
    kind = schema.get("type")
    if kind == "array":
        items = declared_type(schema.get("items"), f"{name}.@idx", fields)
        return list_of(items) if items is not None else None
    if kind == "object" and isinstance(others := schema.get("additionalProperties"), dict):
        values = declared_type(others, f"{name}.@elem", fields)
        return map_of(STRING, values) if values is not None else None
    if kind == "object":
        own: dict[str, Type] = {}
        for property, inner in mapping(schema, "properties").items():
            type = declared_type(inner, f"{name}.{escaped(property) or property}", fields)
            if type is not None:
                own |= dict.fromkeys(written_names(property), type)
        declared = Type(name)
        fields[declared] = own
        return declared
    if kind == "string":
        return _STRINGS.get(str(schema.get("format")), STRING)
    return _SCALARS.get(str(kind))


_READ: dict[str, Callable[[str], object]] = {
    "byte": base64.b64decode,
    "duration": parse_duration,
    "date": lambda text: parse_timestamp(f"{text}T00:00:00Z"),
    "date-time": parse_timestamp,
}


def seen(schema: object, value: object) -> object:
    """Return a valid value of a schema as a value of CEL.

    Fields have the names that rules write, and one that is null is not there. What the schema does not know keeps its
    place, so that it counts in comparisons. Raises CelError for a time span that CEL cannot read.
    """
    if not isinstance(schema, dict) or schema.get("x-kubernetes-int-or-string") is True:
        return value
    match value:
        case dict() if isinstance(others := schema.get("additionalProperties"), dict):
            return {key: seen(others, item) for key, item in value.items()}
        case dict():
            properties, fields = mapping(schema, "properties"), dict[str, object]()
            for name, item in value.items():
                if item is not None:
                    fields |= dict.fromkeys(written_names(name) or (name,), seen(properties.get(name), item))
            return fields
        case list():
            items = [seen(schema.get("items"), item) for item in value]
            if (list_type := schema.get("x-kubernetes-list-type")) not in ("set", "map"):
                return items
            keys = schema.get("x-kubernetes-list-map-keys") if list_type == "map" else ()
            return KeyedList(items, tuple(escaped(key) or key for key in keys) if isinstance(keys, list) else ())
        case str() if (read := _READ.get(str(schema.get("format")))) is not None and schema.get("type") == "string":
            return read(value)
        case int() if schema.get("type") == "number":
            return float(value)
        case float() if schema.get("type") == "integer":
            return int(value)
    return value


#: Words of CEL, which no name may be.
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_WRITTEN = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", re.ASCII)
_ESCAPED = re.compile(r"__|[./-]")


def written_names(name: str) -> tuple[str, ...]:
    """Return the names by which rules find a property: words of CEL may be written as they are, too."""
    found = escaped(name)
    if found is None:
        return ()
    return (found, name) if name in _RESERVED else (found,)


@lru_cache(maxsize=4096)
def escaped(name: str) -> str | None:
    """Return the identifier that stands for a property, None if none does: the rules cannot name it."""
    if name in _RESERVED:
        return f"__{name}__"
    if _NAME.fullmatch(name) is None:
        return None
    return _ESCAPED.sub(lambda found: _WRITTEN[found[0]], name)
