"""An explanation that prints itself."""

from __future__ import annotations

from html import escape

import msgspec

from kframework.explain.explanation import Explanation
from kframework.explain.text import text_of


class Explained:
    """Why a pod waits or is where it is, and what would help; `explanation` has all of it as values."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation: Explanation = explanation

    def to_dict(self) -> dict[str, object]:
        """Return all that is known, as `kframework explain -o json` prints it."""
        found: dict[str, object] = msgspec.to_builtins(self.explanation)
        return found

    def __str__(self) -> str:
        return text_of(self.explanation)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the text as a notebook shows it."""
        return f"<pre>{escape(str(self))}</pre>"
