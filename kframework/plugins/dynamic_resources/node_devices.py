"""The devices of one node, and who has them, for whoever looks at the node."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.framework.suggestions import format_taint
from kframework.objects import ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.holders import DeviceHolders, Holder
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.state.nodes import NodeInfo
from kframework.state.objects import Stores


class NodeDevice(msgspec.Struct, frozen=True):
    """A device by the names of its driver and pool, those who have it or shares of it, and its taints as text.

    `wrong` is what is wrong with its pool: nothing is allocated from that.
    """

    driver: str
    pool: str
    device: str
    held_by: tuple[Holder, ...] = ()
    taints: tuple[str, ...] = ()
    wrong: str = ""


def node_devices(stores: Stores, node: NodeInfo) -> list[NodeDevice]:
    """List the devices that only this node reaches, and those of the devices of many nodes that its pods have."""
    slices, claims = stores.objects(ResourceSlice), stores.objects(ResourceClaim)
    if not len(slices):
        return []
    holders = claims.index(DeviceHolders)
    try:
        pools = slices.index(Inventory).pools(node)
    except AllocationError:
        return []  # the node is rejected for a selector that cannot be read
    return [_shown(device, pool, holders) for pool in pools for device in _of_node(pool, node, holders)]


def _of_node(pool: Pool, node: NodeInfo, holders: DeviceHolders) -> Iterator[PoolDevice]:
    pods = {pod.uid for pod in node.pods}
    for device in pool.devices:
        if device.reach.node_name:
            if device.reach.node_name == node.name:
                yield device
            continue
        users = (user.uid for claim in holders.claims_with(device.id) for user in claim.status.reserved_for)
        if not pods.isdisjoint(users):
            yield device


def _shown(device: PoolDevice, pool: Pool, holders: DeviceHolders) -> NodeDevice:
    return NodeDevice(*device.id, tuple(holders.of(device.id)), tuple(map(format_taint, device.taints)), pool.wrong)
