"""Kubernetes' protobuf, the only encoding in which kubectl, controllers and schedulers create built-in kinds.

Only requests are decoded; answers are JSON, which all those clients accept.
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
from kframework.objects.plain_data import number, text

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
#: Lengths of fixed-length values in bytes, by wire type.
_FIXED = {1: 8, 5: 4}
#: Limit of nested messages: Kubernetes' own are up to a dozen deep.
_MAX_DEPTH = 64


def decode_protobuf(body: bytes) -> dict[str, object]:
    """Decode an object; ClusterError 400 if it is malformed, 415 for a kind that must be JSON."""
    if not body.startswith(_MAGIC):
        raise api_errors.bad_request("the body of the request is not Kubernetes' protobuf")
    try:
        envelope = _decode_message(body[len(_MAGIC) :], "Unknown", 0)
        api_version, kind = text(envelope, "typeMeta.apiVersion"), text(envelope, "typeMeta.kind")
        name, raw = message_name(api_version, kind), envelope.get("raw", "")
        if name is None or not isinstance(raw, str) or "contentEncoding" in envelope:
            message = (
                "the body of the request was in an unknown format - accepted media types include: application/json"
                f" (it was protobuf, which a {kind or 'body':.100} cannot be here; see contentType of your client)"
            )
            raise ClusterError(message, status=415, reason="UnsupportedMediaType")
        return {"apiVersion": api_version, "kind": kind, **_decode_message(b64decode(raw), name, 0)}
    except (ValueError, RecursionError, OverflowError, OSError) as error:  # the last two: an invalid time
        raise api_errors.bad_request(f"the body of the request is malformed protobuf: {error}") from error


def _decode_message(data: bytes, name: str, depth: int) -> dict[str, object]:
    """Decode the fields of a message; empty ones are left out unless marked as significant."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    decoded: dict[str, object] = {}
    fields = message_fields(name)
    for field_number, raw in _split_fields(data):
        if field_number not in fields:
            continue
        field, kind = fields[field_number]
        value = _decode_value(raw, kind.strip("*?^"), depth + 1)
        if kind.startswith("^"):
            assert isinstance(value, dict)
            decoded |= value
        elif kind.startswith("*"):
            elements = decoded.setdefault(field, [])
            assert isinstance(elements, list)
            elements.append(value)
        elif kind.startswith("map"):
            entries = decoded.setdefault(field, {})
            assert isinstance(entries, dict) and isinstance(value, dict)
            entries[text(value, "key")] = value.get("value", "")
        elif value or kind.endswith("?"):
            decoded[field] = value
    return decoded


def _decode_value(raw: int | bytes, kind: str, depth: int) -> object:
    if isinstance(raw, int):
        if kind not in ("int", "bool"):
            raise ValueError(f"expected {kind}, got a number")
        return bool(raw) if kind == "bool" else raw
    if kind in ("int", "bool", "double"):
        raise ValueError(f"expected {kind}, got bytes")
    if kind in ("string", "bytes"):
        return raw.decode() if kind == "string" else b64encode(raw).decode()
    message = _decode_message(raw, kind, depth)
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
    # A list in JSON is a message with its elements.
    return message.get("items", []) if message_fields(kind).keys() == {1} and "items" in message else message


def _split_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    offset = 0
    while offset < len(data):
        tag, offset = _read_varint(data, offset)
        field_number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, offset = _read_varint(data, offset)
            yield field_number, value - (1 << 64) if value >> 63 else value
            continue
        if wire_type == 2:
            length, offset = _read_varint(data, offset)
        elif wire_type in _FIXED:
            length = _FIXED[wire_type]
        else:
            raise ValueError(f"wire type {wire_type}")
        if offset + length > len(data):
            raise ValueError("unexpected end")
        yield field_number, data[offset : offset + length]
        offset += length


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if offset >= len(data):
            raise ValueError("unexpected end")
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return value, offset
    raise ValueError("a number is too long")


_FILE = Path(__file__).with_name("protobuf_messages.txt")
#: The fields of each message, as in the file: number, name and type (string by default). A star marks a repeated field,
#: a question mark one that counts even if it is zero or empty; `map` is a map of strings, `map:T` one to T. The fields
#: of a type after `^` are inlined. A name that several groups use starts with the group, and also the version if they
#: differ. Read at import, outside of event loops.
_MESSAGES = dict(line.split(": ", 1) for line in _FILE.read_text(encoding="utf-8").splitlines())

Fields = dict[int, tuple[str, str]]


def message_name(api_version: str, kind: str) -> str | None:
    group, _, version = api_version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    short = group.partition(".")[0] or "core"
    names = (f"{short}/{version}.{kind}", f"{short}.{kind}", kind)
    return next((name for name in names if name in _MESSAGES), None)


@cache
def message_fields(message: str) -> Fields:
    if message.startswith("map"):
        return {1: ("key", "string?"), 2: ("value", f"{message.partition(':')[2] or 'string'}?")}
    fields: Fields = {}
    for field in _MESSAGES[message].split(", "):
        number, name, kind = [*field.split(), "string"][:3]
        fields[int(number)] = ("", name) if name.startswith("^") else (name, kind)
    return fields
