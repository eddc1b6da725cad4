"""cel-go's optional types, but for `or`, `orValue`, `.?f` and `[?k]`, which the compiler itself carries out."""

from __future__ import annotations

from kframework.cel.errors import CelError
from kframework.cel.functions import function, generic, generic_method, method
from kframework.cel.values import NONE, Optional, is_zero


def _value(optional: Optional) -> object:
    if optional is NONE:
        raise CelError("optional.none() dereference")
    return optional.value


def _of_non_zero(value: object) -> Optional:
    return NONE if is_zero(value) else Optional(value)


def _unwrapped(items: list[object]) -> list[object]:
    if not all(isinstance(item, Optional) for item in items):
        raise CelError("optional.unwrap of a value that is not optional")
    return [item.value for item in items if isinstance(item, Optional) and item is not NONE]


def _unused(*values: object) -> object:
    raise AssertionError("the compiler carries it out")


OVERLOADS = [
    *function("optional.of", "V -> optional(V)", apply=Optional),
    *function("optional.ofNonZeroValue", "V -> optional(V)", apply=_of_non_zero),
    *function("optional.none", "-> optional(V)", apply=lambda: NONE),
    *method("value", "optional(V) -> V", apply=_value),
    *method("hasValue", "optional(V) -> bool", apply=lambda optional: optional is not NONE),
    *generic_method("or", "optional(V), optional(V) -> optional(V)", apply=_unused),
    *generic_method("orValue", "optional(V), V -> V", apply=_unused),
    *generic("_[?_]", "list(V), int -> optional(V)", "optional(list(V)), int -> optional(V)"),
    *generic("_[?_]", "map(K, V), K -> optional(V)", "optional(map(K, V)), K -> optional(V)"),
    *method("first", "list(V) -> optional(V)", apply=lambda items: Optional(items[0]) if items else NONE),
    *method("last", "list(V) -> optional(V)", apply=lambda items: Optional(items[-1]) if items else NONE),
    *function("optional.unwrap", "list(optional(V)) -> list(V)", apply=_unwrapped),
    *method("unwrapOpt", "list(optional(V)) -> list(V)", apply=_unwrapped),
]
