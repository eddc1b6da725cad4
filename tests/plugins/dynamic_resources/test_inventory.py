"""Slices are found by node and by pool as they come, change and go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from kframework.objects import ResourceSlice
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.pools import gather_pools
from kframework.plugins.dynamic_resources.slices import PoolId, SliceView
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


def test_slices_come_change_and_go() -> None:
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
