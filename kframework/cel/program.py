"""An expression, compiled: from its text to what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kframework.cel.checker import Environment, check
from kframework.cel.compiler import compile_tree
from kframework.cel.costs import LIMIT
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.folding import fold
from kframework.cel.parser import parse
from kframework.cel.run import Run, Step
from kframework.cel.syntax import Ident, Node, walk
from kframework.cel.types import Type
from kframework.cel.validation import validate

_TOO_DEEP: Final = "expression recursion limit exceeded"
TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"


class Program:
    """A compiled expression, of a type that the checker found; `names` are the variables that it reads."""

    __slots__ = ("_step", "expression", "names", "type")

    def __init__(self, expression: str, type: Type, names: frozenset[str], step: Step) -> None:
        self.expression: str = expression
        self.type: Type = type
        self.names: frozenset[str] = names
        self._step = step

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.expression!r}: {self.type}>"

    def evaluate(self, run: Run) -> object:
        """Return what it comes to, and leave in the run what it cost; raises CelError."""
        try:
            value: object = self._step(run)
        except CelError as error:
            raise CelError(error.text, None, self.expression) from None
        except CostLimitExceeded:
            raise CelError(TOO_COSTLY, None, self.expression) from None
        except RecursionError:  # where the caller's own stack is deep already
            raise CelError(_TOO_DEEP, None, self.expression) from None
        if run.cost > LIMIT:
            raise CelError(TOO_COSTLY, None, self.expression)
        return value


def compile_program(expression: str, environment: Environment, problem: Callable[[Type], str]) -> Program:
    """Compile an expression as Kubernetes 1.36 does; raises CelError.

    `problem` says what is wrong with the type that it is of, nothing where that is right.
    """
    try:
        root = parse(expression)
        check(root, environment)
        validate(root)
        if said := problem(root.type):
            raise CelError(said)
        names = frozenset(node.name for node, _ in walk(root) if isinstance(node, Ident)) & environment.variables.keys()
        return Program(expression, root.type, names, _step(root, environment))
    except CelError as error:
        raise error.within(expression) from None
    except RecursionError:  # where the caller's own stack is deep already
        raise CelError(_TOO_DEEP, None, expression) from None


def _step(root: Node, environment: Environment) -> Step:
    try:
        return compile_tree(fold(root, environment))
    except CelError as error:
        raise CelError(f"program instantiation failed: {error.text}") from None
