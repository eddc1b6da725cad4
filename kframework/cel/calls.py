"""What carries out a call: the one function that is meant, or the one that the values' types tell at run time."""

from __future__ import annotations

from collections.abc import Callable

from kframework.cel.costs import BY_FUNCTION, one
from kframework.cel.functions import Cost, Overload
from kframework.cel.syntax import Call
from kframework.cel.types import Type
from kframework.cel.values import no_such_overload


def carried_out(node: Call) -> Callable[..., object]:
    """Return what carries out a checked call; it raises CelError for values that no overload takes."""
    first = node.overloads[0]
    certain = len(node.overloads) == 1 and not any(_is_vague(child.type) for child in node.children())
    if first.apply is not None and (first.is_generic or certain):
        return first.apply
    return _chosen_at_run_time(node.function, node.overloads)


def cost_of(node: Call) -> Cost:
    """Return what a checked call costs, from its arguments."""
    own = node.overloads[0].cost if len(node.overloads) == 1 else None
    return own or BY_FUNCTION.get(node.function, one)


def _is_vague(type: Type) -> bool:
    return type.is_dynamic or any(map(_is_vague, type.parameters))


def _chosen_at_run_time(function: str, overloads: tuple[Overload, ...]) -> Callable[..., object]:
    def apply(*values: object) -> object:
        for overload in overloads:
            if overload.accepts(values) and overload.apply is not None:
                return overload.apply(*values)
        raise no_such_overload(function, values)

    return apply
