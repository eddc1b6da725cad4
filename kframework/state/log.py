"""Change logs: what changed, rows of the node table mostly, in order, for readers that catch up at their own pace."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

#: The position of a reader that has read nothing yet.
NEVER = -1


class Log(Generic[T]):
    """What changed, such as row numbers, in the order of the changes; every `reader` keeps its own position.

    The log keeps at least the last `limit` entries (the length of its table: a reader further behind than that is
    better off rebuilding) and at most twice as many.
    """

    __slots__ = ("_entries", "_first", "_read", "end", "limit")

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        #: The position after the newest entry.
        self.end: int = 0
        self._entries: list[T] = []
        self._first = 0  # position of self._entries[0]
        self._read = 0  # the furthest position any reader has reached

    def append(self, changed: T) -> None:
        """Note that something, a row for instance, changed."""
        entries = self._entries
        entries.append(changed)
        self.end += 1
        if len(entries) > 2 * self.limit:
            dropped = len(entries) - self.limit
            del entries[:dropped]
            self._first += dropped

    def reader(self) -> LogReader[T]:
        """Return a reader that has read nothing yet."""
        return LogReader(self)

    def since(self, position: int) -> list[T] | None:
        """Return what changed since a position, oldest first; None when the log does not reach back so far."""
        self._read = self.end
        behind = position - self._first
        return self._entries[behind:] if behind >= 0 else None

    def cut(self, position: int) -> bool:
        """Forget the entries since a position, if no reader has seen them; tell whether that was possible."""
        if self._read > position or position < self._first:
            return False
        del self._entries[position - self._first :]
        self.end = position
        return True


class LogReader(Generic[T]):
    """A place in a log: what comes after it is still to be read.

    It never moves past what was not asked for, which `Log.cut` does not spare.
    """

    __slots__ = ("_log", "_position")

    def __init__(self, log: Log[T]) -> None:
        self._log = log
        self._position = NEVER

    def changed(self) -> list[T] | None:
        """Return what changed since the last time, oldest first; None where anything may have, as at first."""
        log, position = self._log, self._position
        end = log.end
        if position == end:
            return []
        self._position = end
        return log.since(position)

    def restart(self) -> None:
        """Have read nothing yet."""
        self._position = NEVER
