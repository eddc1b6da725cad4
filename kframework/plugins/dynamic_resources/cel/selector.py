"""A device selector, compiled: from its text to whether a device matches."""

from __future__ import annotations

from typing import Final

from kframework.plugins.dynamic_resources.cel.checker import check
from kframework.plugins.dynamic_resources.cel.compiler import compile_tree
from kframework.plugins.dynamic_resources.cel.costs import LIMIT
from kframework.plugins.dynamic_resources.cel.device import Device
from kframework.plugins.dynamic_resources.cel.environment import ENVIRONMENT
from kframework.plugins.dynamic_resources.cel.errors import CelError, CostLimitExceeded
from kframework.plugins.dynamic_resources.cel.folding import fold
from kframework.plugins.dynamic_resources.cel.parser import parse
from kframework.plugins.dynamic_resources.cel.run import Run, Step
from kframework.plugins.dynamic_resources.cel.types import ANY, BOOL
from kframework.plugins.dynamic_resources.cel.validation import validate
from kframework.plugins.dynamic_resources.cel.values import type_name

_TOO_DEEP: Final = "expression recursion limit exceeded"
_TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"


class Selector:
    """A compiled expression."""

    __slots__ = ("_step", "expression")

    def __init__(self, expression: str, step: Step) -> None:
        self.expression: str = expression
        self._step = step

    def matches(self, device: Device) -> bool:
        """Return whether a device matches; raises CelError where that cannot be said."""
        return self.evaluate(device, Run(device.fields))

    def evaluate(self, device: Device, run: Run) -> bool:
        """Return the same, and leave in the run what it cost; raises CelError."""
        if device.failure is not None:
            raise device.failure.within(self.expression)
        try:
            value = self._step(run)
        except CelError as error:
            raise CelError(error.text, None, self.expression) from None
        except CostLimitExceeded:
            raise CelError(_TOO_COSTLY, None, self.expression) from None
        except RecursionError:  # where the caller's own stack is deep already
            raise CelError(_TOO_DEEP, None, self.expression) from None
        if run.cost > LIMIT:
            raise CelError(_TOO_COSTLY, None, self.expression)
        if value is True or value is False:
            return bool(value)
        text = f"CEL result of type {type_name(value)} could not be converted to bool"
        raise CelError(text, None, self.expression)


def compile_selector(expression: str) -> Selector:
    """Compile a selector as Kubernetes 1.36 does; raises CelError."""
    try:
        root = parse(expression)
        check(root, ENVIRONMENT)
        validate(root)
        if root.type not in (BOOL, ANY):
            raise CelError(f"must evaluate to bool or the unknown type, not {root.type}")
        return Selector(expression, compile_tree(fold(root, ENVIRONMENT)))
    except CelError as error:
        raise error.within(expression) from None
    except RecursionError:  # where the caller's own stack is deep already
        raise CelError(_TOO_DEEP, None, expression) from None
