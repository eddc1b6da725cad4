"""A heap of queued pods whose keys are frozen when they are pushed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from kframework.state.queued_pod import QueuedPod

__all__ = ["Heap"]


class Heap:
    """Queued pods by key, smallest first; equal keys leave in the order in which they came.

    A removed pod's entry stays in the heap until it comes up (lazy deletion), so removal costs nothing.
    """

    def __init__(self) -> None:
        # Keys are what `queue_sort` answers; they only need to compare with each other.
        self._entries: list[tuple[Any, int, QueuedPod]] = []
        self._live: dict[str, tuple[int, QueuedPod]] = {}
        self._pushed = 0

    def push(self, key: object, queued: QueuedPod) -> None:
        """Put a pod in; it must not be in."""
        self._pushed += 1
        self._live[queued.pod.uid] = (self._pushed, queued)
        heapq.heappush(self._entries, (key, self._pushed, queued))

    def pop(self) -> QueuedPod:
        """Take the first pod out; IndexError when there is none."""
        self._settle()
        _, _, queued = heapq.heappop(self._entries)
        del self._live[queued.pod.uid]
        return queued

    def first_key(self) -> object | None:
        """Return the key of the first pod, None when there is none."""
        self._settle()
        return self._entries[0][0] if self._entries else None

    def remove(self, uid: str) -> QueuedPod | None:
        """Take a pod out wherever it stands; None if it is not in."""
        found = self._live.pop(uid, None)
        return found[1] if found is not None else None

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod without taking it out."""
        found = self._live.get(uid)
        return found[1] if found is not None else None

    def _settle(self) -> None:
        entries, live = self._entries, self._live
        while entries and live.get(entries[0][2].pod.uid, (0, None))[0] != entries[0][1]:
            heapq.heappop(entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._live

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _, queued in self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    def __repr__(self) -> str:
        return f"<Heap of {len(self)}>"
