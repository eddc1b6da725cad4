"""The pools that each node reaches, gathered when they are asked for and kept while they stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.state.log import Log
from kframework.state.nodes import NodeInfo, NodeTable


class NodePools:
    """The pools by the rows of nodes.

    `log` names the rows that reach other pools than before; of all rows that is said by `epoch`, which grows then.
    """

    def __init__(self, nodes: NodeTable, inventory: Inventory) -> None:
        self.log: Log[int] = Log(nodes.capacity)
        self.epoch: int = 0
        self._nodes = nodes
        self._inventory = inventory
        self._generation = nodes.generation
        self._slices = inventory.log.reader()
        self._rows = nodes.node_log.reader()
        self._known: dict[int, Sequence[Pool]] = {}

    def of(self, node: NodeInfo) -> Sequence[Pool]:
        """Return the pools that a node reaches, in order; AllocationError for a selector that cannot be read."""
        known = self._known.get(node.row)
        if known is None:
            known = self._known[node.row] = self._inventory.pools(node)
        return known

    def catch_up(self) -> None:
        """Forget what nodes reached whose slices have changed, or whose labels have where those matter."""
        names, rows = self._slices.changed(), self._rows.changed()
        if names is None or rows is None or "" in names or self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._known.clear()
            self.epoch += 1
            return
        self.log.limit = self._nodes.capacity
        found = [row for name in names if (row := self._nodes.row(name)) is not None]
        for row in found if self._inventory.all_local else (*rows, *found):
            self._known.pop(row, None)
            self.log.append(row)  # of a row that is not known it may be remembered that its pools cannot be gathered

    def __repr__(self) -> str:
        return f"<NodePools of {len(self._known)} nodes>"
