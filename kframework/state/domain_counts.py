"""The pods per domain of a topology, and the minimum over domains: live, or frozen for a what-if."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kframework.state.node_sets import NodeSet
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_counts import PodCount, Selection
from kframework.state.pods import PodInfo
from kframework.state.topology import Tally, Topology

#: The minimum if there is no domain.
_NO_DOMAIN = 2**31 - 1


class DomainCounts:
    """The pods of a count per domain, restricted to the nodes `among` (None: all that carry the label).

    Always current, also in the middle of a what-if. With fewer than `min_domains` domains the minimum is 0.
    """

    def __init__(
        self,
        nodes: NodeTable,
        topology: Topology,
        count: PodCount,
        among: Callable[[], NodeSet | None],
        min_domains: int,
    ) -> None:
        self.topology: Topology = topology
        self._count = count
        self._find_nodes = among
        self._among: NodeSet | None
        self._min_domains = min_domains
        self._pod_log = nodes.pod_log.reader()
        self._tally: Tally
        self._domains: NDArray[np.int64]
        self._fewest = 0

    def look(self) -> tuple[Tally, int]:
        """Return the pods per domain, and the fewest."""
        changed = self._pod_log.changed()
        if changed is None or changed:
            self._recount()
        return self._tally, 0 if len(self._domains) < self._min_domains else self._fewest

    def _recount(self) -> None:
        among, topology = self._find_nodes(), self.topology
        self._among = among
        if among is None:
            self._tally, self._domains = self._count.domains(topology), topology.present
        else:
            self._tally, self._domains = among.tally(self._count, topology), among.domains(topology)
        if self._tally.total < len(self._domains):
            self._fewest = 0  # at least one domain has none
        else:
            self._fewest = int(self._tally.values[self._domains].min(initial=_NO_DOMAIN))

    def add(self, row: int, more: int) -> None:
        """Add to the count of a row, if its node counts; live counts already include the change."""


class CountsSnapshot(DomainCounts):
    """A copy of counts that no change of the tables changes, only `add`."""

    def __init__(self, counts: DomainCounts) -> None:
        tally, _ = counts.look()
        self.topology: Topology = counts.topology
        self._among = counts._among
        self._tally = Tally(len(tally.values))
        self._tally.values[:] = tally.values
        self._tally.total = tally.total
        self._domains = counts._domains
        self._fewest = counts._fewest
        self._min_domains = counts._min_domains
        #: The domain that changed last, and the fewest pods in any other.
        self._changed = 0
        self._elsewhere = 0

    def look(self) -> tuple[Tally, int]:
        return self._tally, 0 if len(self._domains) < self._min_domains else self._fewest

    def add(self, row: int, more: int) -> None:
        if self._among is not None and not self._among.has(row):
            return
        code = self.topology.cells[row]
        if code != self._changed:
            self._changed, self._elsewhere = code, self._fewest
            if self._tally.cells[code] <= self._fewest:
                others = self._domains[self._domains != code]
                self._elsewhere = int(self._tally.values[others].min(initial=_NO_DOMAIN))
        self._tally.add(code, more)
        self._fewest = min(self._elsewhere, self._tally.cells[code])


def pods_in_domain(node: NodeInfo, key: str, selection: Selection) -> Iterator[PodInfo]:
    """Yield the pods of a selection that are in the node's domain of this topology."""
    nodes = node.table
    topology, count = nodes.label(key), nodes.counters.count(selection)
    if topology.cells[node.row]:
        there = (topology.values == topology.cells[node.row]) & (count.column.values > 0)
        for row in np.flatnonzero(there).tolist():
            yield from (other for other in nodes[row].pods if selection.chooses(other.label_class))
