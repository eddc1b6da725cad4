"""Decode objects from the API's JSON and encode them, with errors for data that do not fit their struct."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

import msgspec

from kframework.errors import InputError
from kframework.objects.kinds import Kind, kind_of
from kframework.objects.meta import ApiObject
from kframework.objects.problem import FieldPath, Problem, format_path

T = TypeVar("T", bound=ApiObject)


def decode(data: bytes, kind: Kind[T]) -> T:
    """Decode an object as the API sends it, where null is absent; raises InputError."""
    try:
        decoder: msgspec.json.Decoder[T] = _decoder(kind.struct)
        return decoder.decode(data)
    except msgspec.ValidationError:
        return convert(msgspec.json.decode(data), kind)
    except (ValueError, RecursionError) as error:
        raise InputError(str(error), subject=kind.name) from error


def encode(subject: ApiObject) -> bytes:
    """Encode an object to JSON, with its apiVersion and kind in front."""
    fields = msgspec.json.encode(subject)
    return _type_meta(type(subject)) + (b"" if fields == b"{}" else b",") + fields[1:]


def convert(data: object, kind: Kind[T]) -> T:
    """Convert plain data, such as parsed YAML, to an object; null counts as absent; raises InputError."""
    try:
        return msgspec.convert(data, kind.struct)
    except msgspec.ValidationError:
        data = without_nulls(data)
    try:
        return msgspec.convert(data, kind.struct)
    except msgspec.ValidationError as error:
        problem = locate_decode_error(error, data)
        raise InputError(problem.message, subject=kind.name, path=format_path(problem.path)) from error


def without_nulls(data: object) -> object:
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [without_nulls(value) for value in data if value is not None]
    return data


_TYPE_NAMES = {str: "str", int: "int", float: "float", bool: "bool", list: "array", dict: "object", type(None): "null"}
_TYPE_PHRASES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "int | float | str": "a quantity",
}
_EXPECTED = re.compile(r"Expected `([^`]*)`(?:, got `([^`]*)`)?")
_LOCATION = re.compile(r" - at (`key` in )?`\$(.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")


def describe_decode_error(error: Exception) -> str:
    """Return why data does not fit its struct, with the path if the data has one."""
    problem = locate_decode_error(error, None)
    return str(problem) if problem.path else problem.message


def locate_decode_error(error: Exception, data: object) -> Problem:
    """Return where and why data does not fit its struct."""
    text = str(error)
    location, types = _LOCATION.search(text), _EXPECTED.match(text)
    wanted, got = (types[1], types[2] or "") if types else ("", "")
    path = _parse_path(location[2] if location else "", data, got)
    if location and location[1]:
        return Problem(path, "a key is not a string: put it in quotes")
    if not wanted:
        return Problem(path, text[: location.start()] if location else text)
    names = [wanted] if wanted in _TYPE_PHRASES else wanted.split(" | ")
    expected = " or ".join(_TYPE_PHRASES[name] for name in names if name in _TYPE_PHRASES)
    quotes = "; put it in quotes" if "str" in names and got in ("int", "float", "bool") else ""
    return Problem(path, f"expected {expected}, got {_TYPE_PHRASES.get(got, got)}{quotes}")


def _parse_path(text: str, data: object, got: str) -> FieldPath:
    """Parse msgspec's path; it has no map keys, so the first value of the offending type is assumed."""
    path: list[str | int] = []
    for name, index, any_key in _STEP.findall(text):
        if any_key:
            entries = data.items() if isinstance(data, Mapping) else ()
            name = next((str(key) for key, value in entries if _TYPE_NAMES.get(type(value)) == got), "")
        step = int(index) if index else name
        path.append(step)
        data = _child(data, step)
    return tuple(path)


def _child(data: object, step: str | int) -> object:
    if isinstance(data, Mapping):
        return data.get(step)
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return data[step]
    return None


@cache
def _decoder(struct: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(struct)


@cache
def _type_meta(struct: type[ApiObject]) -> bytes:
    kind = kind_of(struct)
    return msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.name})[:-1]
