"""The values of CEL at run time, and what they are to each other: equal, less, at a key.

`bool`, `int`, `float`, `str`, `bytes`, `list` and `None` are Python's own. A map is a dict; since Python takes True for
1 there, a bool as a key is written as a `BoolKey`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from kframework.cel.errors import CelError

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned integer: an int in all but its type, so that map keys of both kinds find each other."""

    __slots__ = ()


class BoolKey(Enum):
    """A bool as the key of a map."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A time span in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970; `offset` is that of the zone in which it was written, in seconds."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what `type(1)` gives."""

    name: str


class Optional:
    """A value that may be absent; the one without is `NONE`."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: object = value


NONE: Final = Optional(None)


class Opaque:
    """A value of one of Kubernetes' own types: `type_name` is CEL's name of it.

    Comparing one with a value of another type is an error.
    """

    __slots__ = ()
    type_name: str


class DomainMap(dict[str, dict[str, object]]):
    """Attributes or capacities by domain: one that is not there reads as an empty map, though `in` tells the truth."""

    __slots__ = ()

    def __missing__(self, domain: str) -> dict[str, object]:
        return _EMPTY


_EMPTY: dict[str, object] = {}


class KeyedList(list[Any]):
    """A list of Kubernetes that is a set, or a map by the fields `keys` of its elements: their order does not count.

    Adding a list keeps the places of what is there, and puts what has the same key in its place.
    """

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[object], keys: tuple[str, ...] = ()) -> None:
        super().__init__(items)
        self.keys: tuple[str, ...] = keys

    def __add__(self, other: Iterable[object]) -> KeyedList:
        """Return the list with the elements of another in it."""
        return KeyedList({self._key(item): item for item in (*self, *other)}.values(), self.keys)

    def is_like(self, other: list[object]) -> bool:
        """Return whether another list has the same elements, in whatever order."""
        own = {self._key(item): item for item in self}
        return len(self) == len(other) and all(
            (key := self._key(item)) in own and _equal_inside(own[key], item) for item in other
        )

    def _key(self, item: Any) -> str:
        """Return what tells an element from others; as text, as it may be a map or a list."""
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
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}
_NUMBERS = (int, Uint, float)
#: What is its own key in a dict, and equal just when Python says so.
PLAIN = frozenset({str, int, Uint, float, bytes, Duration, Timestamp, TypeValue})
_CONTAINERS = frozenset({dict, KeyedList})


def type_name(value: object) -> str:
    """Return CEL's name of the type of a value."""
    name = _TYPE_NAMES.get(type(value))
    return name if name is not None else value.type_name if isinstance(value, Opaque) else "dyn"


def no_such_overload(function: str, values: Iterable[object]) -> CelError:
    """Return the error of a function that takes no such values."""
    return CelError(f"no such overload: {function}({', '.join(map(type_name, values))})")


def in_range(value: int) -> int:
    """Return an int that fits in 64 bits; raises CelError for any other."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def unsigned(value: int) -> Uint:
    """Return an int as an unsigned one; raises CelError where it is none."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


# -- equal and less --------------------------------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool:
    """Return whether `left == right`; raises CelError where one of Kubernetes' types meets another type."""
    kind = type(left)
    if kind is type(right):
        if kind in PLAIN:
            return bool(left == right)
        if kind is list:
            return _same_items(left, right)
        if kind is Optional:
            return left is right or (left is not NONE and right is not NONE and equal(left.value, right.value))
        if kind not in _CONTAINERS:
            return bool(left == right)
    if left is None or right is None:
        return False
    if kind in _NUMBERS and type(right) in _NUMBERS:
        return _number(left, right) == _number(right, left)
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and _equal_inside(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list) and isinstance(right, list):
        return left.is_like(right) if isinstance(left, KeyedList) else _same_items(left, right)
    if isinstance(left, Opaque):
        raise no_such_overload("_==_", (left, right))
    return False


def _same_items(left: list[object], right: list[object]) -> bool:
    return len(left) == len(right) and all(map(_equal_inside, left, right))


def _equal_inside(left: object, right: object) -> bool:
    """Compare as cel-go does inside of lists and maps: what cannot be compared passes for equal there."""
    try:
        return equal(left, right)
    except CelError:
        return True


def is_among(value: object, items: Iterable[object]) -> bool:
    """Return whether a list has an equal element; what cannot be compared is not equal."""
    for item in items:
        try:
            if equal(value, item):
                return True
        except CelError:
            continue
    return False


def _number(value: float, other: float) -> float:
    """Return a number as it is compared: an int beside a float is taken for the nearest float, as in cel-go."""
    return float(value) if type(other) is float else value


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raises CelError where the two have no order."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        left, right = _number(left, right), _number(right, left)
        if left != left or right != right:
            raise CelError("NaN values cannot be ordered")
    elif kind is not other or kind not in _ORDERED:
        raise no_such_overload("compare", (left, right))
    return int(left > right) - int(left < right)


_ORDERED = frozenset({bool, str, bytes, Duration, Timestamp})


# -- lists and maps --------------------------------------------------------------------------------------------------


def key_of(value: object) -> object:
    """Return the key under which a dict holds a value; raises CelError for one that is no key."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is bool:
        return BoolKey.TRUE if value else BoolKey.FALSE
    raise CelError(f"unsupported key type: {type_name(value)}")


def keys_of(entries: dict[Any, Any]) -> list[object]:
    """Return the keys of a map as values."""
    return [key.value if type(key) is BoolKey else key for key in entries]


def position_of(index: object) -> int:
    """Return a list index as an int; raises CelError."""
    if type(index) is int or type(index) is Uint or (type(index) is float and index.is_integer()):
        return int(index)
    if type(index) is float:
        raise CelError(f"unsupported index value {index} in list")
    raise CelError(f"unsupported index type '{type_name(index)}' in list")


def is_zero(value: Any) -> bool:
    """Return whether a value is the zero value of its type, in the sense of `optional.ofNonZeroValue`."""
    if type(value) is Duration or type(value) is Timestamp:
        return bool(value.nanos == _ZEROES[type(value)])
    return value is None or (type(value) in _WITH_ZERO and not value)


_WITH_ZERO = frozenset({bool, int, Uint, float, str, bytes, list, KeyedList, dict, DomainMap})
#: Go's zero time is the first of January of the year 1.
_ZEROES = {Duration: 0, Timestamp: -62_135_596_800 * 10**9}
