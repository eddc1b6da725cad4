"""A heap of queued pods whose keys are frozen when they are pushed."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kframework.state.pods import QueuedPod

_Entry = tuple[Any, int, QueuedPod]


class Heap:
    """Queued pods by key, smallest first; equal keys are popped in insertion order.

    Pods that arrive in key order, as most do, are in a deque; the heap holds the others. A removed pod's entry stays
    until it reaches the front or such entries outnumber the pods (lazy deletion). Keys come from plugins: if two cannot
    be compared, `on_incomparable_keys` is called, once, and such keys count as equal.
    """

    def __init__(self, on_incomparable_keys: Callable[[Exception], None]) -> None:
        self._on_incomparable_keys = on_incomparable_keys
        self._uses_safe_keys = False
        # Keys come from `queue_sort`; they should be comparable with each other.
        self._fifo: deque[_Entry] = deque()
        self._entries: list[_Entry] = []
        self._current: dict[str, _Entry] = {}
        self._pushed = 0

    def push(self, key: object, queued: QueuedPod) -> None:
        self._pushed += 1
        entry = (_SafeKey(key) if self._uses_safe_keys else key, self._pushed, queued)
        self._current[queued.pod.uid] = entry
        try:
            if not self._fifo or self._fifo[-1] < entry:
                self._fifo.append(entry)
            else:
                heapq.heappush(self._entries, entry)
        except Exception as error:  # any class may define any comparison
            self._switch_to_safe_keys(error)

    def pop(self) -> QueuedPod | None:
        queued = self.peek()
        if queued is None:
            return None
        entry = self._current.pop(queued.pod.uid)
        if self._fifo and self._fifo[0] is entry:
            self._fifo.popleft()
        else:
            self._drop_first_entry()
        return queued

    def peek(self) -> QueuedPod | None:
        """Return the first pod without removing it, None if there is none."""
        fifo, entries, current = self._fifo, self._entries, self._current
        if fifo and not entries and current.get(fifo[0][2].pod.uid) is fifo[0]:
            return fifo[0][2]  # nearly always
        while fifo and current.get(fifo[0][2].pod.uid) is not fifo[0]:
            fifo.popleft()
        while entries and current.get(entries[0][2].pod.uid) is not entries[0]:
            self._drop_first_entry()
        if not entries:
            return fifo[0][2] if fifo else None
        if not fifo:
            return entries[0][2]
        try:
            return min(fifo[0], entries[0])[2]
        except Exception as error:  # any class may define any comparison
            self._switch_to_safe_keys(error)
            return self.peek()

    def remove(self, uid: str) -> QueuedPod | None:
        entry = self._current.pop(uid, None)
        if entry is None:
            return None
        if len(self._fifo) + len(self._entries) > 2 * len(self._current):
            self._rebuild()
        return entry[2]

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._current.get(uid)
        return entry[2] if entry is not None else None

    def iterate_sorted(self) -> Iterator[QueuedPod]:
        """Yield the pods in pop order, lazily (the first few are cheap); the heap must not change meanwhile."""
        for entry in heapq.merge(self._fifo, self._sorted_entries()):
            if self._current.get(entry[2].pod.uid) is entry:
                yield entry[2]

    def _sorted_entries(self) -> Iterator[_Entry]:
        entries = self._entries
        candidates = [(entries[0], 0)] if entries else []  # entries whose predecessors are all listed
        while candidates:
            entry, index = heapq.heappop(candidates)
            yield entry
            for child in (2 * index + 1, 2 * index + 2):
                if child < len(entries):
                    heapq.heappush(candidates, (entries[child], child))

    def _drop_first_entry(self) -> None:
        try:
            heapq.heappop(self._entries)
        except Exception as error:  # any class may define any comparison
            self._switch_to_safe_keys(error)

    def _switch_to_safe_keys(self, error: Exception) -> None:
        self._on_incomparable_keys(error)
        self._uses_safe_keys = True
        for uid, (key, number, queued) in self._current.items():
            self._current[uid] = (_SafeKey(key), number, queued)
        self._rebuild()

    def _rebuild(self) -> None:
        self._fifo.clear()
        self._entries[:] = self._current.values()
        try:
            heapq.heapify(self._entries)
        except Exception as error:  # any class may define any comparison
            self._switch_to_safe_keys(error)

    def __contains__(self, uid: str) -> bool:
        return uid in self._current

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _, _, queued in self._current.values())

    def __len__(self) -> int:
        return len(self._current)


class _SafeKey:
    """A key that counts as equal to keys that cannot be compared with it."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _SafeKey) -> bool:
        try:
            return bool(self.key < other.key)
        except Exception:  # any class may define any comparison
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SafeKey) and not (self < other or other < self)
