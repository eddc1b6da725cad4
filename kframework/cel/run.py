"""One evaluation: the variables, what loops have in hand, and the cost so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kframework.cel.errors import CelError


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


class Deferred:
    """What a binding stands for, until it is asked for."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step: Step = step
