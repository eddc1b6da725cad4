"""Unintended bodies: objects with any field of their kinds, and what becomes of them on the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from random import Random

import yaml

from kframework.fake_api.wire.protobuf import message_fields, message_name
from kframework.objects import ApiObject, Kind
from kframework.objects.openapi.definitions import Schema, definition_of, properties
from tests.fuzz.valid import VALID

#: How deep objects are made at most.
_DEEPEST = 7

_TEXTS = (
    *("", "a", "web", "default", "100m", "1Gi", "-1", "1e400", "0x10", "10.96.0.10", "2026-01-01T00:00:00Z", "80%"),
    *("kube-system", "app.kubernetes.io/name", "a/b/c", "A_B", "ü", "\x00", "\u2028", "null", "true", "*", "self == 1"),
    *("x" * 300, "/metadata/name", "{}", "ClusterIP", "RollingUpdate", "Always", "10.0.0.0/8", "tcp", "9" * 5000),
)
_NUMBERS = (0, 1, -1, 2, 80, 30086, 65536, 2**31, 2**63, -(2**63), 2**64, 10**400, 0.5, 1e308, -0.0)
#: What stands anywhere.
_ODD: tuple[object, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"b": {"c": [1]}}}, *_NUMBERS)


_NO_BODIES = (b"", b"\xff\xfe", b"[" * 50_000, b'{"a":' * 50_000, b"null", b"k8s\x00", b"- " * 9_000)


class Bodies:
    """Makes bodies by chance."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def object_of(self, kind: Kind[ApiObject], name: str, namespace: str) -> dict[str, object]:
        """Make an object that may be one of a kind, with a few values that are none."""
        name_of_type = definition_of(kind.api_version, kind.name)
        document: dict[str, object] = deepcopy(VALID.get(kind.name, {}))
        if not document or self._one_in(3):
            document |= (
                self._of_type(name_of_type, self._random.choice((0, 4))) if name_of_type else {"spec": self.anything(0)}
            )
        metadata = document.get("metadata")
        own = {"name": name} | ({"namespace": namespace} if namespace and self._one_in(2) else {})
        document["metadata"] = ({} if not isinstance(metadata, dict) or self._one_in(2) else metadata) | own
        if self._one_in(3):
            self._corrupt(document)
        return {"apiVersion": kind.api_version, "kind": kind.name} | document

    def _of_type(self, name: str, depth: int) -> dict[str, object]:
        known = properties(name)
        # Far down few fields are set: there would be no end otherwise.
        selected = [name for name in known if self._one_in(2 + depth)]
        return {name: self._value_of(known[name], depth + 1) for name in selected}

    def _value_of(self, schema: Schema, depth: int) -> object:
        if self._one_in(40):
            return self._unusual_value()
        if depth > _DEEPEST:
            return None
        if schema.items is not None:
            return [self._value_of(schema.items, depth + 1) for _ in range(self._random.randrange(3))]
        if schema.additional_properties is not None:
            values = schema.additional_properties
            return {self._text(): self._value_of(values, depth + 1) for _ in range(self._random.randrange(3))}
        if properties(schema.definition_name):
            return self._of_type(schema.definition_name, depth)
        match schema.value_type:
            case "int32" | "int64":
                return self._random.choice((0, 1, 2, 80, 3600))
            case "double":
                return 0.5
            case "boolean":
                return self._one_in(2)
            case "Time" | "MicroTime":
                return "2026-01-01T00:00:00Z"
            case "object":
                return self.anything(depth)
        return self._text()

    def anything(self, depth: int) -> object:
        """Make any JSON value."""
        match self._random.randrange(6 if depth < _DEEPEST else 3):
            case 0:
                return self._unusual_value()
            case 1 | 2:
                return self._text()
            case 3:
                return [self.anything(depth + 1) for _ in range(self._random.randrange(4))]
        return {self._text(): self.anything(depth + 1) for _ in range(self._random.randrange(4))}

    def _corrupt(self, document: object) -> None:
        """Put something that does not belong there into an object, somewhere."""
        while isinstance(document, dict | list) and document:
            positions = list(document) if isinstance(document, dict) else list(range(len(document)))
            position = self._random.choice(positions)
            if self._one_in(3) or not isinstance(document[position], dict | list) or not document[position]:
                document[position] = self._unusual_value() if self._one_in(2) else self._text()
                return
            document = document[position]

    def json_patch(self) -> object:
        """Make a JSON patch."""
        return [self._operation() for _ in range(self._random.randrange(4))]

    def _operation(self) -> object:
        if self._one_in(12):
            return self._unusual_value()
        operation = {"op": self._random.choice(("add", "remove", "replace", "move", "copy", "test", "", "x"))}
        for field in ("path", "from"):
            parts = (self._random.choice(("metadata", "labels", "spec", "a~1b", "0", "-", "~", "")) for _ in range(3))
            operation[field] = "/".join(["", *parts])[: self._random.randrange(1, 30)]
        return operation | ({"value": self.anything(3)} if self._one_in(2) else {})

    def with_directives(self, value: dict[str, object]) -> dict[str, object]:
        """Add to a patch what strategic merge goes by."""
        names = ("$patch", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/containers", "$x")
        name = self._random.choice(names)
        values = ("delete", "replace", "merge", "retainKeys", ["a"], [{"name": "a"}], self._unusual_value())
        position = self._random.choice([value, *(each for each in value.values() if isinstance(each, dict))])
        position[name] = self._random.choice(values)
        return value

    def in_json(self, value: object) -> bytes:
        """Write JSON, and sometimes lose or change a little of it."""
        return self._corrupt_bytes(json.dumps(value, ensure_ascii=self._one_in(2)).encode(errors="replace"))

    def in_yaml(self, value: object) -> bytes:
        """Write YAML, sometimes with aliases that stand for very much."""
        if self._one_in(20):
            lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
            lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 12)]
            return "\n".join(lines).encode()
        text: str = yaml.safe_dump(value, allow_unicode=True, default_flow_style=self._one_in(2))
        return self._corrupt_bytes(text.encode(errors="replace"))

    def in_protobuf(self, kind: Kind[ApiObject]) -> bytes:
        """Write an object of a kind in protobuf, with any of its fields."""
        message = message_name(kind.api_version, kind.name)
        raw = self._message(message, 0) if message else b""
        type_meta = _field(1, kind.api_version.encode()) + _field(2, kind.name.encode())
        return b"k8s\x00" + self._corrupt_bytes(_field(1, type_meta) + _field(2, raw))

    def _message(self, name: str, depth: int) -> bytes:
        known = message_fields(name)
        selected = [number for number in known if self._one_in(2 + depth)] if depth < _DEEPEST else []
        return b"".join(
            _field(number, self._value(known[number][1].strip("*?^"), depth + 1))
            for number in selected
            for _ in range(2 if known[number][1].startswith("*") else 1)
        )

    def _value(self, kind: str, depth: int) -> int | bytes:
        match kind:
            case "int" | "bool":
                return self._random.choice((0, 1, 2, 80, 2**31, 2**64 - 1))
            case "string" | "bytes" | "double":
                return self._text().encode()
            case "RawExtension" | "FieldsV1":
                return _field(1, self.in_json(self.anything(5)))
        return self._message(kind, depth)

    def _corrupt_bytes(self, body: bytes) -> bytes:
        if not self._one_in(8) or not body:
            return body
        position = self._random.randrange(len(body))
        match self._random.randrange(4):
            case 0:
                return body[:position]
            case 1:
                return body[:position] + self._random.randbytes(3) + body[position + 3 :]
            case 2:
                return body[:position] + body[position:] * 2
        return self._random.choice(_NO_BODIES)

    def _unusual_value(self) -> object:
        return deepcopy(self._random.choice(_ODD))

    def _text(self) -> str:
        return self._random.choice(_TEXTS)

    def _one_in(self, many: int) -> bool:
        return self._random.randrange(many) == 0


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def one_of(random: Random, values: Sequence[str]) -> str:
    """Choose a text, or one that is none of them."""
    return random.choice(values) if random.randrange(8) else random.choice(_TEXTS)
