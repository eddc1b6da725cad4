"""The devices of the cluster for a plugin: the nodes with access, their holders, and the answers of selectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import msgspec

from kframework.framework.handle import Handle
from kframework.objects import DeviceClass, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.allocator import Allocations, DeviceSearch
from kframework.plugins.dynamic_resources.capacities import StepRules, fractional_steps, whole_steps
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.holders import DeviceHolder, DeviceHolders, holder_of
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import ClaimsOptions, RequestOption
from kframework.plugins.dynamic_resources.selection import SelectorEvaluator
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.state.log import Log
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore, Stores
from kframework.values.feature_gates import FeatureGates


class NodePools:
    """The pools by the rows of nodes.

    `log` lists the rows whose pools changed; if all may have changed, `epoch` grows instead.
    """

    def __init__(self, nodes: NodeTable, inventory: Inventory, gates: FeatureGates) -> None:
        self._is_1_36 = gates.is_1_36
        self.log: Log[int] = Log(nodes.capacity)
        self.epoch: int = 0
        self._nodes = nodes
        self._inventory = inventory
        self._generation = nodes.generation
        self._slices = inventory.log.reader()
        self._rows = nodes.node_log.reader()
        self._pools: dict[int, Sequence[Pool]] = {}

    def for_node(self, node: NodeInfo) -> Sequence[Pool]:
        """Return the pools that a node can access, in order; AllocationError for an invalid selector."""
        pools = self._pools.get(node.row)
        if pools is None:
            pools = self._inventory.pools(node)
            if not self._is_1_36:  # 1.36 rejects the node if a pool of mere counters is invalid
                pools = [pool for pool in pools if pool.devices or pool.incomplete]
            self._pools[node.row] = pools
        return pools

    def refresh(self) -> None:
        """Drop the pools of nodes whose slices changed, or whose labels did if those matter."""
        names, rows = self._slices.read_new(), self._rows.read_new()
        if names is None or rows is None or "" in names or self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._pools.clear()
            self.epoch += 1
            return
        self.log.limit = self._nodes.capacity
        changed = [row for name in names if (row := self._nodes.row(name)) is not None]
        for row in changed if self._inventory.all_local else (*rows, *changed):
            self._pools.pop(row, None)
            self.log.append(row)  # a row without pools may be cached as failed


class Devices:
    """The devices and their allocations."""

    #: The search class; replays of recorded answers substitute one with the same faults.
    search_class: ClassVar[type[DeviceSearch]] = DeviceSearch

    def __init__(self, handle: Handle) -> None:
        self.nodes: NodeTable = handle.nodes
        self.classes: ObjectStore[DeviceClass] = handle.objects(DeviceClass)
        self._claims = handle.objects(ResourceClaim)
        self.allocated: AllocatedDevices = self._claims.index(AllocatedDevices)
        self.inventory: Inventory = Inventory.for_stores(handle)
        self.pools: NodePools = NodePools(self.nodes, self.inventory, handle.feature_gates)
        self.gates: FeatureGates = handle.feature_gates
        is_fractional = handle.feature_gates.is_enabled("DRAFractionalCapacityRange")
        #: How requests of capacity are rounded up.
        self.capacity_steps: StepRules = fractional_steps if is_fractional else whole_steps
        self.selection: SelectorEvaluator = SelectorEvaluator(self.gates)

    @cached_property
    def holders(self) -> DeviceHolders:
        """The holders of devices; indexed from the first use on."""
        return self._claims.index(DeviceHolders)

    def pools_of(self, node: NodeInfo) -> Sequence[Pool]:
        self.pools.refresh()
        return self.pools.for_node(node)

    def as_if_released(self, results: Iterable[DeviceRequestAllocationResult]) -> Allocations:
        """Return the allocations as if these devices were released."""
        return self.allocated.as_if_released(results)

    def search(
        self,
        claims: Sequence[ResourceClaim],
        options: ClaimsOptions,
        node: NodeInfo,
        pools: Sequence[Pool],
        allocated: Allocations | None = None,
    ) -> DeviceSearch:
        """Create a search for the devices of claims on a node; AllocationError if they request too much."""

        def matches(options: RequestOption, device: PoolDevice) -> bool:
            return self.selection.matches(options, device, node)

        return self.search_class(claims, options, pools, allocated or self.allocated, matches, self.capacity_steps)


class NodeDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device with its driver and pool, the holders of it or its shares, and its taints as text.

    `wrong` is the error of its pool: nothing is allocated from that.
    """

    driver: str
    pool: str
    device: str
    held_by: tuple[DeviceHolder, ...] = ()
    taints: tuple[str, ...] = ()
    wrong: str = ""


def node_devices(stores: Stores, node: NodeInfo) -> list[NodeDevice]:
    """List the devices of this node alone, and those shared by many nodes that its pods have."""
    if not len(stores.objects(ResourceSlice)):
        return []
    holders = stores.objects(ResourceClaim).index(DeviceHolders)
    try:
        pools = Inventory.for_stores(stores).pools(node)
    except AllocationError:
        return []  # the node is rejected for an invalid selector
    return [
        NodeDevice(*device.id, tuple(holders.holders_of(device.id)), tuple(map(str, device.taints)), pool.error)
        for pool in pools
        for device in _devices_on_node(pool, node, holders)
    ]


def _devices_on_node(pool: Pool, node: NodeInfo, holders: DeviceHolders) -> Iterator[PoolDevice]:
    pods = {pod.uid for pod in node.pods}
    groups = {f"{pod.namespace}/{pod.group}" for pod in node.pods if pod.group}
    for device in pool.devices:
        if device.access.node_name:
            if device.access.node_name == node.name:
                yield device
            continue
        claims = holders.claims_with(device.id)
        users = (user.uid for claim in claims for user in claim.status.reserved_for)
        of_groups = (group for claim in claims for group in holder_of(claim).groups)
        if not (pods.isdisjoint(users) and groups.isdisjoint(of_groups)):
            yield device
