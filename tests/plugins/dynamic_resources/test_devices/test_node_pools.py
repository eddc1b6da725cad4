"""The pools of each node are kept while they are unchanged, and changed nodes are reported."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from kframework.objects import ResourceSlice
from kframework.plugins.dynamic_resources.devices import NodePools
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore
from kframework.testing import make_node
from kframework.values.feature_gates import FeatureGates
from tests.plugins.dynamic_resources.changing import UNREADABLE, ChangingCluster

FAST = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}


def a_slice(name: str, version: int = 1, **said: Any) -> ResourceSlice:
    """Make a slice that is a pool of its own, with one device."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "devices": [{"name": "x"}], **said}
    return msgspec.convert({"metadata": {"name": name, "resourceVersion": str(version)}, "spec": spec}, ResourceSlice)


class World:
    """Two nodes, slices, and the pools that the nodes reach."""

    def __init__(self, *slices: ResourceSlice, minor: str = "1.36") -> None:
        self.nodes = NodeTable()
        self.slices = ObjectStore[ResourceSlice]()
        for name in ("n1", "n2"):
            self.nodes.put(make_node(name))
        for each in slices:
            self.put(each)
        self.pools = NodePools(self.nodes, Inventory(self.slices), FeatureGates(minor))
        self.log = self.pools.log.reader()
        self.reached()
        self.log.read_new()

    def put(self, each: ResourceSlice) -> None:
        self.slices.put(each.metadata, each)

    def node(self, name: str) -> NodeInfo:
        return next(node for node in self.nodes if node.name == name)

    def reached(self) -> dict[str, list[str]]:
        self.pools.refresh()
        return {node.name: [pool.id.pool for pool in self.pools.for_node(node)] for node in self.nodes}

    def told(self) -> list[str]:
        """Return the nodes that are said to reach others since it was asked last."""
        rows = self.log.read_new()
        assert rows is not None
        return [self.nodes[row].name for row in rows]


def test_pools_are_kept() -> None:
    here = World(a_slice("a", nodeName="n1"), a_slice("b", allNodes=True))
    node = here.node("n1")
    assert here.reached() == {"n1": ["a", "b"], "n2": ["b"]}
    assert here.pools.for_node(node) is here.pools.for_node(node)
    assert here.told() == []


def test_slice_of_one_node_concerns_that_node() -> None:
    here, epoch = World(a_slice("a", nodeName="n1"), a_slice("b", allNodes=True)), 0
    epoch, kept = here.pools.epoch, here.pools.for_node(here.node("n2"))
    here.put(a_slice("c", nodeName="n1"))
    here.put(a_slice("of-nobody", nodeName="n9"))
    assert here.reached() == {"n1": ["a", "b", "c"], "n2": ["b"]}
    assert (here.told(), here.pools.epoch) == (["n1"], epoch)
    assert here.pools.for_node(here.node("n2")) is kept


def test_slice_of_many_nodes_concerns_all() -> None:
    here = World(a_slice("a", nodeName="n1"))
    epoch = here.pools.epoch
    here.put(a_slice("b", allNodes=True))
    assert here.reached() == {"n1": ["a", "b"], "n2": ["b"]}
    assert here.pools.epoch == epoch + 1


def test_other_nodes_are_another_table() -> None:
    here = World(a_slice("a", nodeName="n1"))
    epoch = here.pools.epoch
    here.nodes.put(make_node("n3"))
    here.put(a_slice("c", nodeName="n3"))
    assert here.reached() == {"n1": ["a"], "n2": [], "n3": ["c"]}
    assert here.pools.epoch > epoch


@pytest.mark.parametrize(
    ("reach", "told"), [({"nodeName": "n1"}, []), ({"allNodes": True}, ["n2"]), ({"nodeSelector": FAST}, ["n2"])]
)
def test_labels_matter_where_slices_may_ask_for_them(reach: dict[str, Any], told: list[str]) -> None:
    here = World(a_slice("a", **reach))
    before = here.reached()
    here.nodes.put(make_node("n2", labels={"disk": "ssd"}))
    after = here.reached()
    assert here.told() == told
    assert (before["n2"], after["n2"]) == ((["a"], ["a"]) if "allNodes" in reach else ([], told and ["a"]))


def test_nodes_with_unreadable_pools_are_reported() -> None:
    per_device = [{"name": "x", "nodeSelector": FAST}, {"name": "y", "nodeSelector": UNREADABLE}]
    here = World()
    here.put(a_slice("a", perDeviceNodeSelection=True, devices=per_device))
    here.pools.refresh()
    with pytest.raises(AllocationError, match="gather pool information"):
        here.pools.for_node(here.node("n2"))
    here.nodes.put(make_node("n2", labels={"disk": "ssd"}))
    here.pools.refresh()
    assert here.told() == ["n2"]
    assert [pool.id.pool for pool in here.pools.for_node(here.node("n2"))] == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_they_are_as_if_gathered_anew(seed: int) -> None:
    cluster = ChangingCluster(Random(seed))
    pools, inventory = cluster.devices.pools, cluster.devices.inventory
    for _ in range(60):
        pools.refresh()
        for node in cluster.state.nodes:
            try:
                afresh = inventory.pools(node)
            except AllocationError:
                continue
            assert list(pools.for_node(node)) == [pool for pool in afresh if pool.devices or pool.incomplete]
        cluster.change()


@pytest.mark.parametrize(("minor", "pools"), [("1.36", ["p"]), ("1.37", [])])
def test_pool_of_mere_counters_counts_only_in_1_36(minor: str, pools: list[str]) -> None:
    counters = [{"name": "set", "counters": {"slots": {"value": "1"}}}]
    here = World(a_slice("p", allNodes=True, devices=[], sharedCounters=counters), minor=minor)
    assert here.reached()["n1"] == pools
