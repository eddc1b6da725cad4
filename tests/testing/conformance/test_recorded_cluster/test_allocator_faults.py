"""What kube-scheduler 1.36.2's allocator loses, and ours does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from kframework.objects import ResourceSlice
from kframework.plugins.dynamic_resources.allocator import DeviceSearch
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.slices import SliceView
from kframework.testing.conformance.recorded_cluster import LossySearch
from tests.plugins.dynamic_resources.worlds import DRIVER, InUse, World, selects, world

ONE = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}


def request(name: str, **said: object) -> dict[str, Any]:
    return {"name": name, "exactly": {**ONE, **said}}


def device(name: str, *, numa: int = 0, takes: int = 0, **said: object) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "attributes": {"numa": {"int": numa}}, **said}
    if takes:
        made["consumesCounters"] = [{"counterSet": "whole", "counters": {"slices": {"value": str(takes)}}}]
    return made


def pool(*devices: Mapping[str, object], slices: int = 4) -> dict[str, Any]:
    return {"devices": devices, "sharedCounters": [{"name": "whole", "counters": {"slices": {"value": str(slices)}}}]}


def devices(search: type[DeviceSearch], here: World) -> list[str] | None:
    allocated = search(here.claims, here.asked, here.pools, here.in_use, selects).run(10_000)
    return None if allocated is None else [each.device.id.device for chosen in allocated for each in chosen]


NUMA = f"{DRIVER}/numa"
TAINT: dict[str, Any] = {"taints": [{"key": "broken", "effect": "NoSchedule"}]}
SHARED: dict[str, Any] = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}


@pytest.mark.parametrize(
    ("slices", "claim", "ours", "theirs"),
    [
        # a tainted device keeps what it would have taken
        ([pool(device("a", takes=3, **TAINT), device("b", takes=2))], {"requests": [request("r")]}, ["b"], None),
        # so does one that a constraint refuses
        (
            [pool(device("a", takes=2), device("b", takes=2, numa=1), device("c", takes=2))],
            {"requests": [request("r", count=2)], "constraints": [{"matchAttribute": NUMA}]},
            ["a", "c"],
            None,
        ),
        # a shared device that led nowhere keeps it
        (
            [pool(device("a", takes=4, **SHARED), device("b", takes=4, numa=1), device("c", numa=1))],
            {"requests": [request("x"), request("y")], "constraints": [{"matchAttribute": NUMA}]},
            ["b", "c"],
            None,
        ),
        # of a request's values the last one counts alone
        (
            [pool(device("a"), device("b", numa=1), device("c"))],
            {"requests": [request("r", count=3)], "constraints": [{"distinctAttribute": NUMA}]},
            None,
            ["a", "b", "c"],
        ),
    ],
)
def test_lossy_search_loses_counters_and_values(
    slices: Sequence[Mapping[str, object]],
    claim: Mapping[str, object],
    ours: list[str] | None,
    theirs: list[str] | None,
) -> None:
    here = world(slices, [claim], InUse())
    assert (devices(DeviceSearch, here), devices(LossySearch, here)) == (ours, theirs)


def test_pools_of_one_name_share_counters() -> None:
    """Though their drivers are two."""
    pools = []
    for driver in ("a.example.com", "b.example.com"):
        said = {
            "driver": driver,
            "pool": {"name": "n1", "resourceSliceCount": 1},
            "allNodes": True,
            **pool(device("x", takes=3)),
        }
        view = SliceView(msgspec.convert({"metadata": {"name": driver}, "spec": said}, ResourceSlice))
        pools.append(Pool(view.pool, (view,)))
    here = world([], [{"requests": [request("r", count=2)]}], InUse())._replace(pools=pools)
    search = (here.claims, here.asked, here.pools, here.in_use, lambda *_: True)
    assert DeviceSearch(*search).run(1000) is not None
    assert LossySearch(*search).run(1000) is None
