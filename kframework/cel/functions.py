"""Declarations of functions: signature, implementation and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kframework.cel.errors import CelError
from kframework.cel.types import Type, parse_signature
from kframework.cel.values import type_name

#: Computes a cost from the arguments; calls without one cost 1.
Cost = Callable[..., int]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """A function for one list of parameter types.

    `apply` is None if the compiler implements it. A `generic` function checks the types of its arguments itself; for
    others the compiler ensures that they match the signature. `cost` applies if no other overload is possible.
    """

    function: str
    is_method: bool
    parameters: tuple[Type, ...]
    result: Type
    apply: Callable[..., object] | None
    is_generic: bool = False
    cost: Cost | None = None
    type_parameters: frozenset[str] = field(default=frozenset())

    def accepts(self, values: Sequence[object]) -> bool:
        """Return whether the values have the parameters' types, judged by the first entry of a list or map."""
        return all(map(_has_type, values, self.parameters))


def _declare(
    name: str,
    *signatures: str,
    is_method: bool,
    is_generic: bool,
    apply: Callable[..., object] | None = None,
    cost: Cost | None = None,
) -> list[Overload]:
    overloads = []
    for parameters, result in map(parse_signature, signatures):
        type_parameters = frozenset(_type_parameters((*parameters, result)))
        overloads.append(Overload(name, is_method, parameters, result, apply, is_generic, cost, type_parameters))
    return overloads


#: Declares a function called as `name(…)`.
function: Callable[..., list[Overload]] = partial(_declare, is_method=False, is_generic=False)
#: Declares a method called on its first parameter, as `x.name(…)`.
method: Callable[..., list[Overload]] = partial(_declare, is_method=True, is_generic=False)
#: Declares a function or operator that checks the types of its arguments itself.
generic: Callable[..., list[Overload]] = partial(_declare, is_method=False, is_generic=True)
#: Declares a method that checks the types of its arguments itself.
generic_method: Callable[..., list[Overload]] = partial(_declare, is_method=True, is_generic=True)


def can_parse(read: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that tests whether `read` accepts values without a CelError."""

    def apply(*values: object) -> bool:
        try:
            read(*values)
        except CelError:
            return False
        return True

    return apply


def signatures_for(types: Iterable[str], template: str) -> list[str]:
    """Return a signature per type, with `T` replaced."""
    return [template.replace("T", name) for name in types]


def _type_parameters(types: Iterable[Type]) -> Iterable[str]:
    for type in types:
        if type.is_parameter:
            yield type.name
        yield from _type_parameters(type.parameters)


def _has_type(value: object, type: Type) -> bool:
    if type.is_dynamic or type.is_parameter:
        return True
    if type.name != type_name(value):
        return False
    if isinstance(value, list):
        return not value or _has_type(value[0], type.parameters[0])
    if isinstance(value, dict):
        return not value or all(map(_has_type, next(iter(value.items())), type.parameters))
    return True
