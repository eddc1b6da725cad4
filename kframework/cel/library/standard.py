"""CEL's operators and standard functions, and cel-go's optional types.

The compiler implements `or`, `orValue`, `.?f` and `[?k]` of optional types itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from kframework.cel import costs
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.functions import Overload, function, generic, generic_method, method, signatures_for
from kframework.cel.library.times import checked_duration, checked_timestamp
from kframework.cel.values import (
    NONE,
    CelDuration,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    check_int64,
    check_uint64,
    compare,
    is_element,
    is_zero,
    no_such_overload,
    to_key,
    type_name,
)


def add(left: Any, right: Any) -> object:
    match left, right:
        case (CelDuration(), CelDuration()):
            return checked_duration(left.nanos + right.nanos)
        case (CelDuration(), Timestamp()) | (Timestamp(), CelDuration()):
            return checked_timestamp(
                left.nanos + right.nanos, left.offset if isinstance(left, Timestamp) else right.offset
            )
        case (list(), list()):
            if len(left) + len(right) > costs.COST_LIMIT:
                raise CostLimitExceeded  # cel-go charges nothing here, because it does not copy
            return left + right
        case (str(), str()) | (bytes(), bytes()):
            return left + right
    return _arithmetic("_+_", operator.add, left, right)


def _subtract(left: Any, right: Any) -> object:
    match left, right:
        case (CelDuration(), CelDuration()) | (Timestamp(), Timestamp()):
            return checked_duration(left.nanos - right.nanos)
        case (Timestamp(), CelDuration()):
            return checked_timestamp(left.nanos - right.nanos, left.offset)
    return _arithmetic("_-_", operator.sub, left, right)


def _divide(left: Any, right: Any) -> object:
    if type(left) is float and type(right) is float:
        if right:
            return left / right
        if left == 0 or left != left:
            return float("nan")
        return float("inf") if (left > 0) is (repr(right) == "0.0") else float("-inf")  # -0.0 == 0.0, but not its repr
    return _arithmetic("_/_", _quotient, left, right)


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) is (right < 0) else -whole


def _modulo(left: Any, right: Any) -> object:
    if type(left) is float:
        raise no_such_overload("_%_", (left, right))
    return _arithmetic("_%_", _remainder, left, right)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    if right == -1:
        check_int64(-left)  # Go checks the quotient too
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _arithmetic(name: str, operation: Callable[[Any, Any], Any], left: Any, right: Any) -> object:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int64(operation(left, right))
        if kind is Uint:
            return check_uint64(operation(int(left), int(right)))
        if kind is float:
            return operation(left, right)
    raise no_such_overload(name, (left, right))


def _negate(value: Any) -> object:
    if type(value) is int:
        return check_int64(-value)
    if type(value) is float:
        return -value
    if type(value) is CelDuration:
        return checked_duration(-value.nanos)
    raise no_such_overload("-_", (value,))


def _not(value: object) -> bool:
    if value is True or value is False:
        return not value
    raise no_such_overload("!_", (value,))


def _contains_value(value: object, container: Any) -> bool:
    if isinstance(container, list):
        return is_element(value, container)
    if not isinstance(container, dict):
        raise no_such_overload("@in", (value, container))
    try:
        return to_key(value) in container
    except CelError:
        return False


def _size(value: object) -> int:
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    raise no_such_overload("size", (value,))


def _string_method(test: Callable[[str, str], bool]) -> Callable[[object, object], bool]:
    def apply(text: object, part: object) -> bool:
        if isinstance(text, str) and isinstance(part, str):
            return test(text, part)
        raise no_such_overload("string", (text, part))

    return apply


_NUMBERS = ("int", "uint", "double")
_COMPARISONS = (
    *signatures_for(("bool", "timestamp", "duration"), "T, T -> bool"),
    *(f"{left}, {right} -> bool" for left in _NUMBERS for right in _NUMBERS),
)
_TEXTS = ("string, string -> bool", "bytes, bytes -> bool")


def _comparison(name: str, verdict: Callable[[int], bool]) -> list[Any]:
    def apply(left: object, right: object) -> bool:
        return verdict(compare(left, right))

    return generic(name, *_COMPARISONS, apply=apply) + generic(name, *_TEXTS, apply=apply, cost=costs.ordering)


def _value(optional: Optional) -> object:
    if optional is NONE:
        raise CelError("optional.none() dereference")
    return optional.value


def _unwrap(items: list[object]) -> list[object]:
    if not all(isinstance(item, Optional) for item in items):
        raise CelError("optional.unwrap of a value that is not optional")
    return [item.value for item in items if isinstance(item, Optional) and item is not NONE]


def _compiled_inline(*values: object) -> object:
    raise AssertionError("the compiler implements it")


OVERLOADS: list[Overload] = [
    # Implemented by the compiler.
    *generic("_?_:_", "bool, A, A -> A"),
    *generic("_&&_", "bool, bool -> bool"),
    *generic("_||_", "bool, bool -> bool"),
    *generic("@not_strictly_false", "bool -> bool"),
    *generic("_==_", "A, A -> bool"),
    *generic("_!=_", "A, A -> bool"),
    *generic("_[_]", "list(A), int -> A", "map(A, B), A -> B"),
    *generic("_[_]", "optional(list(A)), int -> optional(A)", "optional(map(A, B)), A -> optional(B)"),
    *generic("!_", "bool -> bool", apply=_not),
    *generic("-_", "double -> double", "int -> int", apply=_negate),
    *generic("_+_", *signatures_for(_NUMBERS, "T, T -> T"), "list(A), list(A) -> list(A)", apply=add),
    *generic("_+_", "duration, duration -> duration", "duration, timestamp -> timestamp", apply=add),
    *generic("_+_", "timestamp, duration -> timestamp", apply=add),
    *generic("_+_", "string, string -> string", "bytes, bytes -> bytes", apply=add, cost=costs.two_traversals),
    *generic("_-_", *signatures_for(_NUMBERS, "T, T -> T"), "duration, duration -> duration", apply=_subtract),
    *generic("_-_", "timestamp, duration -> timestamp", "timestamp, timestamp -> duration", apply=_subtract),
    *generic("_*_", *signatures_for(_NUMBERS, "T, T -> T"), apply=partial(_arithmetic, "_*_", operator.mul)),
    *generic("_/_", *signatures_for(_NUMBERS, "T, T -> T"), apply=_divide),
    *generic("_%_", "int, int -> int", "uint, uint -> uint", apply=_modulo),
    *_comparison("_<_", lambda order: order < 0),
    *_comparison("_<=_", lambda order: order <= 0),
    *_comparison("_>_", lambda order: order > 0),
    *_comparison("_>=_", lambda order: order >= 0),
    *generic("@in", "A, list(A) -> bool", apply=_contains_value, cost=costs.membership),
    *generic("@in", "A, map(A, B) -> bool", apply=_contains_value),
    *generic("size", *signatures_for(("string", "bytes", "list(A)", "map(A, B)"), "T -> int"), apply=_size),
    *generic_method("size", *signatures_for(("string", "bytes", "list(A)", "map(A, B)"), "T -> int"), apply=_size),
    *generic("type", "A -> type(A)", apply=lambda value: TypeValue(type_name(value))),
    *generic("dyn", "A -> dyn", apply=lambda value: value),
    *generic_method(
        "contains",
        "string, string -> bool",
        apply=_string_method(lambda text, part: part in text),
        cost=costs.contains,
    ),
    *generic_method("startsWith", "string, string -> bool", apply=_string_method(str.startswith), cost=costs.traversal),
    *generic_method("endsWith", "string, string -> bool", apply=_string_method(str.endswith), cost=costs.traversal),
    *function("optional.of", "V -> optional(V)", apply=Optional),
    *function(
        "optional.ofNonZeroValue", "V -> optional(V)", apply=lambda value: NONE if is_zero(value) else Optional(value)
    ),
    *function("optional.none", "-> optional(V)", apply=lambda: NONE),
    *method("value", "optional(V) -> V", apply=_value),
    *method("hasValue", "optional(V) -> bool", apply=lambda optional: optional is not NONE),
    *generic_method("or", "optional(V), optional(V) -> optional(V)", apply=_compiled_inline),
    *generic_method("orValue", "optional(V), V -> V", apply=_compiled_inline),
    *generic("_[?_]", "list(V), int -> optional(V)", "optional(list(V)), int -> optional(V)"),
    *generic("_[?_]", "map(K, V), K -> optional(V)", "optional(map(K, V)), K -> optional(V)"),
    *method("first", "list(V) -> optional(V)", apply=lambda items: Optional(items[0]) if items else NONE),
    *method("last", "list(V) -> optional(V)", apply=lambda items: Optional(items[-1]) if items else NONE),
    *function("optional.unwrap", "list(optional(V)) -> list(V)", apply=_unwrap),
    *method("unwrapOpt", "list(optional(V)) -> list(V)", apply=_unwrap),
]
