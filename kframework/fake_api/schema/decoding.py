"""Whether a body can be read as an object of its kind, in the words of Go's decoder.

The decoder notes the first value of a wrong type and reads on; what a type reads by itself (times, quantities) ends it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from functools import lru_cache
from typing import NamedTuple

from kframework.objects.openapi.definitions import Schema, properties, reference_to, short_name
from kframework.objects.quantity import Quantity, QuantityError

_QUANTITY_SHAPE = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d?:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
#: A time, part by part, each as Go's layout spells it.
_PARTS = (
    *((r"\d{4}", "2006"), ("-", "-"), (r"(0[1-9]|1[0-2])", "01"), ("-", "-"), (r"\d\d", "02"), ("T", "T")),
    *((r"\d\d?", "15"), (":", ":"), (r"\d\d", "04"), (":", ":"), (r"\d\d([.,]\d+)?", "05"), ("Z", "Z07:00")),
)

#: Texts for which Go has types of their own, of those that people write.
_NAMED = {
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
#: What Go calls the types of single values, where it has another name.
_GO = {
    "boolean": "bool",
    "double": "float64",
    "byte": "[]uint8",
    "Quantity": "resource.Quantity",
    "Time": "v1.Time",
    "MicroTime": "v1.MicroTime",
}


class _Place(NamedTuple):
    """Where a value stands: in which field of which type, on which path; elements of lists and maps have no path."""

    definition: str
    field: str
    path: tuple[str, ...]


class _Unreadable(Exception):
    """A value that its type cannot read."""


def undecodable(data: object, definition: str, path: tuple[str, ...] = ()) -> str:
    """Return why a value is no object of this type, empty if it is one; `path` is where it stands in the body."""
    decoder = _Decoder()
    try:
        decoder.read(data, reference_to(definition), _Place(definition, "", path))
    except _Unreadable as why:
        return str(why)
    return decoder.mistake


class _Decoder:
    def __init__(self) -> None:
        self.mistake = ""

    def read(self, data: object, schema: Schema, place: _Place) -> None:
        if not isinstance(data, dict):
            if data is not None:
                self._note(_spoken(data), schema, place)
            return
        definition = schema.definition_name
        for name, simple, field in _to_read(definition, tuple(data)):
            value = data[name]
            if value.__class__ is not simple:
                self._value(value, field, _Place(definition, name, (*place.path, name)))

    def _value(self, value: object, schema: Schema, place: _Place) -> None:
        if value is None:
            return
        if schema.items is not None and isinstance(value, list):
            for item in value:
                self._value(item, schema.element, place)
        elif schema.additional_properties is not None and isinstance(value, dict):
            inner = schema.element
            simple = _right(inner)
            for item in value.values():
                if item.__class__ is not simple:
                    self._value(item, inner, place)
        elif schema.items is not None or schema.additional_properties is not None:
            self._note(_spoken(value), schema, place)
        elif properties(schema.definition_name):
            self.read(value, schema, place)
        else:
            self._simple(value, schema, place)

    def _simple(self, value: object, schema: Schema, place: _Place) -> None:
        match schema.value_type:
            case "Quantity":
                text = value.strip() if isinstance(value, str) else json.dumps(value)
                if not re.fullmatch(_QUANTITY_SHAPE[1:-1], text, re.ASCII):
                    raise _Unreadable(f"quantities must match the regular expression '{_QUANTITY_SHAPE}'")
                try:
                    Quantity.parse(text)
                except QuantityError:
                    raise _Unreadable("unable to parse quantity's suffix") from None
            case "byte" if isinstance(value, str):
                try:
                    base64.b64decode("".join(value.splitlines()), validate=True)
                except (binascii.Error, ValueError):
                    illegal = re.search(r"[^A-Za-z0-9+/\r\n]", value)
                    place_of_it = illegal.start() if illegal else len(value) // 4 * 4
                    raise _Unreadable(f"illegal base64 data at input byte {place_of_it}") from None
            case "Time" | "MicroTime":
                _check_time(value, place)
            case "int32" | "int64" as type:
                self._integer(value, int(type.removeprefix("int")), place)
            case "IntOrString" if not isinstance(value, str):
                self._integer(value, 32, place)
            case "string" | "byte" | "boolean" | "double" as type:
                if _spoken(value) != {"boolean": "bool", "double": "number"}.get(type, "string"):
                    self._note(_spoken(value), schema, place)

    def _integer(self, value: object, size: int, place: _Place) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._note(_spoken(value), f"int{size}", place)
        elif isinstance(value, float) or not -(1 << size - 1) <= value < 1 << size - 1:
            self._note(f"number {value}", f"int{size}", place)

    def _note(self, spoken: str, type: Schema | str, place: _Place) -> None:
        if not self.mistake:
            self.mistake = _cannot(spoken, type if isinstance(type, str) else _in_go(type, place), place)


@lru_cache(maxsize=4096)  # thousands of pods have the same few shapes
def _to_read(definition: str, names: tuple[str, ...]) -> tuple[tuple[str, type[object] | None, Schema], ...]:
    """List the fields of an object that its type has, each with the class that is right without another look."""
    known = properties(definition)
    return tuple((name, _right(known[name]), known[name]) for name in names if name in known)


def _right(schema: Schema) -> type[object] | None:
    return {"string": str, "boolean": bool}.get(schema.value_type)


def _check_time(value: object, place: _Place) -> None:
    """Raise _Unreadable for what is no time, in the words of Go, which names the part where its layout ends to fit."""
    if not isinstance(value, str):
        raise _Unreadable(_cannot(_spoken(value), "string", place))
    if not value or _TIME.fullmatch(value):
        return
    rest, parts = value, list(_PARTS)
    while len(parts) > 1 and (found := re.match(parts[0][0], rest, re.ASCII)):
        rest = rest[found.end() :]
        del parts[0]
    failed = f"cannot parse {json.dumps(rest, ensure_ascii=False)} as {json.dumps(parts[0][1])}"
    quoted = json.dumps(value, ensure_ascii=False)
    raise _Unreadable(f'parsing time {quoted} as "2006-01-02T15:04:05Z07:00": {failed}')


def _cannot(spoken: str, type: str, place: _Place) -> str:
    if not place.path:
        return f"json: cannot unmarshal {spoken} into Go value of type {type}"
    where = f"{short_name(place.definition)}.{'.'.join(place.path)}"
    return f"json: cannot unmarshal {spoken} into Go struct field {where} of type {type}"


def _spoken(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
    return "object"


def _in_go(schema: Schema, place: _Place) -> str:
    """Spell a type as Go does."""
    if schema.items is not None:
        return f"[]{_in_go(schema.items, place)}"
    if schema.additional_properties is not None:
        values = _in_go(schema.additional_properties, place)
        return "v1.ResourceList" if values == _GO["Quantity"] else f"map[string]{values}"
    if properties(schema.definition_name):
        return ".".join(schema.definition_name.rsplit(".", 2)[1:])
    type = schema.value_type
    return _NAMED.get((short_name(place.definition), place.field), _GO.get(type, type))
