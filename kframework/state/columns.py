"""Columns of the node table: one fact of every node, as a NumPy array that grows by doubling."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=Hashable)


#: The number of distinct values from which `count_values` sorts the others.
_MANY_VALUES = 16


def count_values(values: NDArray[np.int64]) -> list[tuple[int, int]]:
    """List the distinct values in ascending order, each with its number.

    np.unique sorts all values: for 1,200 with five distinct ones that takes 75 us instead of 12.
    """
    counts = list[tuple[int, int]]()
    while len(values):
        if len(counts) == _MANY_VALUES:
            distinct, numbers = np.unique(values, return_counts=True)
            counts += zip(distinct.tolist(), numbers.tolist(), strict=True)
            break
        others = values[values != values[0]]
        counts.append((int(values[0]), len(values) - len(others)))
        values = others
    return sorted(counts)


class Column:
    """One int64 per row: `values` for many rows at once, `cells` for one.

    `cells` is a memoryview of the same memory: reading a cell through it takes a quarter
    of the time that a NumPy scalar does (68 ns against 291).
    """

    __slots__ = ("cells", "values", "view")

    values: NDArray[np.int64]
    #: A read-only view of `values`.
    view: NDArray[np.int64]
    cells: memoryview[int]

    def __init__(self, capacity: int) -> None:
        self._hold(np.zeros(capacity, dtype=np.int64))

    def grow(self, capacity: int) -> None:
        """Add rows, which hold 0."""
        grown = np.zeros(capacity, dtype=np.int64)
        grown[: len(self.values)] = self.values
        self._hold(grown)

    def _share(self, other: Column) -> None:
        """Share another column's values, which must not be written through this column."""
        self.values = other.values
        self.view = other.view
        self.cells = other.cells

    def _hold(self, values: NDArray[np.int64]) -> None:
        self.values = values
        self.view = values.view()
        self.view.flags.writeable = False
        self.cells = memoryview(values)  # type: ignore[arg-type]  # an int64 array exports a buffer of ints


class CodeColumn(Column, Generic[T]):
    """A column of interned values: equal values share a small integer; 0 means absent."""

    __slots__ = ("_codes", "meanings")

    def __init__(self, capacity: int, absent: T) -> None:
        super().__init__(capacity)
        self.meanings: list[T] = [absent]
        self._codes: dict[T, int] = {absent: 0}

    def code(self, value: T) -> int:
        """Return the code of a value, giving it one if it is new."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.meanings)
            self.meanings.append(value)
        return code

    def find_code(self, value: T) -> int | None:
        """Return the code of a value, or None if no node ever had it."""
        return self._codes.get(value)

    def map_values(self, rows: slice | NDArray[np.int64], function: Callable[[T], int]) -> NDArray[np.int64]:
        """Call `function` once for each distinct value on these rows, and spread the results over the rows."""
        codes = self.values[rows]
        results = np.zeros(len(self.meanings), dtype=np.int64)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            results[code] = function(self.meanings[code])
        return results[codes]

    def compact(self) -> NDArray[np.int64]:
        """Drop unused values; return the old codes of the others in the order of their new codes."""
        used = np.unique(self.values[self.values > 0])
        new_codes = np.zeros(len(self.meanings), dtype=np.int64)
        new_codes[used] = np.arange(1, len(used) + 1)
        self.values[:] = new_codes[self.values]
        self.meanings = [self.meanings[0], *(self.meanings[code] for code in used.tolist())]
        self._codes = {meaning: code for code, meaning in enumerate(self.meanings)}
        return used
