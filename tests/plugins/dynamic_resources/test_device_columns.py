"""How many devices nodes reach and how many of them are allocated is known by row, whatever has changed since."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kframework.objects import ApiObject, DeviceClass, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.device_columns import DeviceColumns, DeviceCounts
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.selection import SelectorEvaluator
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from tests.support.device_objects import claim_with_devices, device_class, resource_slice

GPU = "example.com/gpu"
SSD = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}
BROKEN = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Gt", "values": ["x"]}]}]}
#: Where a slice, or a device, may be reached from, as it is written.
WHERE: list[dict[str, Any]] = [{"nodeName": "a"}, {"nodeName": "gone"}, {"allNodes": True}, {"nodeSelector": SSD}]


def put(cluster: ClusterState, *objects: ApiObject) -> None:
    for each in objects:
        cluster.objects(type(each)).put(each.metadata, each)


def counts(columns: DeviceColumns, cluster: ClusterState, resource: str = GPU) -> dict[str, tuple[int, int]]:
    """Answer what each node offers of a resource, and what is taken."""
    offered, taken = columns.columns_for(resource, cluster.nodes)
    return {node.name: (offered.cells[node.row], taken.cells[node.row]) for node in cluster.nodes}


# -- the rules, slow and obvious ---------------------------------------------------------------------------------------


def slow_counts(cluster: ClusterState, model: str) -> dict[str, tuple[int, int]]:
    claims = cluster.objects(ResourceClaim)
    allocated = {
        (result.pool, result.device)
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    }
    found = {}
    for node in cluster.nodes:
        offered = taken = 0
        for each in cluster.objects(ResourceSlice):
            for device in each.spec.devices:
                where = device if each.spec.per_device_node_selection else each.spec
                reached = (
                    where.node_name == node.name
                    or bool(where.all_nodes)
                    or (where.node_selector is not None and node.labels.get("disk") == "ssd")
                )
                if reached and device.attributes["model"].string_value == model:
                    offered += 1
                    taken += (each.spec.pool.name, device.name) in allocated
        native = node.allocatable(GPU)
        found[node.name] = (native, node.requested(GPU)) if native else (offered, taken)
    return found


class World:
    """A cluster to which things happen at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = ClusterState()
        self.version = 0
        put(self.cluster, device_class("gpu", GPU, model="a100"), device_class("other", model="a100"))

    def change(self) -> None:
        self.version += 1
        kinds = (self.slice, self.slice, self.claim, self.claim, self.claim, self.assume, self.node, self.pod)
        self.random.choice(kinds)()

    def slice(self) -> None:
        name = self.random.choice("pqr")
        where = self.random.choice([*WHERE, {"perDeviceNodeSelection": True}])
        devices = [
            {
                "name": device,
                "attributes": {"model": {"string": self.random.choice(["a100", "t4"])}},
                **(self.random.choice(WHERE) if "perDeviceNodeSelection" in where else {}),
            }
            for device in self.random.sample("xyz", self.random.randint(0, 3))
        ]
        made = resource_slice(name, devices, version=self.version, **where)
        self._put_or_remove(made)

    def claim(self) -> None:
        self._put_or_remove(self._claim(self.random.choice("kl"), self.version))

    def _claim(self, name: str, version: int) -> ResourceClaim:
        devices = [f"{pool}/{device}" for pool in "pqr" for device in "xyz"]
        return claim_with_devices(name, *self.random.sample(devices, self.random.randint(0, 4)), version=version)

    def _put_or_remove(self, made: ResourceSlice | ResourceClaim) -> None:
        if self.random.random() < 0.2:
            self.cluster.objects(type(made)).remove(made.metadata)
        else:
            put(self.cluster, made)

    def assume(self) -> None:
        for claim in list(self.cluster.objects(ResourceClaim))[:1]:
            if self.random.random() < 0.3:
                self.cluster.objects(ResourceClaim).restore(claim.metadata)
            else:
                assumed = self._claim(claim.metadata.name, int(claim.metadata.resource_version))
                self.cluster.objects(ResourceClaim).assume(assumed.metadata, assumed)

    def node(self) -> None:
        name = self.random.choice("abc")
        if self.random.random() < 0.2:
            self.cluster.remove_node(name)
        else:
            labels = {"disk": self.random.choice(["ssd", "hdd"])}
            offered = {GPU: 4} if self.random.random() < 0.2 else {}
            self.cluster.put_node(make_node(name, labels=labels, allocatable=offered))

    def pod(self) -> None:
        name = self.random.choice("abc")
        if name in self.cluster.nodes:
            self.cluster.put_pod(make_pod(f"pod-{self.version}", node_name=name, requests={GPU: 1}))


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_they_are_as_if_counted_anew(seed: int) -> None:
    world, met = World(seed), set[tuple[int, int]]()
    columns = DeviceColumns(world.cluster)
    for _ in range(150):
        for _ in range(world.random.randint(1, 3)):
            world.change()
        expected = slow_counts(world.cluster, "a100")
        assert counts(columns, world.cluster) == expected
        met.update(expected.values())
    assert {(0, 0), (1, 0), (1, 1), (2, 1)} <= met


