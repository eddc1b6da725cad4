"""Errors of CEL expressions, at compile time or in an evaluation."""

from __future__ import annotations

from kframework.errors import KFrameworkError


class CelError(KFrameworkError):
    """Raised for an expression that does not compile, or that fails when evaluated.

    `position` is an index into `expression`; None in an evaluation.
    """

    def __init__(self, text: str, position: int | None = None, expression: str = "") -> None:
        super().__init__(text)
        self.text: str = text
        self.position: int | None = position
        self.expression: str = expression

    def with_expression(self, expression: str) -> CelError:
        return CelError(self.text, self.position, expression)

    def __str__(self) -> str:
        """Format as cel-go does, with the line and a mark under the character."""
        if self.position is None:
            return self.text
        before = self.expression[: self.position]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        source = self.expression.split("\n")[line]
        return f"ERROR: <input>:{line + 1}:{column + 1}: {self.text}\n | {source}\n | {'.' * column}^"


class CostLimitExceeded(Exception):
    """Raised when an evaluation exceeds its cost limit; unlike CelError, `true || e` does not absorb it."""
