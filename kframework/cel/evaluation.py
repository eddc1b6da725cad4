"""The state of one evaluation, and the choice of a call's implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kframework.cel.costs import BY_FUNCTION, constant
from kframework.cel.errors import CelError
from kframework.cel.functions import Cost
from kframework.cel.syntax import Call
from kframework.cel.types import Type
from kframework.cel.values import no_such_overload


def find_implementation(node: Call) -> Callable[..., object]:
    """Return the implementation of a checked call; it raises CelError for values that match no overload."""
    first = node.overloads[0]
    is_certain = len(node.overloads) == 1 and not any(_has_dynamic_part(child.type) for child in node.children())
    if first.apply is not None and (first.is_generic or is_certain):
        return first.apply
    function, overloads = node.function, node.overloads

    def apply(*values: object) -> object:
        for overload in overloads:
            if overload.accepts(values) and overload.apply is not None:
                return overload.apply(*values)
        raise no_such_overload(function, values)

    return apply


def find_cost(node: Call) -> Cost:
    own = node.overloads[0].cost if len(node.overloads) == 1 else None
    return own or BY_FUNCTION.get(node.function, constant)


def _has_dynamic_part(type: Type) -> bool:
    return type.is_dynamic or any(map(_has_dynamic_part, type.parameters))


class Evaluation:
    """The state of one evaluation.

    `variables` are those of the environment. A slot holds a CelError if the last step of its loop failed; reading it
    raises the error.
    """

    __slots__ = ("cost", "handled", "slots", "variables")

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables: Mapping[str, Any] = variables
        self.cost: int = 0
        self.handled: int = 0  # elements and characters that upstream's cost does not include
        self.slots: dict[int, object] = {}

    def read_accumulator(self, slot: int) -> object:
        """Return the accumulator of a loop or the value of a binding; raises the CelError in its slot."""
        value = self.slots[slot]
        if isinstance(value, DeferredValue):
            try:
                value = value.step(self)
            except CelError as error:
                value = error
            self.slots[slot] = value
        if isinstance(value, CelError):
            raise value
        return value


Step = Callable[[Evaluation], Any]


class DeferredValue(NamedTuple):
    """A binding's value before its first use."""

    step: Step
