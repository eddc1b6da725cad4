"""A device selector, compiled: from its text to whether a device matches."""

from __future__ import annotations

from kframework.cel.errors import CelError
from kframework.cel.program import Program, compile_program
from kframework.cel.run import Run
from kframework.cel.types import ANY, BOOL, Type
from kframework.cel.values import type_name
from kframework.plugins.dynamic_resources.selectors.device import Device
from kframework.plugins.dynamic_resources.selectors.environment import ENVIRONMENT


class Selector:
    """A compiled expression."""

    __slots__ = ("_program", "expression")

    def __init__(self, program: Program) -> None:
        self.expression: str = program.expression
        self._program = program

    def matches(self, device: Device) -> bool:
        """Return whether a device matches; raises CelError where that cannot be said."""
        return self.evaluate(device, Run(device.variables))

    def evaluate(self, device: Device, run: Run) -> bool:
        """Return the same, and leave in the run what it cost; raises CelError."""
        if device.failure is not None:
            raise device.failure.within(self.expression)
        value = self._program.evaluate(run)
        if value is True or value is False:
            return bool(value)
        text = f"CEL result of type {type_name(value)} could not be converted to bool"
        raise CelError(text, None, self.expression)


def compile_selector(expression: str) -> Selector:
    """Compile a selector as Kubernetes 1.36 does; raises CelError."""
    return Selector(compile_program(expression, ENVIRONMENT, _complaint))


def _complaint(type: Type) -> str:
    return "" if type in (BOOL, ANY) else f"must evaluate to bool or the unknown type, not {type}"
