"""The changes that attempts make to the tables, so that these can be looked at as they were before.

Only what attempts change is recorded. Messages change the tables for good: look back before the next is applied.
"""

from __future__ import annotations

from collections.abc import Callable

#: A function that undoes a change, and one that makes it again.
Change = tuple[Callable[[], object], Callable[[], object]]


class UndoLog:
    """The changes since it was opened, in order; nothing is recorded while it is closed.

    A table checks `is_open` when it changes, and records functions that leave it exactly as it was, and as it is now.
    """

    __slots__ = ("_changes", "is_open")

    def __init__(self) -> None:
        self.is_open: bool = False
        self._changes: list[Change] = []

    def record(self, undo: Callable[[], object], redo: Callable[[], object]) -> None:
        self._changes.append((undo, redo))

    def __len__(self) -> int:
        return len(self._changes)

    def close(self) -> list[Change]:
        """Record nothing more, and return the changes."""
        changes, self._changes, self.is_open = self._changes, [], False
        return changes

    def undo(self) -> None:
        """Close it, and undo the changes, the last one first."""
        for undo, _ in reversed(self.close()):
            undo()


class LookBack:
    """A view of the tables as they were before these changes; in the end all are made again."""

    def __init__(self, changes: list[Change]) -> None:
        self._changes = changes
        self._position = len(changes)

    def __enter__(self) -> LookBack:
        for undo, _ in reversed(self._changes):
            undo()
        self._position = 0
        return self

    def advance(self, position: int) -> None:
        """Make the changes up to this position again."""
        for _, redo in self._changes[self._position : position]:
            redo()
        self._position = max(position, self._position)

    def __exit__(self, *error: object) -> None:
        self.advance(len(self._changes))
