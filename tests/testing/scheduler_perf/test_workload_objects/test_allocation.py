"""Claims that get devices without any pod."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest

from kframework.clock import SystemClock
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, DeviceClass, Node, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.testing.scheduler_perf.workload_objects import allocate

NODES, DEVICES = 10, 4


def created(kind: type[ApiObject], name: str, **fields: object) -> ApiObject:
    """Make an object of plain data."""
    namespace = {"namespace": "n"} if kind is ResourceClaim else {}
    return msgspec.convert({"metadata": {"name": name, **namespace}, **fields}, kind)


def cluster_of(claims: int, *, device: dict[str, object] | None = None, **asked: object) -> MemoryCluster:
    """Make a cluster of nodes with devices, and claims that ask all the same of them."""
    objects = [created(DeviceClass, "gpu", spec={"selectors": [{"cel": {"expression": 'device.driver == "d"'}}]})]
    for number in range(NODES):
        name = f"node-{number}"
        pool = {"name": name, "resourceSliceCount": 1}
        devices = [{"name": f"g{index}", **(device or {})} for index in range(DEVICES)]
        spec = {"driver": "d", "pool": pool, "nodeName": name, "devices": devices}
        objects += [created(Node, name), created(ResourceSlice, name, spec=spec)]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", **asked}}
    spec = {"devices": {"requests": [request]}}
    objects += [created(ResourceClaim, f"c{number}", spec=spec) for number in range(claims)]
    return MemoryCluster(SystemClock(), objects)


def allocated(cluster: MemoryCluster) -> Counter[tuple[str, str]]:
    """Count how often each device is allocated."""
    given = (claim.status.allocation for claim in cluster.objects(ResourceClaim))
    return Counter((each.pool, each.device) for one in given if one is not None for each in one.devices.results)


def test_every_device_is_allocated_once() -> None:
    cluster = cluster_of(NODES * DEVICES)
    allocate(cluster, "n", Random(1))
    assert allocated(cluster) == Counter({(f"node-{n}", f"g{i}"): 1 for n in range(NODES) for i in range(DEVICES)})


def test_existing_allocations_are_kept_and_counted() -> None:
    cluster = cluster_of(NODES)
    allocate(cluster, "n", Random(1))
    before = {claim.metadata.name: claim.status for claim in cluster.objects(ResourceClaim)}
    more = cluster_of(NODES * DEVICES - NODES).objects(ResourceClaim)
    for claim in more:
        cluster.add(created(ResourceClaim, f"more-{claim.metadata.name}", spec=msgspec.to_builtins(claim.spec)))
    allocate(cluster, "", Random(2))
    assert set(allocated(cluster).values()) == {1}
    assert all(cluster.read(ResourceClaim, name, "n").status == status for name, status in before.items())


def test_order_of_nodes_follows_from_the_seed() -> None:
    places = []
    for seed in (1, 1, 2):
        cluster = cluster_of(NODES)
        allocate(cluster, "n", Random(seed))
        places.append(allocated(cluster))
    assert places[0] == places[1] != places[2]
    assert len({pool for pool, _ in places[0]}) > 2


def test_shares_of_a_device_have_distinct_ids() -> None:
    device = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}
    cluster = cluster_of(NODES * DEVICES * 2, device=device, capacity={"requests": {"memory": "2Gi"}})
    allocate(cluster, "n", Random(1))
    assert set(allocated(cluster).values()) == {2}
    given = [claim.status.allocation for claim in cluster.objects(ResourceClaim)]
    assert len({each.share_id for one in given if one is not None for each in one.devices.results}) == len(given)


def test_claim_that_fits_nowhere_is_an_error() -> None:
    cluster = cluster_of(NODES + 1, count=3)
    with pytest.raises(AllocationError, match=rf"claim n/c{NODES} fits no node, after {NODES} of {NODES + 1} claims"):
        allocate(cluster, "n", Random(1))


def test_claims_of_other_namespaces_are_not_allocated() -> None:
    cluster = cluster_of(2)
    allocate(cluster, "other", Random(1))
    assert not allocated(cluster)


def test_invalid_claim_is_an_error() -> None:
    cluster = cluster_of(1, deviceClassName="tpu")
    with pytest.raises(AllocationError, match="could not retrieve device class tpu"):
        allocate(cluster, "n", Random(1))
