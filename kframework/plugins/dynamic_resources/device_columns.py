"""Extended resources as columns of the node table, including backing devices, for scoring."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kframework.framework.plugin import Watch
from kframework.objects import DeviceClass, NodeSelector, ResourceClaim, ResourceSlice
from kframework.objects.label_selectors import SelectorError
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.extended_resources import BackedResources
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.selection import Selection
from kframework.plugins.dynamic_resources.slices import DeviceId, Reach, SliceView
from kframework.state.columns import Column
from kframework.state.nodes import NodeTable
from kframework.state.objects import Stores

#: The watches of a plugin that counts devices.
DEVICES: tuple[Watch, ...] = (Watch(DeviceClass), Watch(ResourceClaim), Watch(ResourceSlice))

#: One node, or several.
_Rows = int | NDArray[np.int64]
#: The name of the only node that reaches something, or the selector of those that do; neither for all nodes.
_Reached = tuple[str, NodeSelector | None]

_NOWHERE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

#: The kinds of counts: devices, allocated ones, and those on which a selector fails.
_DEVICES, _IN_USE, _FAILING = range(3)
_KINDS = 3


class DeviceColumns:
    """The offered and used amounts of extended resources on nodes: of devices where no device plugin offers any."""

    def __init__(self, stores: Stores) -> None:
        self._backed = stores.objects(DeviceClass).index(BackedResources)
        self._inventory = stores.objects(ResourceSlice).index(Inventory)
        self._allocated = stores.objects(ResourceClaim).index(AllocatedDevices)
        self._selection = Selection()
        self._counts: dict[str, DeviceCounts] = {}

    def of(self, resource: str, nodes: NodeTable) -> tuple[Column, Column]:
        """Return the offered and used amounts of a resource, including devices if a class backs it."""
        nodes.allocatable(resource)  # makes the columns if no node has offered any yet
        offered, requested = nodes.allocatables[resource], nodes.requesteds[resource]
        backing = self._backed.behind(resource)
        if backing is None:
            return offered, requested
        counts = self._counts.get(resource)
        if counts is None or counts.device_class is not backing:
            counts = DeviceCounts(backing, self._inventory, self._selection, self._allocated, nodes)
            self._counts[resource] = counts
        counts.catch_up()
        plugged = offered.values > 0
        return (
            _column(np.where(plugged, offered.values, counts.offered)),
            _column(np.where(plugged, requested.values, counts.taken)),
        )


class DeviceCounts:
    """The number of devices of a class that each node can access, and of allocated ones (`taken`), both by row.

    Devices of all slices count, whatever the generation of their pool, and with taints. A node with a device on which a
    selector of the class fails has none.
    """

    def __init__(
        self,
        device_class: DeviceClass,
        inventory: Inventory,
        selection: Selection,
        allocated: AllocatedDevices,
        nodes: NodeTable,
    ) -> None:
        self.device_class: DeviceClass = device_class
        self._inventory = inventory
        self._selection = selection
        self._allocated = allocated
        self._nodes = nodes
        self._version = self._generation = -1
        self._node_log = nodes.node_log.reader()
        self._allocated_log = allocated.log.reader()
        #: The slices that are counted, by name.
        self._slices: Mapping[str, SliceView] = {}
        #: The reach of each device, once for each slice that has it, and the allocated devices.
        self._places: dict[DeviceId, list[_Reached]] = {}
        self._in_use: set[DeviceId] = set()
        #: The counts by reach and by row, and the rows of each reach.
        self._tallies: dict[_Reached, list[int]] = {}
        self._columns: NDArray[np.int64] = np.zeros((_KINDS, 0), dtype=np.int64)
        self._rows: dict[_Reached, _Rows] = {}

    @property
    def offered(self) -> NDArray[np.int64]:
        """The number of devices that each node can access."""
        return np.where(self._columns[_FAILING], 0, self._columns[_DEVICES])

    @property
    def taken(self) -> NDArray[np.int64]:
        """The number of those that are allocated."""
        taken: NDArray[np.int64] = self._columns[_IN_USE]
        return taken

    def catch_up(self) -> None:
        """Apply the changes of nodes, slices and allocations since the last call."""
        relabelled = self._node_log.read_new() != []
        if self._generation != self._nodes.generation or (relabelled and self._selects):
            self._generation = self._nodes.generation
            self._spread()
        if self._version != self._inventory.log.end:
            self._version = self._inventory.log.end
            current = {each.name: each for each in self._inventory}
            for name, known in self._slices.items():
                if current.get(name) is not known:
                    self._count_slice(known, -1)
            for name, each in current.items():
                if self._slices.get(name) is not each:
                    self._count_slice(each, 1)
            self._slices = current
        changed = self._allocated_log.read_new()
        for device in list(self._places) if changed is None else changed:
            if device in self._places:
                self._recount(device)

    @property
    def _selects(self) -> bool:
        """Whether the reach of some devices depends on node labels."""
        return any(selector is not None for _, selector in self._tallies)

    def _spread(self) -> None:
        """Recompute the counts by row from those by reach."""
        self._rows.clear()
        self._columns = np.zeros((_KINDS, self._nodes.capacity), dtype=np.int64)
        for reached, tally in self._tallies.items():
            rows = self._rows_of(reached)
            for kind, number in enumerate(tally):
                self._columns[kind][rows] += number

    def _count_slice(self, counted: SliceView, sign: int) -> None:
        for device in counted.devices:
            if device.reach.is_said:
                reached = _reached(device.reach)
                try:
                    if self._selection.belongs(device, self.device_class):
                        self._count_device(device.id, reached, sign)
                except AllocationError:
                    self._add(_FAILING, reached, sign)

    def _count_device(self, device: DeviceId, reached: _Reached, sign: int) -> None:
        places = self._places.setdefault(device, [])
        self._add(_DEVICES, reached, sign)
        if device in self._in_use:
            self._add(_IN_USE, reached, sign)
        if sign > 0:
            places.append(reached)
            self._recount(device)
            return
        places.remove(reached)
        if not places:
            del self._places[device]
            self._in_use.discard(device)

    def _recount(self, device: DeviceId) -> None:
        """Update whether a device counts as allocated, for every reach."""
        now = self._allocated.is_in_use(device)
        if now != (device in self._in_use):
            (self._in_use.add if now else self._in_use.discard)(device)
            for reached in self._places[device]:
                self._add(_IN_USE, reached, 1 if now else -1)

    def _add(self, kind: int, reached: _Reached, number: int) -> None:
        tally = self._tallies.setdefault(reached, [0] * _KINDS)
        tally[kind] += number
        self._columns[kind][self._rows_of(reached)] += number
        if not any(tally):
            del self._tallies[reached], self._rows[reached]

    def _rows_of(self, reached: _Reached) -> _Rows:
        if reached not in self._rows:
            self._rows[reached] = _rows_of(reached, self._nodes)
        return self._rows[reached]


def _reached(reach: Reach) -> _Reached:
    if reach.node_name or reach.all_nodes:
        return reach.node_name or "", None
    return "", reach.selector


def _rows_of(reached: _Reached, nodes: NodeTable) -> _Rows:
    """Return the rows of the nodes; none for an invalid selector."""
    name, selector = reached
    if name:
        row = nodes.row(name)
        return _NOWHERE if row is None else row
    if selector is None:
        return nodes.order
    reach = Reach(None, None, selector)
    try:
        return np.array([node.row for node in nodes if reach.matches(node)], dtype=np.int64)
    except SelectorError:
        return _NOWHERE


def _column(values: NDArray[np.int64]) -> Column:
    column = Column(len(values))
    column.values[:] = values
    return column