def test_crowd_of_changes_is_not_lost() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    put(cluster, device_class("gpu", GPU), resource_slice("p", {"x": "", "y": ""}, nodeName="a"))
    columns = DeviceColumns(cluster)
    assert counts(columns, cluster) == {"a": (2, 0)}
    put(
        cluster,
        claim_with_devices("k", "p/x"),
        *(claim_with_devices("l", "p/y", version=version) for version in range(3000)),
    )
    assert counts(columns, cluster) == {"a": (2, 2)}


def test_resource_behind_which_no_class_stands_is_as_the_table_has_it() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a", allocatable={GPU: 2}))
    put(cluster, device_class("gpu"), resource_slice("p", {"x": ""}, allNodes=True))
    columns = DeviceColumns(cluster)
    offered, taken = columns.columns_for(GPU, cluster.nodes)
    assert offered is cluster.nodes.allocatables[GPU]
    assert taken is cluster.nodes.requesteds[GPU]
    assert counts(columns, cluster, "deviceclass.resource.kubernetes.io/gpu") == {"a": (1, 0)}


def test_another_class_behind_the_resource_counts_other_devices() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    put(cluster, device_class("gpu", GPU, model="a100"), resource_slice("p", {"x": "a100", "y": "t4"}, allNodes=True))
    put(cluster, resource_slice("q", {"z": "t4"}, nodeName="a"), claim_with_devices("k", "p/x"))
    columns = DeviceColumns(cluster)
    assert counts(columns, cluster) == {"a": (1, 1)}
    put(cluster, device_class("gpu", GPU, model="t4", version=2))
    assert counts(columns, cluster) == {"a": (2, 0)}
    cluster.objects(DeviceClass).remove(device_class("gpu").metadata)
    assert counts(columns, cluster) == {"a": (0, 0)}


def test_node_that_reaches_a_device_on_which_the_class_fails_has_none() -> None:
    cluster = ClusterState()
    for name in "ab":
        cluster.put_node(make_node(name))
    put(cluster, device_class("gpu", GPU, model="a100"), resource_slice("p", {"x": "a100"}, allNodes=True))
    put(cluster, resource_slice("q", [{"name": "y"}], nodeName="b"))
    assert counts(DeviceColumns(cluster), cluster) == {"a": (1, 0), "b": (0, 0)}


def test_every_slice_counts_whatever_its_pool_and_its_taints() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    taint = {"key": "broken", "effect": "NoSchedule"}
    incomplete = {"name": "p", "generation": 1, "resourceSliceCount": 9}
    put(
        cluster,
        device_class("gpu", GPU),
        resource_slice("old", [{"name": "x"}], allNodes=True, pool=incomplete),
        resource_slice("new", [{"name": "x", "taints": [taint]}], allNodes=True, pool={**incomplete, "generation": 2}),
        claim_with_devices("k", "p/x"),
    )
    assert counts(DeviceColumns(cluster), cluster) == {"a": (2, 2)}


def test_devices_with_an_invalid_node_selector_are_not_counted() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    put(cluster, device_class("gpu", GPU), resource_slice("p", {"x": ""}, nodeSelector=BROKEN))
    put(cluster, resource_slice("q", {"y": ""}, nodeName="a"))
    columns = DeviceColumns(cluster)
    assert counts(columns, cluster) == {"a": (1, 0)}


def test_devices_that_are_gone_are_forgotten() -> None:
    cluster, offered = ClusterState(), resource_slice("p", {"x": "", "y": ""}, allNodes=True)
    put(cluster, offered, claim_with_devices("k", "p/x"))
    inventory = cluster.objects(ResourceSlice).index(Inventory)
    allocated = cluster.objects(ResourceClaim).index(AllocatedDevices)
    counts = DeviceCounts(device_class(), inventory, SelectorEvaluator(), allocated, cluster.nodes)
    counts.refresh()
    assert (len(counts._in_use), len(counts._access_of)) == (1, 2)
    cluster.objects(ResourceSlice).remove(offered.metadata)
    counts.refresh()
    assert (len(counts._in_use), len(counts._access_of)) == (0, 0)
