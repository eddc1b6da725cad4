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
    """The pods of a count per domain, restricted to the nodes that `find_nodes` returns (None: all with the label).

    Always current, also in the middle of a what-if. With fewer than `min_domains` domains the minimum is 0.
    """

    def __init__(
        self,
        nodes: NodeTable,
        topology: Topology,
        count: PodCount,
        find_nodes: Callable[[], NodeSet | None],
        min_domains: int,
    ) -> None:
        self.topology: Topology = topology
        self._count = count
        self._find_nodes = find_nodes
        self._node_set: NodeSet | None
        self._min_domains = min_domains
        self._pod_log = nodes.pod_log.reader()
        self._node_log = nodes.node_log.reader()
        self._tally: Tally
        self._domains: NDArray[np.int64]
        self._minimum = 0

    def read(self) -> tuple[Tally, int]:
        """Return the pods per domain, and the fewest."""
        changed = self._pod_log.read_new()
        if changed is None or changed:
            self._recount()
        return self._tally, 0 if len(self._domains) < self._min_domains else self._minimum

    def _recount(self) -> None:
        if self._node_log.read_new() != []:
            self._node_set = self._find_nodes()
        node_set, topology = self._node_set, self.topology
        if node_set is None:
            self._tally, self._domains = self._count.domains(topology), topology.occupied
        else:
            self._tally, self._domains = node_set.tally(self._count, topology), node_set.domains(topology)
        if self._tally.total < len(self._domains):
            self._minimum = 0  # at least one domain has none
        else:
            pods = self._tally.values[self._domains]
            self._minimum = pods.item(pods.argmin()) if len(pods) else _NO_DOMAIN

    def add(self, row: int, delta: int) -> None:
        """Add to the count of a row, if its node counts; live counts already include the change."""


class CountsSnapshot(DomainCounts):
    """A copy of counts that no change of the tables changes, only `add`."""

    def __init__(self, counts: DomainCounts) -> None:
        tally, _ = counts.read()
        self.topology: Topology = counts.topology
        self._node_set = counts._node_set
        self._tally = Tally(len(tally.values))
        self._tally.values[:] = tally.values
        self._tally.total = tally.total
        self._domains = counts._domains
        self._minimum = counts._minimum
        self._min_domains = counts._min_domains
        #: The domain that changed last, and the fewest pods in any other.
        self._last_domain = 0
        self._other_minimum = 0

    def read(self) -> tuple[Tally, int]:
        return self._tally, 0 if len(self._domains) < self._min_domains else self._minimum

    def add(self, row: int, delta: int) -> None:
        if self._node_set is not None and not self._node_set.contains(row):
            return
        code = self.topology.cells[row]
        if code != self._last_domain:
            self._last_domain, self._other_minimum = code, self._minimum
            if self._tally.cells[code] <= self._minimum:
                others = self._domains[self._domains != code]
                self._other_minimum = int(self._tally.values[others].min(initial=_NO_DOMAIN))
        self._tally.add(code, delta)
        self._minimum = min(self._other_minimum, self._tally.cells[code])


def pods_in_domain(node: NodeInfo, key: str, selection: Selection) -> Iterator[PodInfo]:
    """Yield the pods of a selection that are in the node's domain of this topology."""
    nodes = node.table
    topology, count = nodes.label(key), nodes.counters.count(selection)
    if topology.cells[node.row]:
        matches = (topology.values == topology.cells[node.row]) & (count.column.values > 0)
        for row in np.flatnonzero(matches).tolist():
            yield from (other for other in nodes[row].pods if selection.matches(other.label_class))
