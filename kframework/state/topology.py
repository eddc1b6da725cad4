"""Topologies: the domains that the values of a node label make, and numbers that are kept per domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

import numpy as np

from kframework.state.columns import CodeColumn, Column

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Tally(Column):
    """A number per domain, indexed by the codes of its topology; rows without the label have no domain.

    `total` is their sum. `values` is as long as the topology has room for codes, and 0 at code 0.
    """

    __slots__ = ("__weakref__", "total")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.total: int = 0

    def add(self, code: int, delta: int) -> None:
        if code:
            self.cells[code] += delta
            self.total += delta


class TallyOwner(Protocol):
    """An owner of a tally on a topology, derived from its numbers per row."""

    def on_row(self, row: int) -> int: ...

    def domains(self, topology: Topology) -> Tally: ...


class LabelKeys(dict[str, int]):
    """The number of nodes with each label, by key; `version` counts the keys added and removed."""

    def __init__(self) -> None:
        super().__init__()
        self.version: int = 0

    def replace(self, old: Iterable[str], new: Iterable[str]) -> None:
        """Replace the labels of a node."""
        for key in new:
            self[key] = self.get(key, 0) + 1
            self.version += self[key] == 1
        for key in old:
            self[key] -= 1
            if not self[key]:
                del self[key]
                self.version += 1


class Topology(CodeColumn[str | None]):
    """A label's values per row, interned: equal codes are one domain, 0 means without the label.

    While no node has the label its column is shared with all such topologies, since terms and spread constraints may
    name any number of them.
    """

    __slots__ = ("__weakref__", "_domains", "_empty", "_positions", "code_capacity", "key", "sizes", "tally_owners")

    def __init__(self, key: str, empty: Column) -> None:
        super().__init__(0, None)
        self._empty: Column | None = empty
        self._share(empty)
        self.key: str = key
        #: The number of codes that tallies have room for.
        self.code_capacity: int = 64
        #: The number of nodes in each domain.
        self.sizes: Tally = Tally(self.code_capacity)
        self._domains: NDArray[np.int64] | None = None
        #: The node order, the positions in it sorted by domain, and where those of each domain begin.
        self._positions: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None
        #: The owners of tallies to keep current, as long as they live.
        self.tally_owners: WeakSet[TallyOwner] = WeakSet()

    @property
    def occupied(self) -> NDArray[np.int64]:
        """The codes of the domains that have nodes, in order."""
        if self._domains is None:
            self._domains = np.flatnonzero(self.sizes.values)
        return self._domains

    def positions(self, code: int, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions in node order of the nodes in a domain."""
        if self._positions is None or self._positions[0] is not order:
            codes = self.values[order]
            starts = np.concatenate(([0], np.bincount(codes, minlength=self.code_capacity).cumsum()))
            self._positions = order, codes.argsort(kind="stable"), starts
        _, positions, starts = self._positions
        return positions[starts[code] : starts[code + 1]]

    def grow(self, capacity: int) -> None:
        if self._empty is None:
            super().grow(capacity)
        else:
            self._share(self._empty)

    def code(self, value: str | None) -> int:
        code = super().code(value)
        if code == self.code_capacity:
            self.code_capacity *= 2
            self._positions = None
            self.sizes.grow(self.code_capacity)
            for owner in self.tally_owners:
                owner.domains(self).grow(self.code_capacity)
        return code

    def put(self, row: int, value: str | None) -> None:
        """Set a row's value, None to remove it; tallies are updated."""
        old, new = self.cells[row], self.code(value)
        if old == new:
            return
        if self._empty is not None:
            self._empty = None
            self._hold(self.values.copy())
        self.cells[row] = new
        self.sizes.add(old, -1)
        self.sizes.add(new, 1)
        self._domains = self._positions = None
        for owner in self.tally_owners:
            amount = owner.on_row(row)
            if amount:
                tally = owner.domains(self)
                tally.add(old, -amount)
                tally.add(new, amount)

    def compact(self) -> NDArray[np.int64]:
        used = super().compact()
        for tally in (self.sizes, *(owner.domains(self) for owner in self.tally_owners)):
            tally.values[1 : len(used) + 1] = tally.values[used]
            tally.values[len(used) + 1 :] = 0
        self._domains = self._positions = None
        return used
