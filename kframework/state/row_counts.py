"""Something that occurs on rows of the node table, counted where it does."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from kframework.objects.label_selectors import Selector

K = TypeVar("K", bound=Hashable)

_NOWHERE: Mapping[int, int] = MappingProxyType({})


def count(rows: dict[int, int], row: int, more: int) -> int:
    """Add to the number of a row and return it; rows whose number is 0 are left out."""
    left = rows.get(row, 0) + more
    if left:
        rows[row] = left
    else:
        del rows[row]
    return left


class RowCounts(Generic[K]):
    """How often things occur on which rows; only those that occur somewhere are known."""

    def __init__(self) -> None:
        self._rows: dict[K, dict[int, int]] = {}

    def count(self, key: K, row: int, more: int) -> int:
        """Note that a thing occurs so many times more (or, negative, fewer) on a row; return how often it does now."""
        rows = self._rows.setdefault(key, {})
        left = count(rows, row, more)
        if not rows:
            del self._rows[key]
        return left

    def rows(self, key: K) -> Mapping[int, int]:
        """Return how often a thing occurs, by row; empty if it does nowhere."""
        return self._rows.get(key, _NOWHERE)


T = TypeVar("T")
Pair = tuple[str, str]


def pairs(*selectors: Selector) -> Iterator[Pair]:
    """Yield the labels that pods must carry to be chosen by all of these."""
    for selector in selectors:
        for requirement in selector.requirements:
            if requirement.operator in ("=", "In") and len(requirement.values) == 1:
                yield (requirement.key, requirement.values[0])


def found(by_pair: Mapping[Pair | None, Iterable[T]], labels: Mapping[str, str]) -> Iterator[T]:
    """List what is filed under one of these labels, or under none."""
    for key in (None, *labels.items()):
        yield from by_pair.get(key, ())
