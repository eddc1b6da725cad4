"""Whether a value is what a JSON schema says, in the words of the API server's validator; and the schema's defaults."""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from datetime import date
from functools import lru_cache
from typing import cast
from urllib.parse import urlsplit
from uuid import UUID

from kframework.fake_api.schema.causes import Cause, invalid, invalid_type, required, too_long, too_many, unsupported
from kframework.fake_api.wire.plain_data import entries

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"0|([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|\d+ ?(d|w|days?|weeks?)", re.ASCII)
_HOSTNAME = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")


def has_format(name: str, text: str) -> bool:
    """Return whether a text is of a format."""
    check = _CHECKS.get(name)
    return check is None or check(text)


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _reads(lambda text: base64.b64decode(text, validate=True)),  # binascii.Error is a ValueError
    "cidr": _reads(lambda text: ipaddress.ip_network(text, strict=False)),
    "date": _reads(date.fromisoformat),
    **dict.fromkeys(
        ("date-time", "datetime"), lambda text: _matches(_TIME)(text) and _reads(date.fromisoformat)(text[:10])
    ),
    "duration": _matches(_DURATION),
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "mac": _matches(_MAC),
    "uri": lambda text: _reads(urlsplit)(text) and bool(urlsplit(text).scheme or text.startswith("/")),
    "uuid": _reads(UUID),
}


#: A schema as plain data.
Schema = Mapping[str, object]

#: Objects nested more deeply than this are not looked into: no schema needs it, and the stack has an end.
_DEEPEST = 200


def causes(schema: Schema, value: object, path: str = "") -> list[Cause]:
    """List what keeps a value from being valid; `path` is where it stands in its object."""
    return list(_causes(schema, value, path, 0))


def type_of(value: object) -> str:
    """Name the type of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _causes(schema: Schema, value: object, path: str, depth: int) -> Iterator[Cause]:
    if depth > _DEEPEST or (value is None and schema.get("nullable") is True):
        return
    yield from _of_type(schema, value, path)
    if value is None:
        return
    if isinstance(value, str):
        yield from _of_text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(schema, value, path)
    elif isinstance(value, list):
        yield from _of_list(schema, value, path, depth)
    elif isinstance(value, dict):
        yield from _of_object(schema, value, path, depth)
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        yield unsupported(path, value, [each if isinstance(each, str) else json.dumps(each) for each in allowed])
    yield from _of_several(schema, value, path, depth)


def _of_type(schema: Schema, value: object, path: str) -> Iterator[Cause]:
    wanted = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") is True else [schema.get("type")]
    found = type_of(value)
    if not any(isinstance(each, str) and each for each in wanted) or found in wanted:
        return
    is_whole = isinstance(value, float) and value.is_integer() and "integer" in wanted
    if not is_whole and not (found == "integer" and "number" in wanted):
        told = f"{path} in body must be of type {','.join(map(str, wanted))}: {json.dumps(found)}"
        yield invalid_type(path, found, told)


def _of_text(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    if (most := _number(schema, "maxLength")) is not None and len(value) > most:
        yield too_long(path, int(most))
    if (least := _number(schema, "minLength")) is not None and len(value) < least:
        yield invalid(path, value, f"{path} in body should be at least {int(least)} chars long")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _matcher(pattern)(value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    name = schema.get("format")
    if isinstance(name, str) and not has_format(name, value):
        yield invalid_type(path, value, f"{path} in body must be of type {name}: {json.dumps(value)}")


@lru_cache(maxsize=1024)
def _matcher(pattern: str) -> Callable[[str], object]:
    """Compile a pattern, which is RE2's: one of a user must not hold up the server."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return cast("Callable[[str], object]", re2.compile(pattern, options).search)
    except re2.error:
        return lambda text: True


