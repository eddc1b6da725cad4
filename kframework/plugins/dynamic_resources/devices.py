"""The devices of the cluster as a plugin sees them: who reaches them, who has them, and what selectors say of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import ClassVar

from kframework.framework.handle import Handle
from kframework.objects import DeviceClass, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.allocator import Allocated, Search
from kframework.plugins.dynamic_resources.holders import DeviceHolders
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import Asked, AskedOfAll
from kframework.plugins.dynamic_resources.selection import Selection
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.state.log import Log
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore


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


class Devices:
    """What there is, and what is in use of it."""

    #: Searches for devices; replays of recorded answers have one with the faults of those.
    search_with: ClassVar[type[Search]] = Search

    def __init__(self, handle: Handle) -> None:
        self.nodes: NodeTable = handle.nodes
        self.classes: ObjectStore[DeviceClass] = handle.objects(DeviceClass)
        self._claims = handle.objects(ResourceClaim)
        self.allocated: AllocatedDevices = self._claims.index(AllocatedDevices)
        self.inventory: Inventory = handle.objects(ResourceSlice).index(Inventory)
        self.pools: NodePools = NodePools(self.nodes, self.inventory)
        self.selection: Selection = Selection()

    @cached_property
    def holders(self) -> DeviceHolders:
        """Who has them; from the first question on it costs something to know that."""
        return self._claims.index(DeviceHolders)

    def pools_of(self, node: NodeInfo) -> Sequence[Pool]:
        """Return the pools that a node reaches, in order; AllocationError for a selector that cannot be read."""
        self.pools.catch_up()
        return self.pools.of(node)

    def selects(self, asked: Asked, device: PoolDevice, node: NodeInfo) -> bool:
        """Return whether class and request choose a device that a node reaches; raises AllocationError."""
        return self.selection.selects(asked, device, node)

    def without(self, results: Iterable[DeviceRequestAllocationResult]) -> Allocated:
        """Return what would be in use if these devices were given back."""
        return self.allocated.without(results)

    def search(
        self,
        claims: Sequence[ResourceClaim],
        asked: AskedOfAll,
        node: NodeInfo,
        pools: Sequence[Pool],
        allocated: Allocated | None = None,
    ) -> Search:
        """Open a search for what claims ask for on a node; AllocationError if they ask for too much."""
        selects = partial(self._selects_on, node)
        return self.search_with(claims, asked, pools, allocated or self.allocated, selects)

    def _selects_on(self, node: NodeInfo, asked: Asked, device: PoolDevice) -> bool:
        return self.selection.selects(asked, device, node)

    def __repr__(self) -> str:
        return f"<Devices: {self.inventory!r}, {self.allocated!r}>"
