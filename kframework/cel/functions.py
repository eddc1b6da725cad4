"""How a library declares its functions: the signature, what carries it out, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

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


def function(
    name: str, *signatures: str, apply: Callable[..., object] | None = None, cost: Cost | None = None
) -> list[Overload]:
    """Declare a function that is called as `name(…)`."""
    return [_overload(name, False, text, apply, False, cost) for text in signatures]


def method(
    name: str, *signatures: str, apply: Callable[..., object] | None = None, cost: Cost | None = None
) -> list[Overload]:
    """Declare a function that is called on its first parameter, as `x.name(…)`."""
    return [_overload(name, True, text, apply, False, cost) for text in signatures]


def generic(
    name: str, *signatures: str, apply: Callable[..., object] | None = None, cost: Cost | None = None
) -> list[Overload]:
    """Declare a function or operator that looks at the types of its arguments by itself."""
    return [_overload(name, False, text, apply, True, cost) for text in signatures]


def generic_method(
    name: str, *signatures: str, apply: Callable[..., object], cost: Cost | None = None
) -> list[Overload]:
    """Declare a method that looks at the types of its arguments by itself."""
    return [_overload(name, True, text, apply, True, cost) for text in signatures]


def for_each(types: Iterable[str], signature_of: str) -> list[str]:
    """Return a signature for each type, which takes the place of `T`."""
    return [signature_of.replace("T", name) for name in types]


def _overload(
    name: str, is_method: bool, text: str, apply: Callable[..., object] | None, is_generic: bool, cost: Cost | None
) -> Overload:
    parameters, result = signature(text)
    named = frozenset(_parameters_in((*parameters, result)))
    return Overload(name, is_method, parameters, result, apply, is_generic, cost, named)


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
