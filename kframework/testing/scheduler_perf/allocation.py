"""Claims that get devices without any pod, as scheduler_perf fills a cluster before it measures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from random import Random
from uuid import UUID

from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import AllocationResult, DeviceClass, Node, ResourceClaim, ResourceSlice
from kframework.objects.kinds import T
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.allocator import Search
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.requests import asked_of, key_of
from kframework.plugins.dynamic_resources.results import allocation
from kframework.plugins.dynamic_resources.selection import Selection
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore


def allocate(cluster: MemoryCluster, namespace: str, random: Random) -> None:
    """Allocate devices to the claims of a namespace that have none, or of all, each on the first node that has them.

    Nodes are tried in random order. Raises AllocationError for a claim that fits nowhere or makes no sense.
    """
    filling = _Filling(cluster, random)
    waiting = [claim for claim in cluster.objects(ResourceClaim, namespace) if claim.status.allocation is None]
    for done, claim in enumerate(waiting):
        allocated = filling.allocation(claim)
        if allocated is None:
            raise AllocationError(f"claim {key_of(claim)} fits no node, after {done} of {len(waiting)} claims")
        filling.note(cluster.replace(replace(claim, status=replace(claim.status, allocation=allocated))))


class _Filling:
    """The nodes, slices and classes of a cluster, which stay as they are, and claims, which get devices."""

    def __init__(self, cluster: MemoryCluster, random: Random) -> None:
        nodes = NodeTable()
        for node in cluster.objects(Node):
            nodes.put(node)
        self._nodes = list(nodes)
        self._random = random
        self._classes = {each.metadata.name: each for each in cluster.objects(DeviceClass)}
        self._claims = _store(cluster, ResourceClaim)
        self._allocated = AllocatedDevices(self._claims)
        self._pools = cache(Inventory(_store(cluster, ResourceSlice)).pools)
        self._selection = Selection()

    def note(self, claim: ResourceClaim) -> None:
        """Take notice of what a claim has got."""
        self._claims.put(claim.metadata, claim)

    def allocation(self, claim: ResourceClaim) -> AllocationResult | None:
        """Find devices for a claim on some node; None if no node has them."""
        found = (self._allocation_on(node, claim) for node in self._in_random_order())
        return next((each for each in found if each is not None), None)

    def _in_random_order(self) -> Iterator[NodeInfo]:
        """Shuffle the nodes only as far as they are asked for: most claims fit one of the first."""
        nodes = self._nodes
        for place in range(len(nodes)):
            drawn = self._random.randrange(place, len(nodes))
            nodes[place], nodes[drawn] = nodes[drawn], nodes[place]
            yield nodes[place]

    def _allocation_on(self, node: NodeInfo, claim: ResourceClaim) -> AllocationResult | None:
        asked = [asked_of(claim, request, self._classes) for request in claim.spec.devices.requests]
        search = Search(
            [claim],
            [asked],
            self._pools(node),
            self._allocated,
            lambda each, device: self._selection.selects(each, device, node),
        )
        chosen = search.run(sys.maxsize)
        return None if chosen is None else allocation(claim, chosen[0], node.name, self._share_id)

    def _share_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))


def _store(cluster: MemoryCluster, kind: type[T]) -> ObjectStore[T]:
    store = ObjectStore[T]()
    for each in cluster.objects(kind):
        store.put(each.metadata, each)
    return store
