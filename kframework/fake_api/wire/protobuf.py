"""Kubernetes' protobuf: kubectl, kube-controller-manager and schedulers create built-in kinds in no other encoding.

Only what requests carry is read; answers are JSON, which all those clients accept.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kframework.client import api_errors
from kframework.clock import rfc3339, rfc3339_micro
from kframework.errors import ClusterError
from kframework.fake_api.wire.plain_data import number, text

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
#: Bytes of the values that have a fixed length, by the wire type.
_FIXED = {1: 8, 5: 4}
#: How deeply messages may lie in each other: the deepest of Kubernetes' own lie a dozen deep.
_DEEPEST = 64


def from_protobuf(body: bytes) -> dict[str, object]:
    """Read an object; ClusterError 400 if it is malformed, 415 for a kind that must come as JSON."""
    if not body.startswith(_MAGIC):
        raise api_errors.bad_request("the body of the request is no protobuf of Kubernetes")
    try:
        envelope = _message(body[len(_MAGIC) :], "Unknown", 0)
        api_version, kind = text(envelope, "typeMeta.apiVersion"), text(envelope, "typeMeta.kind")
        name, raw = message_of(api_version, kind), envelope.get("raw", "")
        if name is None or not isinstance(raw, str) or "contentEncoding" in envelope:
            message = (
                "the body of the request was in an unknown format - accepted media types include: application/json"
                f" (it was protobuf, which a {kind or 'body':.100} cannot be here; see contentType of your client)"
            )
            raise ClusterError(message, status=415, reason="UnsupportedMediaType")
        return {"apiVersion": api_version, "kind": kind, **_message(b64decode(raw), name, 0)}
    except (ValueError, RecursionError, OverflowError, OSError) as error:  # the last two: a time that is none
        raise api_errors.bad_request(f"the body of the request is malformed protobuf: {error}") from error


def _message(data: bytes, name: str, depth: int) -> dict[str, object]:
    """Read the fields of a message; what is empty is left out, unless it counts as it is."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    found: dict[str, object] = {}
    fields = fields_of(name)
    for place, raw in _fields(data):
        if place not in fields:
            continue
        field, kind = fields[place]
        value = _value(raw, kind.strip("*?^"), depth + 1)
        if kind.startswith("^"):
            assert isinstance(value, dict)
            found |= value
        elif kind.startswith("*"):
            elements = found.setdefault(field, [])
            assert isinstance(elements, list)
            elements.append(value)
        elif kind.startswith("map"):
            entries = found.setdefault(field, {})
            assert isinstance(entries, dict) and isinstance(value, dict)
            entries[text(value, "key")] = value.get("value", "")
        elif value or kind.endswith("?"):
            found[field] = value
    return found


def _value(raw: int | bytes, kind: str, depth: int) -> object:
    if isinstance(raw, int):
        if kind not in ("int", "bool"):
            raise ValueError(f"a number where a {kind} should be")
        return bool(raw) if kind == "bool" else raw
    if kind in ("int", "bool", "double"):
        raise ValueError(f"a text where a {kind} should be")
    if kind in ("string", "bytes"):
        return raw.decode() if kind == "string" else b64encode(raw).decode()
    message = _message(raw, kind, depth)
    match kind:
        case "Time":
            return rfc3339(number(message, "seconds")) if message else ""
        case "MicroTime":
            return rfc3339_micro(number(message, "seconds") + number(message, "nanos") / 1e9) if message else ""
        case "IntOrString":
            return text(message, "strVal") if number(message, "type") else number(message, "intVal")
        case "Quantity":
            return text(message, "string")
        case "Duration":
            return f"{number(message, 'duration') / 1e9:g}s"
        case "RawExtension" | "FieldsV1":
            return json.loads(b64decode(text(message, "raw")) or b"{}")
    # What is a list in JSON is a message with its elements.
    return message.get("items", []) if fields_of(kind).keys() == {1} and "items" in message else message


# -- the encoding --------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number of each field, and the number or the bytes that it has."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        place, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield place, value - (1 << 64) if value >> 63 else value
            continue
        if wire_type == 2:
            length, at = _varint(data, at)
        elif wire_type in _FIXED:
            length = _FIXED[wire_type]
        else:
            raise ValueError(f"wire type {wire_type}")
        if at + length > len(data):
            raise ValueError("it breaks off")
        yield place, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length; return it and where the next thing begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it breaks off")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number is too long")


# -- the messages --------------------------------------------------------------------------------------------------

_FILE = Path(__file__).with_name("protobuf_messages.txt")
#: Message -> its fields, as the file has them: number, name and type of each, a string if there is no type. A star
#: marks a repeated field, a question mark one that counts even where it is zero or empty; `map` is from string to
#: string, `map:T` to T. The fields of a type behind `^` are those of the message itself. A name that several groups
#: have begins with the group, and with the version too where those differ. Read at import, and so in no event loop.
_WRITTEN = dict(line.split(": ", 1) for line in _FILE.read_text(encoding="utf-8").splitlines())

#: Field number -> name and type.
Fields = dict[int, tuple[str, str]]


def message_of(api_version: str, kind: str) -> str | None:
    """Name the message of a kind; None if it has none here."""
    group, _, version = api_version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    short = group.partition(".")[0] or "core"
    names = (f"{short}/{version}.{kind}", f"{short}.{kind}", kind)
    return next((name for name in names if name in _WRITTEN), None)


@cache
def fields_of(message: str) -> Fields:
    """Return the fields of a message."""
    if message.startswith("map"):
        return {1: ("key", "string?"), 2: ("value", f"{message.partition(':')[2] or 'string'}?")}
    fields: Fields = {}
    for field in _WRITTEN[message].split(", "):
        number, name, kind = [*field.split(), "string"][:3]
        fields[int(number)] = ("", name) if name.startswith("^") else (name, kind)
    return fields
