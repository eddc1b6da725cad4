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
    be compared, `unsortable` is called, once, and such keys count as equal.
    """

    def __init__(self, on_incomparable_keys: Callable[[Exception], None]) -> None:
        self._unsortable = on_incomparable_keys
        self._forgiving = False
        # Keys come from `queue_sort`; they should be comparable with each other.
        self._line: deque[_Entry] = deque()
        self._entries: list[_Entry] = []
        self._live: dict[str, _Entry] = {}
        self._pushed = 0

    def push(self, key: object, queued: QueuedPod) -> None:
        """Add a pod; it must not be in the heap."""
        self._pushed += 1
        entry = (_Forgiving(key) if self._forgiving else key, self._pushed, queued)
        self._live[queued.pod.uid] = entry
        try:
            if not self._line or self._line[-1] < entry:
                self._line.append(entry)
            else:
                heapq.heappush(self._entries, entry)
        except Exception as error:  # any class may define any comparison
            self._forgive(error)

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod, None if there is none."""
        queued = self.first()
        if queued is None:
            return None
        entry = self._live.pop(queued.pod.uid)
        if self._line and self._line[0] is entry:
            self._line.popleft()
        else:
            self._drop_first_entry()
        return queued

    def first(self) -> QueuedPod | None:
        """Return the first pod without removing it, None if there is none."""
        line, entries, live = self._line, self._entries, self._live
        while line and live.get(line[0][2].pod.uid) is not line[0]:
            line.popleft()
        while entries and live.get(entries[0][2].pod.uid) is not entries[0]:
            self._drop_first_entry()
        if not entries:
            return line[0][2] if line else None
        if not line:
            return entries[0][2]
        try:
            return min(line[0], entries[0])[2]
        except Exception as error:  # any class may define any comparison
            self._forgive(error)
            return self.first()

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod and return it; None if it is not in the heap."""
        found = self._live.pop(uid, None)
        if found is None:
            return None
        if len(self._line) + len(self._entries) > 2 * len(self._live):
            self._rebuild()
        return found[2]

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod without taking it out."""
        found = self._live.get(uid)
        return found[2] if found is not None else None

    def in_order(self) -> Iterator[QueuedPod]:
        """Yield the pods in pop order, lazily.

        The first few of many are cheap; the heap must not change meanwhile.
        """
        for entry in heapq.merge(self._line, self._sorted_entries()):
            if self._live.get(entry[2].pod.uid) is entry:
                yield entry[2]

    def _sorted_entries(self) -> Iterator[_Entry]:
        entries = self._entries
        ahead = [(entries[0], 0)] if entries else []  # entries whose predecessors are all listed
        while ahead:
            entry, place = heapq.heappop(ahead)
            yield entry
            for below in (2 * place + 1, 2 * place + 2):
                if below < len(entries):
                    heapq.heappush(ahead, (entries[below], below))

    def _drop_first_entry(self) -> None:
        try:
            heapq.heappop(self._entries)
        except Exception as error:  # any class may define any comparison
            self._forgive(error)

    def _forgive(self, error: Exception) -> None:
        self._unsortable(error)
        self._forgiving = True
        for uid, (key, number, queued) in self._live.items():
            self._live[uid] = (_Forgiving(key), number, queued)
        self._rebuild()

    def _rebuild(self) -> None:
        self._line.clear()
        self._entries[:] = self._live.values()
        try:
            heapq.heapify(self._entries)
        except Exception as error:  # any class may define any comparison
            self._forgive(error)

    def __contains__(self, uid: str) -> bool:
        return uid in self._live

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _, _, queued in self._live.values())

    def __len__(self) -> int:
        return len(self._live)


class _Forgiving:
    """A key that equals those with which it does not compare."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _Forgiving) -> bool:
        try:
            return bool(self.key < other.key)
        except Exception:  # any class may define any comparison
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Forgiving) and not (self < other or other < self)
