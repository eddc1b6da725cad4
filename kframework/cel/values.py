"""The values of CEL, their equality, order and use as keys.

`bool`, `int`, `float`, `str`, `bytes`, `list` and `None` are Python's own. A map is a dict whose bool keys are
`BoolKey`s, because Python does not distinguish True from 1 there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from kframework.cel.errors import CelError

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned integer; equal to an int as a map key."""

    __slots__ = ()


class BoolKey(Enum):
    """A bool as the key of a map."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True, order=True)
class CelDuration:
    """A time span in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970; `offset` is the seconds of the time zone in which it was written."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value, the result of `type(1)`."""

    name: str


class Optional:
    """A value that may be absent; `NONE` is the empty one."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: object = value


NONE: Final = Optional(None)


class Opaque:
    """A value of one of Kubernetes' own types, named `type_name` in CEL.

    Comparing it with a value of another type is an error.
    """

    __slots__ = ()
    type_name: str


class DomainMap(dict[str, dict[str, object]]):
    """Attributes or capacities by domain: a missing domain reads as an empty map, but is not `in` the map."""

    __slots__ = ()

    def __missing__(self, domain: str) -> dict[str, object]:
        return _EMPTY


_EMPTY: dict[str, object] = {}


class KeyedList(list[Any]):
    """A list of Kubernetes that is a set, or a map by the fields `keys` of its elements: order does not matter.

    Adding a list replaces elements with the same key, in place.
    """

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[object], keys: tuple[str, ...] = ()) -> None:
        super().__init__(items)
        self.keys: tuple[str, ...] = keys

    def __add__(self, other: Iterable[object]) -> KeyedList:
        return KeyedList({self._key(item): item for item in (*self, *other)}.values(), self.keys)

    def has_same_elements(self, other: list[object]) -> bool:
        own = {self._key(item): item for item in self}
        return len(self) == len(other) and all(
            (key := self._key(item)) in own and _is_equal_nested(own[key], item) for item in other
        )

    def _key(self, item: Any) -> str:
        """Return the key of an element; as text, because it may be a map or a list."""
        return repr([item.get(key) for key in self.keys] if self.keys else item)


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    KeyedList: "list",
    dict: "map",
    DomainMap: "map",
    type(None): "null_type",
    CelDuration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}
_NUMBERS = (int, Uint, float)
#: Types whose values are their own dict keys, and equal exactly when they are in Python.
SELF_KEYED_TYPES = frozenset({str, int, Uint, float, bytes, CelDuration, Timestamp, TypeValue})
_CONTAINERS = frozenset({dict, KeyedList})


def type_name(value: object) -> str:
    name = _TYPE_NAMES.get(type(value))
    return name if name is not None else value.type_name if isinstance(value, Opaque) else "dyn"


def no_such_overload(function: str, values: Iterable[object]) -> CelError:
    return CelError(f"no such overload: {function}({', '.join(map(type_name, values))})")


def check_int64(value: int) -> int:
    """Return an int that fits into 64 bits; raises CelError for others."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def check_uint64(value: int) -> Uint:
    """Convert an int to an unsigned one; raises CelError if it does not fit."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def is_equal(left: Any, right: Any) -> bool:
    """Return whether `left == right`; raises CelError for an Opaque value and one of another type."""
    kind = type(left)
    if kind is type(right):
        if kind in SELF_KEYED_TYPES:
            return bool(left == right)
        if kind is list:
            return _has_same_items(left, right)
        if kind is Optional:
            return left is right or (left is not NONE and right is not NONE and is_equal(left.value, right.value))
        if kind not in _CONTAINERS:
            return bool(left == right)
    if left is None or right is None:
        return False
    if kind in _NUMBERS and type(right) in _NUMBERS:
        return _comparable(left, right) == _comparable(right, left)
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and _is_equal_nested(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list) and isinstance(right, list):
        return left.has_same_elements(right) if isinstance(left, KeyedList) else _has_same_items(left, right)
    if isinstance(left, Opaque):
        raise no_such_overload("_==_", (left, right))
    return False


def _has_same_items(left: list[object], right: list[object]) -> bool:
    return len(left) == len(right) and all(map(_is_equal_nested, left, right))


def _is_equal_nested(left: object, right: object) -> bool:
    """Compare as cel-go does inside lists and maps, where incomparable values count as equal."""
    try:
        return is_equal(left, right)
    except CelError:
        return True


def is_same(left: object, right: object) -> bool:
    """Return whether `left == right`, False for incomparable values."""
    try:
        return is_equal(left, right)
    except CelError:
        return False


def is_element(value: object, items: Iterable[object]) -> bool:
    return any(is_same(value, item) for item in items)


def _comparable(value: float, other: float) -> float:
    """Return a number for comparison: next to a float, an int becomes the nearest float, as in cel-go."""
    return float(value) if type(other) is float else value


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raises CelError for values without an order."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        left, right = _comparable(left, right), _comparable(right, left)
        if left != left or right != right:
            raise CelError("NaN values cannot be ordered")
    elif kind is not other or kind not in _ORDERED:
        raise no_such_overload("compare", (left, right))
    return order(left, right)


def order(left: Any, right: Any) -> int:
    """Return -1, 0 or 1, for values that Python can compare."""
    return int(left > right) - int(left < right)


_ORDERED = frozenset({bool, str, bytes, CelDuration, Timestamp})


def to_key(value: object) -> object:
    """Return the dict key for a value; raises CelError for an invalid key."""
    kind = type(value)
    if kind in SELF_KEYED_TYPES:
        return value
    if kind is bool:
        return BoolKey.TRUE if value else BoolKey.FALSE
    raise CelError(f"unsupported key type: {type_name(value)}")


def map_keys(entries: dict[Any, Any]) -> list[object]:
    return [key.value if type(key) is BoolKey else key for key in entries]


def to_index(index: object) -> int:
    """Convert a list index to an int; raises CelError."""
    if type(index) is int or type(index) is Uint or (type(index) is float and index.is_integer()):
        return int(index)
    if type(index) is float:
        raise CelError(f"unsupported index value {index} in list")
    raise CelError(f"unsupported index type '{type_name(index)}' in list")


def is_zero(value: Any) -> bool:
    """Return whether a value is the zero value of its type, as `optional.ofNonZeroValue` defines it."""
    if type(value) is CelDuration or type(value) is Timestamp:
        return bool(value.nanos == _ZERO_NANOS[type(value)])
    return value is None or (type(value) in _FALSY_AT_ZERO and not value)


_FALSY_AT_ZERO = frozenset({bool, int, Uint, float, str, bytes, list, KeyedList, dict, DomainMap})
#: Go's zero time is the first of January of the year 1.
_ZERO_NANOS = {CelDuration: 0, Timestamp: -62_135_596_800 * 10**9}