def _of_number(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    least, most, factor = (_number(schema, name) for name in ("minimum", "maximum", "multipleOf"))
    if most is not None and (value > most or (schema.get("exclusiveMaximum") is True and value == most)):
        bound = "less than" if schema.get("exclusiveMaximum") is True else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {bound} {_shown(most)}")
    if least is not None and (value < least or (schema.get("exclusiveMinimum") is True and value == least)):
        bound = "greater than" if schema.get("exclusiveMinimum") is True else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {bound} {_shown(least)}")
    if factor and not math.isclose(quotient := value / factor, round(quotient), rel_tol=1e-12, abs_tol=1e-12):
        yield invalid(path, value, f"{path} in body should be a multiple of {_shown(factor)}")


def _of_list(schema: Schema, value: list[object], path: str, depth: int) -> Iterator[Cause]:
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _causes(items, item, f"{path}[{index}]", depth + 1)
    if (least := _number(schema, "minItems")) is not None and len(value) < least:
        yield invalid(path, len(value), f"{path} in body should have at least {int(least)} items")
    if (most := _number(schema, "maxItems")) is not None and len(value) > most:
        yield too_many(path, len(value), int(most))


def _of_object(schema: Schema, value: dict[str, object], path: str, depth: int) -> Iterator[Cause]:
    if (least := _number(schema, "minProperties")) is not None and len(value) < least:
        yield invalid(path, len(value), f"{path} in body should have at least {int(least)} properties")
    if (most := _number(schema, "maxProperties")) is not None and len(value) > most:
        yield too_many(path, len(value), int(most))
    needed, properties = schema.get("required"), schema.get("properties")
    if schema.get("x-kubernetes-embedded-resource") is True:
        yield from (required(_under(path, name)) for name in ("apiVersion", "kind") if name not in value)
    for name in needed if isinstance(needed, list) else ():
        if isinstance(name, str) and name not in value:
            yield required(_under(path, name))
    known = properties if isinstance(properties, dict) else {}
    others = schema.get("additionalProperties")
    for name, item in value.items():
        inner = known.get(name, others)
        if isinstance(inner, dict):
            yield from _causes(inner, item, _under(path, name), depth + 1)


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _of_several(schema: Schema, value: object, path: str, depth: int) -> Iterator[Cause]:
    quoted = json.dumps(path)
    every, options, choices = (entries(schema, name) for name in ("allOf", "anyOf", "oneOf"))
    for each in every:
        found = list(_causes(each, value, path, depth + 1))
        yield from found
        if found:
            yield _of_all(f"{quoted} must validate all the schemas (allOf)")
    if options and all(_fails(each, value, path, depth) for each in options):
        yield _of_all(f"{quoted} must validate at least one schema (anyOf)")
        yield from _causes(options[0], value, path, depth + 1)
    if choices:
        valid = sum(not _fails(each, value, path, depth) for each in choices)
        if valid != 1:
            found_valid = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _of_all(f"{quoted} must validate one and only one schema (oneOf). {found_valid}")
        if not valid:
            yield from _causes(choices[0], value, path, depth + 1)
    unwanted = schema.get("not")
    if isinstance(unwanted, dict) and not _fails(unwanted, value, path, depth):
        yield _of_all(f"{quoted} must not validate the schema (not)")


def _fails(schema: Schema, value: object, path: str, depth: int) -> bool:
    return next(_causes(schema, value, path, depth + 1), None) is not None


def _of_all(text: str) -> Cause:
    """Say what is about no single field; the API server has no better name for that."""
    return invalid("<nil>", "", text)


def _number(schema: Schema, name: str) -> float | None:
    found = schema.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _shown(number: float) -> str:
    return re.sub(r"\.0$", "", f"{number}")


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
        whole = value | {
            name: deepcopy(each["default"])
            for name, each in known.items()
            if isinstance(each, dict) and "default" in each and name not in value
        }
        return {
            name: defaulted(inner, item) if isinstance(inner := known.get(name, others), dict) else item
            for name, item in whole.items()
        }
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [defaulted(items, item) for item in value]
    return value
