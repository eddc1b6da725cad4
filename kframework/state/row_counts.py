"""Sparse counts of items per row of the node table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from kframework.objects.label_selectors import Selector

K = TypeVar("K", bound=Hashable)

_NOWHERE: Mapping[int, int] = MappingProxyType({})


def count(rows: dict[int, int], row: int, more: int) -> int:
    """Add to the number of a row and return it; rows with 0 are removed."""
    left = rows.get(row, 0) + more
    if left:
        rows[row] = left
    else:
        del rows[row]
    return left


class RowCounts(Generic[K]):
    """Counts of items per row; only items that occur are stored."""

    def __init__(self) -> None:
        self._rows: dict[K, dict[int, int]] = {}

    def count(self, key: K, row: int, more: int) -> int:
        """Add to the count of an item on a row (negative to subtract); return the new count."""
        rows = self._rows.setdefault(key, {})
        left = count(rows, row, more)
        if not rows:
            del self._rows[key]
        return left

    def rows(self, key: K) -> Mapping[int, int]:
        """Return the counts of an item by row; empty if it does not occur."""
        return self._rows.get(key, _NOWHERE)


T = TypeVar("T")
Pair = tuple[str, str]


def pairs(*selectors: Selector) -> Iterator[Pair]:
    """Yield the labels that a pod must carry to match all of these selectors."""
    for selector in selectors:
        for requirement in selector.requirements:
            if requirement.operator in ("=", "In") and len(requirement.values) == 1:
                yield (requirement.key, requirement.values[0])


def found(by_pair: Mapping[Pair | None, Iterable[T]], labels: Mapping[str, str]) -> Iterator[T]:
    """Yield the items filed under one of these labels, or under none."""
    for key in (None, *labels.items()):
        yield from by_pair.get(key, ())
