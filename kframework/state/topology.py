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

    def add(self, code: int, more: int) -> None:
        """Add to a domain."""
        if code:
            self.cells[code] += more
            self.total += more


class Tallied(Protocol):
    """An owner of a tally on a topology, derived from its numbers per row."""

    def on_row(self, row: int) -> int:
        """Return the number of a row."""
        ...

    def domains(self, topology: Topology) -> Tally:
        """Return the tally."""
        ...


class LabelKeys(dict[str, int]):
    """The number of nodes with each label, by key; `version` counts the keys added and removed."""

    def __init__(self) -> None:
        super().__init__()
        self.version: int = 0

    def replace(self, old: Iterable[str], new: Iterable[str]) -> None:
        """Note that a node has these labels in place of those."""
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

    __slots__ = ("__weakref__", "_domains", "_nowhere", "key", "room", "sizes", "tallied")

    def __init__(self, key: str, nowhere: Column) -> None:
        super().__init__(0, None)
        self._nowhere: Column | None = nowhere
        self._share(nowhere)
        self.key: str = key
        #: The number of codes that tallies have room for.
        self.room: int = 64
        #: The number of nodes in each domain.
        self.sizes: Tally = Tally(self.room)
        self._domains: NDArray[np.int64] | None = None
        #: The owners of tallies to keep current, as long as they live.
        self.tallied: WeakSet[Tallied] = WeakSet()

    @property
    def present(self) -> NDArray[np.int64]:
        """The codes of the domains that have nodes, in order."""
        if self._domains is None:
            self._domains = np.flatnonzero(self.sizes.values)
        return self._domains

    def grow(self, capacity: int) -> None:
        if self._nowhere is None:
            super().grow(capacity)
        else:
            self._share(self._nowhere)

    def code(self, value: str | None) -> int:
        code = super().code(value)
        if code == self.room:
            self.room *= 2
            self.sizes.grow(self.room)
            for tallied in self.tallied:
                tallied.domains(self).grow(self.room)
        return code

    def put(self, row: int, value: str | None) -> None:
        """Set a row's value, None to remove it; tallies are updated."""
        old, new = self.cells[row], self.code(value)
        if old == new:
            return
        if self._nowhere is not None:
            self._nowhere = None
            self._hold(self.values.copy())
        self.cells[row] = new
        self.sizes.add(old, -1)
        self.sizes.add(new, 1)
        self._domains = None
        for tallied in self.tallied:
            amount = tallied.on_row(row)
            if amount:
                tally = tallied.domains(self)
                tally.add(old, -amount)
                tally.add(new, amount)

    def tidy(self) -> NDArray[np.int64]:
        kept = super().tidy()
        for tally in (self.sizes, *(tallied.domains(self) for tallied in self.tallied)):
            tally.values[1 : len(kept) + 1] = tally.values[kept]
            tally.values[len(kept) + 1 :] = 0
        self._domains = None
        return kept
