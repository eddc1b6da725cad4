"""Which pools of devices a node can reach, and in what state they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kframework.objects import Node, ResourceSlice
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.pools import Pool, gather_pools
from kframework.plugins.dynamic_resources.slices import PoolId, SliceView
from kframework.state.nodes import NodeTable
from kframework.testing import make_node

HERE: dict[str, Any] = {"nodeName": "n1"}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
ELSEWHERE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
BAD = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}


def a_slice(
    name: str, *devices: str, pool: str = "p", generation: int = 1, count: int = 1, driver: str = "d", **said: Any
) -> SliceView:
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": device} for device in devices],
        **said,
    }
    return SliceView(msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice))


def pools(*slices: SliceView, node: Node | None = None) -> list[Pool]:
    """Gather the pools that the node n1 in zone a can reach."""
    table = NodeTable()
    table.put(node or make_node("n1", labels={"zone": "a"}))
    info = table[table.row("n1") or 0]
    here = [each for each in slices if each.node_name in ("", "n1")]

    def of(pool: PoolId) -> Sequence[SliceView]:
        return [each for each in slices if each.pool == pool]

    return gather_pools(info, here, of)


def devices(*found: Pool) -> list[str]:
    return [str(device.id) for pool in found if pool.is_usable for device in pool.devices]


@pytest.mark.parametrize(
    ("said", "reached"),
    [
        (HERE, True),
        ({"nodeName": "n2"}, False),
        ({"allNodes": True}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [ZONE]}}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [ELSEWHERE]}}, False),
        ({}, False),
    ],
)
def test_devices_are_accessible_from_the_nodes_of_their_slice(said: dict[str, Any], reached: bool) -> None:
    assert devices(*pools(a_slice("s", "x", **said))) == ["d/p/x"] * reached


def test_each_device_may_say_it_itself() -> None:
    there = {"name": "x", "nodeName": "n2"}
    near = {"name": "y", "nodeSelector": {"nodeSelectorTerms": [ZONE]}}
    assert pools(a_slice("s", perDeviceNodeSelection=True, devices=[there])) == []
    (pool,) = pools(a_slice("s", perDeviceNodeSelection=True, devices=[there, near]))
    assert [device.access.matches for device in pool.devices] and devices(pool) == ["d/p/x", "d/p/y"]


def test_selector_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(AllocationError, match="failed to perform node selection for slice s: "):
        pools(a_slice("s", "x", nodeSelector={"nodeSelectorTerms": [BAD]}))


def test_pools_slices_and_devices_have_an_order() -> None:
    waits = {"name": "w", "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    found = pools(
        a_slice("b", "3", count=2, **HERE),
        a_slice("a", "2", "1", count=2, **HERE),
        a_slice("s", "x", pool="o", **HERE),
        a_slice("s", "x", driver="c", **HERE),
        a_slice("s", pool="a", **{**HERE, "devices": [waits]}),
    )
    assert devices(*found) == ["c/p/x", "d/o/x", "d/p/2", "d/p/1", "d/p/3", "d/a/w"]


def test_only_the_latest_generation_counts() -> None:
    old, new = a_slice("a", "old", **HERE), a_slice("b", "new", generation=2, **HERE)
    for slices in ((old, new), (new, old)):
        assert devices(*pools(*slices)) == ["d/p/new"]


def test_pool_of_which_slices_are_missing_is_incomplete() -> None:
    (pool,) = pools(a_slice("a", "x", count=2, **HERE))
    assert (pool.incomplete, pool.is_usable) == (True, False)


def test_slices_for_other_nodes_complete_a_pool() -> None:
    there = a_slice("b", "y", count=2, nodeName="n2")
    assert devices(*pools(a_slice("a", "x", count=2, **HERE), there)) == ["d/p/x"]


def test_pool_that_is_being_replaced_elsewhere_is_left_out() -> None:
    newer = a_slice("b", "y", count=2, generation=2, nodeName="n2")
    assert pools(a_slice("a", "x", count=2, **HERE), newer) == []


def takes(counter_set: str = "c", counter: str = "k", name: str = "x") -> dict[str, Any]:
    return {"name": name, "consumesCounters": [{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}]}


COUNTERS = {"name": "c", "counters": {"k": {"value": "2"}}}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"devices": [{"name": "x"}, {"name": "x"}]}, "duplicate device name x"),
        ({"sharedCounters": [COUNTERS, COUNTERS]}, "duplicate counter set name c"),
        ({"devices": [takes()]}, "counter set c not found"),
        ({"devices": [takes(counter="l")], "sharedCounters": [COUNTERS]}, "counter l not found in counter set c"),
        ({"devices": [takes()], "sharedCounters": [COUNTERS]}, ""),
    ],
)
def test_problem_makes_a_pool_unusable(spec: dict[str, Any], wrong: str) -> None:
    (pool,) = pools(a_slice("s", **{**HERE, **spec}))
    assert (pool.error, pool.is_usable) == (wrong, not wrong)


def test_devices_of_other_nodes_consume_shared_counters_too() -> None:
    counters = a_slice("c", count=3, sharedCounters=[COUNTERS], nodeName="n2")
    here = a_slice("a", count=3, **{**HERE, "devices": [takes()]})
    there = a_slice("b", count=3, nodeName="n2", devices=[takes(name="y")])
    (pool,) = pools(counters, here, there)
    assert [device.id.device for device in pool.consumers] == ["x", "y"]
    assert (devices(pool), pool.counters) == (["d/p/x"], {("c", "k"): 2 * 10**9})
    lost = a_slice("b", count=3, nodeName="n2", devices=[takes("e", name="y")])
    assert pools(counters, here, lost)[0].error == "counter set e not found"
