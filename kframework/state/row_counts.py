"""Sparse counts of items per row of the node table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from kframework.objects.label_selectors import Selector

K = TypeVar("K", bound=Hashable)

_NO_ROWS: Mapping[int, int] = MappingProxyType({})


def add_to_row(rows: dict[int, int], row: int, delta: int) -> int:
    """Add to the number of a row and return it; rows with 0 are removed."""
    number = rows.get(row, 0) + delta
    if number:
        rows[row] = number
    else:
        del rows[row]
    return number


class RowCounts(Generic[K]):
    """Counts of items per row; only items that occur are stored."""

    def __init__(self) -> None:
        self._rows: dict[K, dict[int, int]] = {}

    def add(self, key: K, row: int, delta: int) -> int:
        """Add to the count of an item on a row (negative to subtract); return the new count."""
        rows = self._rows.setdefault(key, {})
        number = add_to_row(rows, row, delta)
        if not rows:
            del self._rows[key]
        return number

    def rows(self, key: K) -> Mapping[int, int]:
        """Return the counts of an item by row; empty if it does not occur."""
        return self._rows.get(key, _NO_ROWS)


T = TypeVar("T")
LabelPair = tuple[str, str]


def required_labels(*selectors: Selector) -> Iterator[LabelPair]:
    """Yield the labels that a pod must carry to match all of these selectors."""
    for selector in selectors:
        for requirement in selector.requirements:
            if requirement.operator in ("=", "In") and len(requirement.values) == 1:
                yield (requirement.key, requirement.values[0])


def lookup(by_label: Mapping[LabelPair | None, Iterable[T]], labels: Mapping[str, str]) -> Iterator[T]:
    """Yield the items filed under one of these labels, or under none."""
    for key in (None, *labels.items()):
        yield from by_label.get(key, ())
