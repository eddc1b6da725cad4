"""Change logs: changed items, mostly rows of the node table, in order, for readers that catch up independently."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

#: The position of a reader that has read nothing yet.
UNREAD = -1


class Log(Generic[T]):
    """A log of changed items, such as row numbers, in order; every `reader` keeps its own position.

    The log keeps at least the last `limit` entries (the length of its table: a reader further behind should rebuild)
    and at most twice as many.
    """

    __slots__ = ("_entries", "_first", "_read", "end", "limit")

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        #: The position after the newest entry.
        self.end: int = 0
        self._entries: list[T] = []
        self._first = 0  # position of self._entries[0]
        self._read = 0  # the furthest position any reader has reached

    def append(self, entry: T) -> None:
        """Note that something, a row for instance, changed."""
        self._entries.append(entry)
        self.end += 1
        if self.end - self._first > 2 * self.limit:
            first = self.end - self.limit
            del self._entries[: first - self._first]
            self._first = first

    def reader(self) -> LogReader[T]:
        """Return a reader that has read nothing yet."""
        return LogReader(self)

    def since(self, position: int) -> list[T] | None:
        """Return the entries since a position, oldest first; None if the log does not reach back that far."""
        self._read = self.end
        index = position - self._first
        return self._entries[index:] if index >= 0 else None

    def discard_since(self, position: int) -> bool:
        """Drop the entries since a position, if no reader has seen them; return whether that was possible."""
        if self._read > position or position < self._first:
            return False
        del self._entries[position - self._first :]
        self.end = position
        return True


class LogReader(Generic[T]):
    """A position in a log; the entries after it are unread.

    It advances only over entries that were read, because `Log.discard_since` may remove the others.
    """

    __slots__ = ("_log", "_position")

    def __init__(self, log: Log[T]) -> None:
        self._log = log
        self._position = UNREAD

    def read_new(self) -> list[T] | None:
        """Return the entries since the last call, oldest first; None if anything may have changed, as at first."""
        log, position = self._log, self._position
        end = log.end
        if position == end:
            return []
        self._position = end
        return log.since(position)

    def restart(self) -> None:
        """Reset the position, as if nothing was read yet."""
        self._position = UNREAD
