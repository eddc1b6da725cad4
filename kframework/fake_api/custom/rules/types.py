"""Map schemas and values to CEL: types, values, and property names."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import lru_cache

from kframework.cel.library.times import parse_duration, parse_timestamp
from kframework.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of
from kframework.cel.values import KeyedList
from kframework.in_memory.schema.validator import Schema
from kframework.objects.plain_data import mapping, text

Fields = dict[Type, dict[str, Type]]

_SCALARS = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_STRINGS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_STRING: Schema = {"type": "string"}
_COMMON_PROPERTIES: Schema = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "metadata": {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}},
}


def with_object_fields(schema: Schema) -> Schema:
    """Return the schema of a whole object; rules may use its kind and names even if it does not declare them."""
    properties = mapping(schema, "properties")
    names = mapping(properties, "metadata.properties")
    texts = (properties.get("apiVersion"), properties.get("kind"), names.get("name"), names.get("generateName"))
    if all(text(each, "type") == "string" for each in texts):
        return schema
    return {**schema, "properties": {**properties, **_COMMON_PROPERTIES}}


def declared_type(schema: object, name: str, fields: Fields) -> Type | None:
    """Return the CEL type of a schema's values, None if rules cannot access them; adds its objects' `fields`.

    `name` is for messages: an object type is named by its path.
    """
    if not isinstance(schema, dict):
        return None
    if schema.get("x-kubernetes-int-or-string") is True:
        return DYN
    if schema.get("x-kubernetes-embedded-resource") is True:
        schema = with_object_fields(schema)
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
            type = declared_type(inner, f"{name}.{escape_name(property) or property}", fields)
            if type is not None:
                own |= dict.fromkeys(property_names(property), type)
        object_type = Type(name)
        fields[object_type] = own
        return object_type
    if kind == "string":
        return _STRINGS.get(str(schema.get("format")), STRING)
    return _SCALARS.get(str(kind))


_PARSERS: dict[str, Callable[[str], object]] = {
    "byte": base64.b64decode,
    "duration": parse_duration,
    "date": lambda text: parse_timestamp(f"{text}T00:00:00Z"),
    "date-time": parse_timestamp,
}


def to_cel_value(schema: object, value: object) -> object:
    """Convert a valid value of a schema to CEL.

    Fields get the names that rules use, and nulls are dropped. Unknown fields stay: they count in comparisons. Raises
    CelError for a duration that CEL cannot parse.
    """
    if not isinstance(schema, dict) or schema.get("x-kubernetes-int-or-string") is True:
        return value
    match value:
        case dict() if isinstance(others := schema.get("additionalProperties"), dict):
            return {key: to_cel_value(others, item) for key, item in value.items()}
        case dict():
            properties, fields = mapping(schema, "properties"), dict[str, object]()
            for name, item in value.items():
                if item is not None:
                    fields |= dict.fromkeys(property_names(name) or (name,), to_cel_value(properties.get(name), item))
            return fields
        case list():
            items = [to_cel_value(schema.get("items"), item) for item in value]
            if (list_type := schema.get("x-kubernetes-list-type")) not in ("set", "map"):
                return items
            keys = schema.get("x-kubernetes-list-map-keys") if list_type == "map" else ()
            return KeyedList(items, tuple(escape_name(key) or key for key in keys) if isinstance(keys, list) else ())
        case str() if (parse := _PARSERS.get(str(schema.get("format")))) is not None and schema.get("type") == "string":
            return parse(value)
        case int() if schema.get("type") == "number":
            return float(value)
        case float() if schema.get("type") == "integer":
            return int(value)
    return value


#: Words of CEL, which cannot be names.
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", re.ASCII)
_ESCAPED_PART = re.compile(r"__|[./-]")


def property_names(name: str) -> tuple[str, ...]:
    """Return the names of a property in rules: a reserved word may also be used unescaped."""
    identifier = escape_name(name)
    if identifier is None:
        return ()
    return (identifier, name) if name in _RESERVED else (identifier,)


@lru_cache(maxsize=4096)
def escape_name(name: str) -> str | None:
    """Return the identifier of a property in rules, None if it cannot be expressed."""
    if name in _RESERVED:
        return f"__{name}__"
    if _NAME.fullmatch(name) is None:
        return None
    return _ESCAPED_PART.sub(lambda part: _ESCAPES[part[0]], name)
