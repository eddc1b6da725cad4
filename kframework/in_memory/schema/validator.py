"""Validation of values by a JSON schema, with the API server's messages; and the schema's defaults."""

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

from kframework.in_memory.schema.causes import Cause, invalid, invalid_type, required, too_long, too_many, unsupported
from kframework.objects.plain_data import entries, mapping

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"0|([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|\d+ ?(d|w|days?|weeks?)", re.ASCII)
_HOSTNAME = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")


def has_format(name: str, text: str) -> bool:
    check = _CHECKS.get(name)
    return check is None or check(text)


def _parses_with(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _fullmatch(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _parses_with(lambda text: base64.b64decode(text, validate=True)),  # binascii.Error is a ValueError
    "cidr": _parses_with(lambda text: ipaddress.ip_network(text, strict=False)),
    "date": _parses_with(date.fromisoformat),
    **dict.fromkeys(
        ("date-time", "datetime"), lambda text: _fullmatch(_TIME)(text) and _parses_with(date.fromisoformat)(text[:10])
    ),
    "duration": _fullmatch(_DURATION),
    "email": _fullmatch(_EMAIL),
    "hostname": _fullmatch(_HOSTNAME),
    "ipv4": _parses_with(ipaddress.IPv4Address),
    "ipv6": _parses_with(ipaddress.IPv6Address),
    "mac": _fullmatch(_MAC),
    "uri": lambda text: _parses_with(urlsplit)(text) and bool(urlsplit(text).scheme or text.startswith("/")),
    "uuid": _parses_with(UUID),
}


Schema = Mapping[str, object]

#: Values nested more deeply are not validated, to limit recursion; no schema needs it.
_MAX_DEPTH = 200


def causes(schema: Schema, value: object, path: str = "") -> list[Cause]:
    return list(_causes(schema, value, path, 0))


def json_type(value: object) -> str:
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
    if depth > _MAX_DEPTH or (value is None and schema.get("nullable") is True):
        return
    yield from _type_causes(schema, value, path)
    if value is None:
        return
    if isinstance(value, str):
        yield from _text_causes(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_causes(schema, value, path)
    elif isinstance(value, list):
        yield from _list_causes(schema, value, path, depth)
    elif isinstance(value, dict):
        yield from _object_causes(schema, value, path, depth)
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        yield unsupported(path, value, [each if isinstance(each, str) else json.dumps(each) for each in allowed])
    yield from _junctor_causes(schema, value, path, depth)


def _type_causes(schema: Schema, value: object, path: str) -> Iterator[Cause]:
    types = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") is True else [schema.get("type")]
    actual = json_type(value)
    if not any(isinstance(each, str) and each for each in types) or actual in types:
        return
    is_whole = isinstance(value, float) and value.is_integer() and "integer" in types
    if not is_whole and not (actual == "integer" and "number" in types):
        message = f"{path} in body must be of type {','.join(map(str, types))}: {json.dumps(actual)}"
        yield invalid_type(path, actual, message)


def _text_causes(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    if (most := _number(schema, "maxLength")) is not None and len(value) > most:
        yield too_long(path, int(most))
    if (least := _number(schema, "minLength")) is not None and len(value) < least:
        yield invalid(path, value, f"{path} in body should be at least {int(least)} chars long")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _compile_pattern(pattern)(value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    name = schema.get("format")
    if isinstance(name, str) and not has_format(name, value):
        yield invalid_type(path, value, f"{path} in body must be of type {name}: {json.dumps(value)}")


@lru_cache(maxsize=1024)
def _compile_pattern(pattern: str) -> Callable[[str], object]:
    """Compile a pattern with RE2, so that no user's pattern can block the server; invalid ones match everything."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return cast("Callable[[str], object]", re2.compile(pattern, options).search)
    except re2.error:
        return lambda text: True


def _number_causes(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    least, most, factor = (_number(schema, name) for name in ("minimum", "maximum", "multipleOf"))
    if most is not None and (value > most or (schema.get("exclusiveMaximum") is True and value == most)):
        bound = "less than" if schema.get("exclusiveMaximum") is True else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {bound} {_format_number(most)}")
    if least is not None and (value < least or (schema.get("exclusiveMinimum") is True and value == least)):
        bound = "greater than" if schema.get("exclusiveMinimum") is True else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {bound} {_format_number(least)}")
    if factor and not math.isclose(quotient := value / factor, round(quotient), rel_tol=1e-12, abs_tol=1e-12):
        yield invalid(path, value, f"{path} in body should be a multiple of {_format_number(factor)}")


def _list_causes(schema: Schema, value: list[object], path: str, depth: int) -> Iterator[Cause]:
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _causes(items, item, f"{path}[{index}]", depth + 1)
    if (least := _number(schema, "minItems")) is not None and len(value) < least:
        yield invalid(path, len(value), f"{path} in body should have at least {int(least)} items")
    if (most := _number(schema, "maxItems")) is not None and len(value) > most:
        yield too_many(path, len(value), int(most))


def _object_causes(schema: Schema, value: dict[str, object], path: str, depth: int) -> Iterator[Cause]:
    if (least := _number(schema, "minProperties")) is not None and len(value) < least:
        yield invalid(path, len(value), f"{path} in body should have at least {int(least)} properties")
    if (most := _number(schema, "maxProperties")) is not None and len(value) > most:
        yield too_many(path, len(value), int(most))
    needed = schema.get("required")
    if schema.get("x-kubernetes-embedded-resource") is True:
        yield from (required(_join_path(path, name)) for name in ("apiVersion", "kind") if name not in value)
    for name in needed if isinstance(needed, list) else ():
        if isinstance(name, str) and name not in value:
            yield required(_join_path(path, name))
    known, others = mapping(schema, "properties"), schema.get("additionalProperties")
    for name, item in value.items():
        inner = known.get(name, others)
        if isinstance(inner, dict):
            yield from _causes(inner, item, _join_path(path, name), depth + 1)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _junctor_causes(schema: Schema, value: object, path: str, depth: int) -> Iterator[Cause]:
    quoted = json.dumps(path)
    every, options, choices = (entries(schema, name) for name in ("allOf", "anyOf", "oneOf"))
    for each in every:
        inner_causes = list(_causes(each, value, path, depth + 1))
        yield from inner_causes
        if inner_causes:
            yield _whole_object_cause(f"{quoted} must validate all the schemas (allOf)")
    if options and all(_is_invalid(each, value, path, depth) for each in options):
        yield _whole_object_cause(f"{quoted} must validate at least one schema (anyOf)")
        yield from _causes(options[0], value, path, depth + 1)
    if choices:
        valid = sum(not _is_invalid(each, value, path, depth) for each in choices)
        if valid != 1:
            problem = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _whole_object_cause(f"{quoted} must validate one and only one schema (oneOf). {problem}")
        if not valid:
            yield from _causes(choices[0], value, path, depth + 1)
    unwanted = schema.get("not")
    if isinstance(unwanted, dict) and not _is_invalid(unwanted, value, path, depth):
        yield _whole_object_cause(f"{quoted} must not validate the schema (not)")


def _is_invalid(schema: Schema, value: object, path: str, depth: int) -> bool:
    return next(_causes(schema, value, path, depth + 1), None) is not None


def _whole_object_cause(text: str) -> Cause:
    """Return a cause about no single field, in the API server's form."""
    return invalid("<nil>", "", text)


def _number(schema: Schema, name: str) -> float | None:
    number = schema.get(name)
    return number if isinstance(number, int | float) and not isinstance(number, bool) else None


def _format_number(number: float) -> str:
    return re.sub(r"\.0$", "", f"{number}")


def has_defaults(schema: object) -> bool:
    if isinstance(schema, dict):
        return "default" in schema or any(has_defaults(each) for each in schema.values())
    return isinstance(schema, list) and any(has_defaults(each) for each in schema)


def apply_defaults(schema: Schema, value: object) -> object:
    """Return a value with its missing defaults; unchanged parts are shared."""
    if isinstance(value, dict):
        known, others = mapping(schema, "properties"), schema.get("additionalProperties")
        whole = value | {
            name: deepcopy(each["default"])
            for name, each in known.items()
            if isinstance(each, dict) and "default" in each and name not in value
        }
        return {
            name: apply_defaults(inner, item) if isinstance(inner := known.get(name, others), dict) else item
            for name, item in whole.items()
        }
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [apply_defaults(items, item) for item in value]
    return value
