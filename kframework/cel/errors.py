"""What is wrong with an expression: that it does not compile, or what went wrong when it was evaluated."""

from __future__ import annotations

from kframework.errors import KFrameworkError


class CelError(KFrameworkError):
    """Raised for an expression that does not compile, and for one that fails when it is evaluated.

    `text` says what is wrong. `position` is the character of `expression` that it is about; at run time it is None.
    """

    def __init__(self, text: str, position: int | None = None, expression: str = "") -> None:
        super().__init__(text)
        self.text: str = text
        self.position: int | None = position
        self.expression: str = expression

    def within(self, expression: str) -> CelError:
        """Return the same error, of this expression."""
        return CelError(self.text, self.position, expression)

    def __str__(self) -> str:
        """Write it as cel-go does: with the line, and a mark under the character."""
        if self.position is None:
            return self.text
        before = self.expression[: self.position]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        source = self.expression.split("\n")[line]
        return f"ERROR: <input>:{line + 1}:{column + 1}: {self.text}\n | {source}\n | {'.' * column}^"


class CostLimitExceeded(Exception):
    """Raised where an evaluation costs more than it may: nothing absorbs that, while `true || e` absorbs a CelError."""
