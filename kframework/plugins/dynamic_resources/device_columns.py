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
from kframework.plugins.dynamic_resources.selection import SelectorEvaluator
from kframework.plugins.dynamic_resources.slices import DeviceId, NodeAccess, SliceView
from kframework.state.columns import Column
from kframework.state.nodes import NodeTable
from kframework.state.objects import Stores

#: The watches of a plugin that counts devices.
DEVICES: tuple[Watch, ...] = (Watch(DeviceClass), Watch(ResourceClaim), Watch(ResourceSlice))

_Rows = int | NDArray[np.int64]
#: The name of the only node with access, or the selector of such nodes; neither for all nodes.
_AccessKey = tuple[str, NodeSelector | None]

_NO_ROWS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

#: The kinds of counts: devices, allocated ones, and those on which a selector fails.
_DEVICES, _IN_USE, _FAILING = range(3)
_KINDS = 3


class DeviceColumns:
    """The offered and used amounts of extended resources on nodes: of devices where no device plugin offers any."""

    def __init__(self, stores: Stores) -> None:
        self._backed = stores.objects(DeviceClass).index(BackedResources)
        self._inventory = stores.objects(ResourceSlice).index(Inventory)  # taints do not matter to it
        self._allocated = stores.objects(ResourceClaim).index(AllocatedDevices)
        self._selection = SelectorEvaluator()
        self._counts: dict[str, DeviceCounts] = {}

    def columns_for(self, resource: str, nodes: NodeTable) -> tuple[Column, Column]:
        """Return the offered and used amounts of a resource, including devices if a class backs it."""
        nodes.allocatable(resource)  # makes the columns if no node has offered any yet
        offered, requested = nodes.allocatables[resource], nodes.requesteds[resource]
        device_class = self._backed.class_for(resource)
        if device_class is None:
            return offered, requested
        counts = self._counts.get(resource)
        if counts is None or counts.device_class is not device_class:
            counts = DeviceCounts(device_class, self._inventory, self._selection, self._allocated, nodes)
            self._counts[resource] = counts
        counts.refresh()
        has_device_plugin = offered.values > 0
        return (
            _to_column(np.where(has_device_plugin, offered.values, counts.offered)),
            _to_column(np.where(has_device_plugin, requested.values, counts.allocated)),
        )


class DeviceCounts:
    """The number of devices of a class that each node can access, and of allocated ones (`allocated`), both by row.

    Devices of all slices count, whatever the generation of their pool, and with taints. A node with a device on which a
    selector of the class fails has none.
    """

    def __init__(
        self,
        device_class: DeviceClass,
        inventory: Inventory,
        selection: SelectorEvaluator,
        allocated: AllocatedDevices,
        nodes: NodeTable,
    ) -> None:
        self.device_class: DeviceClass = device_class
        self._inventory = inventory
        self._selection = selection
        self._allocations = allocated
        self._nodes = nodes
        self._version = self._generation = -1
        self._node_log = nodes.node_log.reader()
        self._allocated_log = allocated.log.reader()
        self._slices: Mapping[str, SliceView] = {}
        #: The access to each device, once for each slice that has it, and the allocated devices.
        self._access_of: dict[DeviceId, list[_AccessKey]] = {}
        self._in_use: set[DeviceId] = set()
        #: The counts by access and by row, and the rows for each access.
        self._tallies: dict[_AccessKey, list[int]] = {}
        self._columns: NDArray[np.int64] = np.zeros((_KINDS, 0), dtype=np.int64)
        self._rows: dict[_AccessKey, _Rows] = {}

    @property
    def offered(self) -> NDArray[np.int64]:
        return np.where(self._columns[_FAILING], 0, self._columns[_DEVICES])

    @property
    def allocated(self) -> NDArray[np.int64]:
        allocated: NDArray[np.int64] = self._columns[_IN_USE]
        return allocated

    def refresh(self) -> None:
        """Apply the changes of nodes, slices and allocations since the last call."""
        relabelled = self._node_log.read_new() != []
        if self._generation != self._nodes.generation or (relabelled and self._has_selectors):
            self._generation = self._nodes.generation
            self._recompute_rows()
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
        for device in list(self._access_of) if changed is None else changed:
            if device in self._access_of:
                self._recount(device)

    @property
    def _has_selectors(self) -> bool:
        return any(selector is not None for _, selector in self._tallies)

    def _recompute_rows(self) -> None:
        self._rows.clear()
        self._columns = np.zeros((_KINDS, self._nodes.capacity), dtype=np.int64)
        for access, tally in self._tallies.items():
            rows = self._rows_of(access)
            for kind, number in enumerate(tally):
                self._columns[kind][rows] += number

    def _count_slice(self, counted: SliceView, sign: int) -> None:
        for device in counted.devices:
            if device.access.is_specified:
                access = _access_key(device.access)
                try:
                    if self._selection.matches_class(device, self.device_class):
                        self._count_device(device.id, access, sign)
                except AllocationError:
                    self._add(_FAILING, access, sign)

    def _count_device(self, device: DeviceId, access: _AccessKey, sign: int) -> None:
        access_list = self._access_of.setdefault(device, [])
        self._add(_DEVICES, access, sign)
        if device in self._in_use:
            self._add(_IN_USE, access, sign)
        if sign > 0:
            access_list.append(access)
            self._recount(device)
            return
        access_list.remove(access)
        if not access_list:
            del self._access_of[device]
            self._in_use.discard(device)

    def _recount(self, device: DeviceId) -> None:
        now = self._allocations.is_in_use(device)
        if now != (device in self._in_use):
            (self._in_use.add if now else self._in_use.discard)(device)
            for access in self._access_of[device]:
                self._add(_IN_USE, access, 1 if now else -1)

    def _add(self, kind: int, access: _AccessKey, number: int) -> None:
        tally = self._tallies.setdefault(access, [0] * _KINDS)
        tally[kind] += number
        self._columns[kind][self._rows_of(access)] += number
        if not any(tally):
            del self._tallies[access], self._rows[access]

    def _rows_of(self, access: _AccessKey) -> _Rows:
        if access not in self._rows:
            self._rows[access] = _rows_of(access, self._nodes)
        return self._rows[access]


def _access_key(access: NodeAccess) -> _AccessKey:
    if access.node_name or access.all_nodes:
        return access.node_name or "", None
    return "", access.selector


def _rows_of(access: _AccessKey, nodes: NodeTable) -> _Rows:
    """Return the rows of the nodes; none for an invalid selector."""
    name, selector = access
    if name:
        row = nodes.row(name)
        return _NO_ROWS if row is None else row
    if selector is None:
        return nodes.order
    node_access = NodeAccess(None, None, selector)
    try:
        return np.array([node.row for node in nodes if node_access.matches(node)], dtype=np.int64)
    except SelectorError:
        return _NO_ROWS


def _to_column(values: NDArray[np.int64]) -> Column:
    column = Column(len(values))
    column.values[:] = values
    return column
