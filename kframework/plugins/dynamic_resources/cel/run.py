"""One evaluation: the device, what loops have in hand, and the cost so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kframework.plugins.dynamic_resources.cel.errors import CelError


class Run:
    """What closures read and write.

    `device` holds the fields of the `device` variable. A slot that holds a CelError holds a loop that has failed so
    far: reading it raises the error.
    """

    __slots__ = ("cost", "device", "handled", "slots")

    def __init__(self, device: Mapping[str, Any]) -> None:
        self.device: Mapping[str, Any] = device
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
