"""A device selector, compiled: from its text to whether a device matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kframework.cel.environment import environment
from kframework.cel.errors import CelError
from kframework.cel.functions import generic_method
from kframework.cel.program import Program, compile_program
from kframework.cel.run import Run
from kframework.cel.types import ANY, BOOL, STRING, Type, map_of
from kframework.cel.values import is_among, type_name
from kframework.plugins.dynamic_resources.selectors.device import Device

MOST_VALUES = 48  # ResourceSliceMaxAttributeValuesPerDevice


def _includes(target: object, value: object) -> bool:
    """Ask an attribute for a value, whether it is a list or not."""
    if not isinstance(target, list):
        return is_among(value, [target])
    if is_among(value, target[:MOST_VALUES]):
        return True
    if len(target) > MOST_VALUES:
        raise CelError(f"'includes' function cannot be applied to lists longer than {MOST_VALUES} values")
    return False


_DEVICE = Type("kubernetes.DRADevice")

#: The environment of every expression, the `device` variable, and the one function of the device library.
ENVIRONMENT: Final = environment(
    variables={"device": _DEVICE},
    fields={
        _DEVICE: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, ANY)),
            "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
        }
    },
    overloads=generic_method("includes", "dyn, dyn -> bool", apply=_includes),
)


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
    return Selector(compile_program(expression, ENVIRONMENT, _problem))


def _problem(type: Type) -> str:
    return "" if type in (BOOL, ANY) else f"must evaluate to bool or the unknown type, not {type}"


_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def clauses(expression: str) -> list[str]:
    """Return the clauses of an expression as they are written; it alone where it is no row of `&&`."""
    from kframework.cel.errors import CelError  # loaded with the first selector: most clusters have none

    try:
        ends = list(_ends(expression))
    except CelError:
        ends = []
    bounds = [0, *(bound for end in ends for bound in (end, end + 2)), len(expression)]
    parts = (expression[begin:end].strip() for begin, end in zip(bounds[::2], bounds[1::2], strict=True))
    return [part for part in parts if part]


def _ends(expression: str) -> Iterator[int]:
    """Yield where the outermost `&&` stand; none where something that binds less stands beside them."""
    from kframework.cel.lexer import tokens

    found, depth, before = list[int](), 0, ""
    for kind, _, position in tokens(expression):
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and (kind == "||" or (kind == "?" and before != ".")):
            return
        if depth == 0 and kind == "&&":
            found.append(position)
        before = kind
    yield from found
