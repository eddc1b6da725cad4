"""The last records of one kind, as many as may be kept: memory that does not grow, however much they say."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

R = TypeVar("R")


class LastRecords(Generic[R]):
    """Keeps the last records that weigh no more than `most` together, and the very last one whatever it weighs."""

    def __init__(self, most: int, weight: Callable[[R], int]) -> None:
        self._most = most
        self._weigh = weight
        self._records: deque[R] = deque()
        self._weight = 0

    def put(self, record: R) -> Sequence[R]:
        """Keep a record, and return those that are forgotten for it, the oldest first."""
        self._records.append(record)
        self._weight += self._weigh(record)
        if self._weight <= self._most:
            return ()
        return list(self._make_room())

    def _make_room(self) -> Iterator[R]:
        while self._weight > self._most and len(self._records) > 1:
            oldest = self._records.popleft()
            self._weight -= self._weigh(oldest)
            yield oldest

    def recent(self, count: int) -> list[R]:
        """Return so many of the last records, the newest first."""
        return list(itertools.islice(reversed(self._records), count))

    def __iter__(self) -> Iterator[R]:
        """Go through all that are kept, the newest first."""
        return reversed(self._records)

    def __len__(self) -> int:
        return len(self._records)
