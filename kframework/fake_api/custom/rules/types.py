"""The types of CEL that schemas describe."""

from __future__ import annotations

from kframework.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of
from kframework.fake_api.custom.rules.property_names import escaped, written_names
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
        return _object(mapping(schema, "properties"), name, fields)
    if kind == "string":
        return _STRINGS.get(str(schema.get("format")), STRING)
    return _SCALARS.get(str(kind))


def _object(properties: Schema, name: str, fields: Fields) -> Type:
    own: dict[str, Type] = {}
    for property, schema in properties.items():
        type = declared_type(schema, f"{name}.{escaped(property) or property}", fields)
        if type is not None:
            own |= dict.fromkeys(written_names(property), type)
    declared = Type(name)
    fields[declared] = own
    return declared
