"""The types of CEL as the checker knows them, and how signatures spell them.

In a signature a capital letter is a type parameter: `list(A), A -> int`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its name and parameters; a type parameter's name begins with `$`."""

    name: str
    parameters: tuple[Type, ...] = ()

    @property
    def is_parameter(self) -> bool:
        """Whether this stands for a type that the checker has yet to find."""
        return self.name[0] == "$"

    @property
    def is_dynamic(self) -> bool:
        """Whether only the run time knows."""
        return self.name in ("dyn", "any")

    @property
    def is_unknown(self) -> bool:
        """Whether the checker lets anything pass for it: it is dynamic, or an error was told already."""
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

#: Those that null never stands for.
NEVER_NULL = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})

_SHORT = {"duration": DURATION, "timestamp": TIMESTAMP, "optional": Type("optional_type")}
_TOKEN = re.compile(r"[\w.]+|[(),]")


def list_of(element: Type) -> Type:
    """Return the type of lists of `element`."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of what may be absent."""
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    """Return the type of a type."""
    return Type("type", (value,))


def unwrapped(type: Type) -> Type | None:
    """Return what an optional may hold, None for any other type."""
    return type.parameters[0] if type.name == "optional_type" else None


def formatted(type: Type) -> str:
    """Write a type as cel-go does in the errors of its checker, where some have names of their own."""
    if not type.parameters:
        return _FORMATTED.get(type.name, type.name)
    return f"{type.name}({', '.join(map(formatted, type.parameters))})"


_FORMATTED = {"null_type": "null", "error": "!error!", DURATION.name: "duration", TIMESTAMP.name: "timestamp"}


@cache
def signature(text: str) -> tuple[tuple[Type, ...], Type]:
    """Read a signature such as `list(A), A -> int`."""
    parameters, _, result = text.partition("->")
    return _read(parameters), _read(result)[0]


def _read(text: str) -> tuple[Type, ...]:
    tokens = _TOKEN.findall(text)[::-1]
    types: list[Type] = []
    while tokens:
        types.append(_read_one(tokens))
        if tokens:
            tokens.pop()  # the comma
    return tuple(types)


def _read_one(tokens: list[str]) -> Type:
    name = tokens.pop()
    parameters: list[Type] = []
    if tokens and tokens[-1] == "(":
        while tokens.pop() != ")":
            parameters.append(_read_one(tokens))
    if len(name) == 1 and name.isupper():
        return Type(f"${name}")
    return Type(_SHORT[name].name if name in _SHORT else name, tuple(parameters))
