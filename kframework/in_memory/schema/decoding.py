"""Decode a body as an object of its kind, with the errors of Go's decoder.

It reports the first value of a wrong type but reads on; types with their own decoder (times, quantities) stop it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from functools import lru_cache
from typing import NamedTuple

from kframework.in_memory.schema.validator import json_type
from kframework.objects.openapi.definitions import Schema, properties, reference_to, short_name
from kframework.objects.quantity import Quantity, QuantityError

_QUANTITY_SHAPE = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d?:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
#: The parts of a time, with their names in Go's layout.
_PARTS = (
    *((r"\d{4}", "2006"), ("-", "-"), (r"(0[1-9]|1[0-2])", "01"), ("-", "-"), (r"\d\d", "02"), ("T", "T")),
    *((r"\d\d?", "15"), (":", ":"), (r"\d\d", "04"), (":", ":"), (r"\d\d([.,]\d+)?", "05"), ("Z", "Z07:00")),
)

#: Go's names of string types, as far as users set their fields.
_GO_STRING_TYPES = {
    ("Container", "imagePullPolicy"): "v1.PullPolicy",
    ("Container", "terminationMessagePolicy"): "v1.TerminationMessagePolicy",
    ("ContainerPort", "protocol"): "v1.Protocol",
    ("CronJobSpec", "concurrencyPolicy"): "v1.ConcurrencyPolicy",
    ("LabelSelectorRequirement", "operator"): "v1.LabelSelectorOperator",
    ("NodeSelectorRequirement", "operator"): "v1.NodeSelectorOperator",
    ("PersistentVolumeClaimSpec", "accessModes"): "v1.PersistentVolumeAccessMode",
    ("PodSpec", "dnsPolicy"): "v1.DNSPolicy",
    ("PodSpec", "restartPolicy"): "v1.RestartPolicy",
    ("Secret", "type"): "v1.SecretType",
    ("ServicePort", "protocol"): "v1.Protocol",
    ("ServiceSpec", "sessionAffinity"): "v1.ServiceAffinity",
    ("ServiceSpec", "type"): "v1.ServiceType",
    ("Taint", "effect"): "v1.TaintEffect",
    ("Toleration", "effect"): "v1.TaintEffect",
    ("Toleration", "operator"): "v1.TolerationOperator",
}
#: Go's names of scalar types, where they differ.
_GO_TYPES = {
    "boolean": "bool",
    "double": "float64",
    "byte": "[]uint8",
    "Quantity": "resource.Quantity",
    "Time": "v1.Time",
    "MicroTime": "v1.MicroTime",
}


class _FieldLocation(NamedTuple):
    """A field with its type and path; elements of lists and maps have no path of their own."""

    definition: str
    field: str
    path: tuple[str, ...]


class _DecodeError(Exception):
    """Raised for a value that its type cannot decode."""


def decoding_problem(data: object, definition: str, path: tuple[str, ...] = ()) -> str:
    """Return why a value is not of this type, "" if it is; `path` is its path in the body."""
    decoder = _Decoder()
    try:
        decoder.read(data, reference_to(definition), _FieldLocation(definition, "", path))
    except _DecodeError as why:
        return str(why)
    return decoder.mistake


class _Decoder:
    def __init__(self) -> None:
        self.mistake = ""

    def read(self, data: object, schema: Schema, location: _FieldLocation) -> None:
        if not isinstance(data, dict):
            if data is not None:
                self._record(_json_type(data), schema, location)
            return
        definition = schema.definition_name
        for name, simple, field in _known_fields(definition, tuple(data)):
            value = data[name]
            if value.__class__ is not simple:
                self._value(value, field, _FieldLocation(definition, name, (*location.path, name)))

    def _value(self, value: object, schema: Schema, location: _FieldLocation) -> None:
        if value is None:
            return
        if schema.items is not None and isinstance(value, list):
            for item in value:
                self._value(item, schema.element, location)
        elif schema.additional_properties is not None and isinstance(value, dict):
            inner = schema.element
            simple = _simple_class(inner)
            for item in value.values():
                if item.__class__ is not simple:
                    self._value(item, inner, location)
        elif schema.items is not None or schema.additional_properties is not None:
            self._record(_json_type(value), schema, location)
        elif properties(schema.definition_name):
            self.read(value, schema, location)
        else:
            self._simple(value, schema, location)

    def _simple(self, value: object, schema: Schema, location: _FieldLocation) -> None:
        match schema.value_type:
            case "Quantity":
                text = value.strip() if isinstance(value, str) else json.dumps(value)
                if not re.fullmatch(_QUANTITY_SHAPE[1:-1], text, re.ASCII):
                    raise _DecodeError(f"quantities must match the regular expression '{_QUANTITY_SHAPE}'")
                try:
                    Quantity.parse(text)
                except QuantityError:
                    raise _DecodeError("unable to parse quantity's suffix") from None
            case "byte" if isinstance(value, str):
                try:
                    base64.b64decode("".join(value.splitlines()), validate=True)
                except (binascii.Error, ValueError):
                    illegal = re.search(r"[^A-Za-z0-9+/\r\n]", value)
                    offset = illegal.start() if illegal else len(value) // 4 * 4
                    raise _DecodeError(f"illegal base64 data at input byte {offset}") from None
            case "Time" | "MicroTime":
                _check_time(value, location)
            case "int32" | "int64" as type:
                self._integer(value, int(type.removeprefix("int")), location)
            case "IntOrString" if not isinstance(value, str):
                self._integer(value, 32, location)
            case "string" | "byte" | "boolean" | "double" as type:
                if _json_type(value) != {"boolean": "bool", "double": "number"}.get(type, "string"):
                    self._record(_json_type(value), schema, location)

    def _integer(self, value: object, size: int, location: _FieldLocation) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._record(_json_type(value), f"int{size}", location)
        elif isinstance(value, float) or not -(1 << size - 1) <= value < 1 << size - 1:
            self._record(f"number {value}", f"int{size}", location)

    def _record(self, json_type: str, type: Schema | str, location: _FieldLocation) -> None:
        if not self.mistake:
            self.mistake = _problem(json_type, type if isinstance(type, str) else _go_type(type, location), location)


@lru_cache(maxsize=4096)  # thousands of pods share a few shapes
def _known_fields(definition: str, names: tuple[str, ...]) -> tuple[tuple[str, type[object] | None, Schema], ...]:
    """List the known fields of an object, each with the class that needs no further check."""
    known = properties(definition)
    return tuple((name, _simple_class(known[name]), known[name]) for name in names if name in known)


def _simple_class(schema: Schema) -> type[object] | None:
    return {"string": str, "boolean": bool}.get(schema.value_type)


def _check_time(value: object, location: _FieldLocation) -> None:
    """Raise _DecodeError for an invalid time; Go names the part at which its layout stops matching."""
    if not isinstance(value, str):
        raise _DecodeError(_problem(_json_type(value), "string", location))
    if not value or _TIME.fullmatch(value):
        return
    rest, parts = value, list(_PARTS)
    while len(parts) > 1 and (match := re.match(parts[0][0], rest, re.ASCII)):
        rest = rest[match.end() :]
        del parts[0]
    problem = f"cannot parse {json.dumps(rest, ensure_ascii=False)} as {json.dumps(parts[0][1])}"
    quoted = json.dumps(value, ensure_ascii=False)
    raise _DecodeError(f'parsing time {quoted} as "2006-01-02T15:04:05Z07:00": {problem}')


def _problem(json_type: str, type: str, location: _FieldLocation) -> str:
    if not location.path:
        return f"json: cannot unmarshal {json_type} into Go value of type {type}"
    go_field = f"{short_name(location.definition)}.{'.'.join(location.path)}"
    return f"json: cannot unmarshal {json_type} into Go struct field {go_field} of type {type}"


def _json_type(value: object) -> str:
    name = json_type(value)
    return {"boolean": "bool", "integer": "number"}.get(name, name)


def _go_type(schema: Schema, location: _FieldLocation) -> str:
    if schema.items is not None:
        return f"[]{_go_type(schema.items, location)}"
    if schema.additional_properties is not None:
        values = _go_type(schema.additional_properties, location)
        return "v1.ResourceList" if values == _GO_TYPES["Quantity"] else f"map[string]{values}"
    if properties(schema.definition_name):
        return ".".join(schema.definition_name.rsplit(".", 2)[1:])
    type = schema.value_type
    return _GO_STRING_TYPES.get((short_name(location.definition), location.field), _GO_TYPES.get(type, type))
