"""Whose turn it is: a heap whose keys are worked out when something is put in."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kframework_batch.hookspecs import Key

T = TypeVar("T")


class Turns(Generic[T]):
    """Queues or jobs in the order of their keys, lowest first; of equal keys the one that was put in first.

    A key stays as it was when its thing was put in. So what has had its turn is put in again, under a new key.
    """

    def __init__(self, key: Callable[[T], tuple[Key, ...]], things: Iterable[T] = ()) -> None:
        self._key = key
        self._count = 0
        self._heap: list[tuple[tuple[Key, ...], int, T]] = []
        for thing in things:
            self.put(thing)

    def put(self, thing: T) -> None:
        """Put something in, by its key as it is now."""
        self._count += 1
        heapq.heappush(self._heap, (self._key(thing), self._count, thing))

    def take(self) -> T:
        """Take out whose turn it is; IndexError if there is nothing."""
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)

    def __repr__(self) -> str:
        return f"<Turns of {len(self)}>"
