"""How a library declares its functions: the signature, what carries it out, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kframework.cel.errors import CelError
from kframework.cel.types import Type, signature
from kframework.cel.values import type_name

#: From the arguments to cost units; a call without one costs 1.
Cost = Callable[..., int]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """A function for one row of parameter types.

    `apply` is None for what the compiler itself carries out. One that is `generic` looks at the types of its arguments
    by itself; of any other the compiler makes sure that they are those of the signature. `cost` counts where this
    overload alone can be meant.
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
        """Return whether the values are of the parameters' types; of a list or a map the first entry speaks for all."""
        return all(map(_is_of, values, self.parameters))


def _declared(
    name: str,
    *signatures: str,
    is_method: bool,
    is_generic: bool,
    apply: Callable[..., object] | None = None,
    cost: Cost | None = None,
) -> list[Overload]:
    overloads = []
    for parameters, result in map(signature, signatures):
        named = frozenset(_parameters_in((*parameters, result)))
        overloads.append(Overload(name, is_method, parameters, result, apply, is_generic, cost, named))
    return overloads


#: Declares a function that is called as `name(…)`.
function: Callable[..., list[Overload]] = partial(_declared, is_method=False, is_generic=False)
#: Declares a function that is called on its first parameter, as `x.name(…)`.
method: Callable[..., list[Overload]] = partial(_declared, is_method=True, is_generic=False)
#: Declares a function or operator that looks at the types of its arguments by itself.
generic: Callable[..., list[Overload]] = partial(_declared, is_method=False, is_generic=True)
#: Declares a method that looks at the types of its arguments by itself.
generic_method: Callable[..., list[Overload]] = partial(_declared, is_method=True, is_generic=True)


def readable(read: Callable[..., object]) -> Callable[..., bool]:
    """Return what tells whether something can be read: whether `read` raises no CelError."""

    def apply(*values: object) -> bool:
        try:
            read(*values)
        except CelError:
            return False
        return True

    return apply


def for_each(types: Iterable[str], signature_of: str) -> list[str]:
    """Return a signature for each type, which takes the place of `T`."""
    return [signature_of.replace("T", name) for name in types]


def _parameters_in(types: Iterable[Type]) -> Iterable[str]:
    for type in types:
        if type.is_parameter:
            yield type.name
        yield from _parameters_in(type.parameters)


def _is_of(value: object, type: Type) -> bool:
    if type.is_dynamic or type.is_parameter:
        return True
    if type.name != type_name(value):
        return False
    if isinstance(value, list):
        return not value or _is_of(value[0], type.parameters[0])
    if isinstance(value, dict):
        return not value or all(map(_is_of, next(iter(value.items())), type.parameters))
    return True
