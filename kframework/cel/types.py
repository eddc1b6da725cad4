"""The types that the checker uses, and the syntax of signatures.

In a signature a capital letter is a type parameter: `list(A), A -> int`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Type:
    """A type with parameters; the name of a type parameter begins with `$`."""

    name: str
    parameters: tuple[Type, ...] = ()

    @property
    def is_parameter(self) -> bool:
        return self.name[0] == "$"

    @property
    def is_dynamic(self) -> bool:
        """Whether the type is known only at run time."""
        return self.name in ("dyn", "any")

    @property
    def is_unknown(self) -> bool:
        """Whether any type matches it: it is dynamic, or an error was reported already."""
        return self.name in ("dyn", "any", "error")

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


DYN = Type("dyn")
ANY = Type("any")
ERROR = Type("error")
BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null_type")
DURATION = Type("google.protobuf.Duration")
TIMESTAMP = Type("google.protobuf.Timestamp")

NEVER_NULL = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})

_ABBREVIATIONS = {"duration": DURATION, "timestamp": TIMESTAMP, "optional": Type("optional_type")}
_TOKEN = re.compile(r"[\w.]+|[(),]")


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", (value,))


def unwrap_optional(type: Type) -> Type | None:
    """Return the type inside an optional, None for other types."""
    return type.parameters[0] if type.name == "optional_type" else None


def format_type(type: Type) -> str:
    """Format a type as in cel-go's checker errors, where some types have other names."""
    if not type.parameters:
        return _SHORT_NAMES.get(type.name, type.name)
    return f"{type.name}({', '.join(map(format_type, type.parameters))})"


_SHORT_NAMES = {"null_type": "null", "error": "!error!", DURATION.name: "duration", TIMESTAMP.name: "timestamp"}


@cache
def parse_signature(text: str) -> tuple[tuple[Type, ...], Type]:
    parameters, _, result = text.partition("->")
    return _parse_types(parameters), _parse_types(result)[0]


def _parse_types(text: str) -> tuple[Type, ...]:
    tokens = _TOKEN.findall(text)[::-1]
    types: list[Type] = []
    while tokens:
        types.append(_parse_type(tokens))
        if tokens:
            tokens.pop()  # the comma
    return tuple(types)


def _parse_type(tokens: list[str]) -> Type:
    name = tokens.pop()
    parameters: list[Type] = []
    if tokens and tokens[-1] == "(":
        while tokens.pop() != ")":
            parameters.append(_parse_type(tokens))
    if len(name) == 1 and name.isupper():
        return Type(f"${name}")
    return Type(_ABBREVIATIONS[name].name if name in _ABBREVIATIONS else name, tuple(parameters))
