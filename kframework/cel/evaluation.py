"""One evaluation: its variables, loops and cost so far, and what carries out a call at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kframework.cel.costs import BY_FUNCTION, one
from kframework.cel.errors import CelError
from kframework.cel.functions import Cost
from kframework.cel.syntax import Call
from kframework.cel.types import Type
from kframework.cel.values import no_such_overload


def carried_out(node: Call) -> Callable[..., object]:
    """Return what carries out a checked call; it raises CelError for values that no overload takes."""
    first = node.overloads[0]
    certain = len(node.overloads) == 1 and not any(_is_vague(child.type) for child in node.children())
    if first.apply is not None and (first.is_generic or certain):
        return first.apply
    function, overloads = node.function, node.overloads

    def apply(*values: object) -> object:
        for overload in overloads:
            if overload.accepts(values) and overload.apply is not None:
                return overload.apply(*values)
        raise no_such_overload(function, values)

    return apply


def cost_of(node: Call) -> Cost:
    """Return what a checked call costs, from its arguments."""
    own = node.overloads[0].cost if len(node.overloads) == 1 else None
    return own or BY_FUNCTION.get(node.function, one)


def _is_vague(type: Type) -> bool:
    return type.is_dynamic or any(map(_is_vague, type.parameters))


class Run:
    """What closures read and write.

    `variables` are those that the environment declares. A slot that holds a CelError holds a loop that has failed so
    far: reading it raises the error.
    """

    __slots__ = ("cost", "handled", "slots", "variables")

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables: Mapping[str, Any] = variables
        self.cost: int = 0
        self.handled: int = 0  # elements and characters that upstream's cost does not tell of
        self.slots: dict[int, object] = {}

    def gathered(self, slot: int) -> object:
        """Return what a loop has gathered or a binding stands for; raises the CelError that stands in its place."""
        value = self.slots[slot]
        if isinstance(value, Deferred):
            try:
                value = value.step(self)
            except CelError as error:
                value = error
            self.slots[slot] = value
        if isinstance(value, CelError):
            raise value
        return value


Step = Callable[[Run], Any]


class Deferred(NamedTuple):
    """What a binding stands for, until it is asked for."""

    step: Step
