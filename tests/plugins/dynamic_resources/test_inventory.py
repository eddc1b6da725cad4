"""Slices are found by node and by pool as they come, change and go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from kframework.objects import DeviceTaintRule, ResourceSlice
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.pools import gather_pools
from kframework.plugins.dynamic_resources.slices import PoolId, SliceView
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore
from kframework.testing import make_node


def a_slice(name: str, *devices: str, pool: str = "p", version: int = 1, **said: Any) -> ResourceSlice:
    spec = {
        "driver": "d",
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": device} for device in devices],
        **said,
    }
    return msgspec.convert({"metadata": {"name": name, "resourceVersion": str(version)}, "spec": spec}, ResourceSlice)


def node(name: str = "n1") -> NodeInfo:
    table = NodeTable()
    table.put(make_node(name))
    return table[0]


def devices(inventory: Inventory, node_name: str = "n1") -> list[str]:
    return [str(each.id) for pool in inventory.pools(node(node_name)) for each in pool.devices]


def test_slices_are_followed() -> None:
    store = ObjectStore[ResourceSlice]()
    here = a_slice("a", "x", nodeName="n1")
    store.put(here.metadata, here)
    inventory = Inventory(store)
    everywhere = a_slice("b", "y", pool="q", allNodes=True)
    store.put(everywhere.metadata, everywhere)
    assert (devices(inventory), devices(inventory, "n2")) == (["d/p/x", "d/q/y"], ["d/q/y"])
    assert inventory.log.since(0) == ["n1", ""]
    more = a_slice("a", "x", "z", version=2, nodeName="n1")
    store.put(more.metadata, more)
    assert devices(inventory) == ["d/p/x", "d/p/z", "d/q/y"]
    for gone in (more, everywhere):
        store.remove(gone.metadata)
    assert (devices(inventory), inventory.pool_slices(PoolId("d", "p"))) == ([], ())


def _of_pool(views: Sequence[SliceView], pool: PoolId) -> list[SliceView]:
    return [each for each in views if each.pool == pool]


def test_after_any_changes_it_is_as_if_made_anew() -> None:
    random, store = Random(1), ObjectStore[ResourceSlice]()
    inventory = Inventory(store)
    for version in range(1, 200):
        name = f"s{random.randint(0, 5)}"
        if random.random() < 0.3 and store.get(name) is not None:
            known = store.get(name)
            assert known is not None
            store.remove(known.metadata)
        else:
            where: dict[str, Any] = random.choice([{"nodeName": "n1"}, {"nodeName": "n2"}, {"allNodes": True}])
            made = a_slice(name, f"x{version}", pool=random.choice("pq"), version=version, **where)
            store.put(made.metadata, made)
        views = [SliceView(each) for each in store]
        for name in ("n1", "n2"):
            afresh = gather_pools(node(name), views, partial(_of_pool, views))
            expected = [(pool.id, pool.incomplete, [device.id for device in pool.devices]) for pool in afresh]
            found = inventory.pools(node(name))
            assert [(pool.id, pool.incomplete, [device.id for device in pool.devices]) for pool in found] == expected


def taint_rule(name: str, effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    taint = {"key": "broken", "effect": effect}
    written = {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
    return msgspec.convert(written, DeviceTaintRule)


def tainted(inventory: Inventory, node_name: str = "n1") -> dict[str, list[str]]:
    found = [device for pool in inventory.pools(node(node_name)) for device in pool.devices]
    return {device.id.device: list(map(str, device.taints)) for device in found if device.taints}


def test_rules_taint_devices_as_they_come_change_and_go() -> None:
    state = ClusterState()
    slices, rules = state.objects(ResourceSlice), state.objects(DeviceTaintRule)
    first, second = a_slice("a", "x", nodeName="n1"), a_slice("b", "y", pool="q", allNodes=True)
    early = taint_rule("early", pool="q")
    slices.put(first.metadata, first)
    rules.put(early.metadata, early)
    inventory = Inventory.for_stores(state)
    assert Inventory.for_stores(state) is inventory
    slices.put(second.metadata, second)
    assert tainted(inventory) == {"y": ["broken:NoSchedule (rule early)"]}
    position = inventory.log.end
    late = taint_rule("late", device="x")
    rules.put(late.metadata, late)
    assert tainted(inventory) == {
        "x": ["broken:NoSchedule (rule late)"],
        "y": ["broken:NoSchedule (rule early)"],
    }
    assert set(inventory.log.since(position) or ()) == {"n1", ""}
    # It now selects the pool that it did not select before.
    moved = taint_rule("early", "NoExecute", pool="p")
    rules.put(moved.metadata, moved)
    assert tainted(inventory) == {"x": ["broken:NoExecute (rule early)", "broken:NoSchedule (rule late)"]}
    for gone in (moved, late):
        rules.remove(gone.metadata)
    assert tainted(inventory) == {}


def test_status_of_a_rule_changes_no_slice() -> None:
    state = ClusterState()
    here = a_slice("a", "x", nodeName="n1")
    state.objects(ResourceSlice).put(here.metadata, here)
    rule = taint_rule("r")
    state.objects(DeviceTaintRule).put(rule.metadata, rule)
    inventory = Inventory.for_stores(state)
    position = inventory.log.end
    status = {"conditions": [{"type": "EvictionInProgress", "status": "True"}]}
    evicting = msgspec.convert({**msgspec.to_builtins(rule), "status": status}, DeviceTaintRule)
    state.objects(DeviceTaintRule).put(rule.metadata, evicting)
    assert inventory.log.end == position
