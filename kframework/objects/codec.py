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
from kframework.objects.problem import FieldPath, Problem

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
    return _head(type(subject)) + (b"" if fields == b"{}" else b",") + fields[1:]


def convert(data: object, kind: Kind[T]) -> T:
    """Convert plain data, such as parsed YAML, to an object; null counts as absent; raises InputError."""
    try:
        return msgspec.convert(data, kind.struct)
    except msgspec.ValidationError:
        data = without_nulls(data)
    try:
        return msgspec.convert(data, kind.struct)
    except msgspec.ValidationError as error:
        problem = undecodable(error, data)
        raise InputError(problem.message, subject=kind.name, path=spelled(problem.path)) from error


def without_nulls(data: object) -> object:
    """Copy plain data without nulls."""
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [without_nulls(value) for value in data if value is not None]
    return data


def spelled(path: FieldPath) -> str:
    """Spell a path as Kubernetes does: `spec.containers[0].resources.requests[nvidia.com/gpu]`."""
    parts = [f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{part}]" for part in path]
    return "".join(parts).removeprefix(".")


_TYPE_NAMES = {str: "str", int: "int", float: "float", bool: "bool", list: "array", dict: "object", type(None): "null"}
_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "int | float | str": "a quantity",
}
_MISFIT = re.compile(r"Expected `([^`]*)`(?:, got `([^`]*)`)?")
_PLACE = re.compile(r" - at (`key` in )?`\$(.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")


def undecodable(error: msgspec.ValidationError, data: object) -> Problem:
    """Return where and why data does not fit its struct."""
    text = str(error)
    place, types = _PLACE.search(text), _MISFIT.match(text)
    wanted, got = (types[1], types[2] or "") if types else ("", "")
    path = _path(place[2] if place else "", data, got)
    if place and place[1]:
        return Problem(path, "a key is not a string: put it in quotes")
    if not wanted:
        return Problem(path, text[: place.start()] if place else text)
    names = [wanted] if wanted in _WORDS else wanted.split(" | ")
    expected = " or ".join(_WORDS[name] for name in names if name in _WORDS)
    quotes = "; put it in quotes" if "str" in names and got in ("int", "float", "bool") else ""
    return Problem(path, f"expected {expected}, got {_WORDS.get(got, got)}{quotes}")


def _path(text: str, data: object, got: str) -> FieldPath:
    """Parse msgspec's path; it has no map keys, so the first value of the offending type is assumed."""
    path: list[str | int] = []
    for name, index, any_key in _STEP.findall(text):
        if any_key:
            entries = data.items() if isinstance(data, Mapping) else ()
            name = next((str(key) for key, value in entries if _TYPE_NAMES.get(type(value)) == got), "")
        step = int(index) if index else name
        path.append(step)
        data = _below(data, step)
    return tuple(path)


def _below(data: object, step: str | int) -> object:
    if isinstance(data, Mapping):
        return data.get(step)
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return data[step]
    return None


@cache
def _decoder(struct: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(struct)


@cache
def _head(struct: type[ApiObject]) -> bytes:
    kind = kind_of(struct)
    return msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.name})[:-1]
