"""Devices of a node `n1`, and claims that ask for some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kframework.objects import DeviceClass, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.shortfalls import Shortfalls
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from tests.support.device_objects import DRIVER, resource_slice

__all__ = [
    "CARD",
    "MODEL",
    "NUMA",
    "WORN",
    "asking",
    "claim",
    "device_class",
    "give_devices",
    "gpu",
    "partition",
    "request",
    "shortfalls",
    "slice_of_n1",
]

MODEL, NUMA = f"device.attributes['{DRIVER}'].model", f"device.attributes['{DRIVER}'].numa"
WORN = {"key": "worn", "effect": "NoSchedule"}


def gpu(name: str, model: str = "a", numa: int | None = 0, **said: Any) -> dict[str, Any]:
    """Write a device of a model, on one side or on none."""
    attributes: dict[str, Any] = {"model": {"string": model}}
    if numa is not None:
        attributes["numa"] = {"int": numa}
    return {"name": name, "attributes": attributes, **said}


def device_class(name: str = "gpu") -> DeviceClass:
    """Make a class of all devices but those of the model `other`."""
    selectors = [{"cel": {"expression": f"{MODEL} != 'other'"}}]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"selectors": selectors}}, DeviceClass)


def claim(*requests: dict[str, Any], name: str = "c", **said: Any) -> ResourceClaim:
    """Make a claim of requests."""
    spec = {"devices": {"requests": list(requests), **said}}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, ResourceClaim)


def request(name: str = "r", count: int = 1, *, selectors: Sequence[str] = (), **said: Any) -> dict[str, Any]:
    """Write a request for `count` devices."""
    written = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": {**asking(count), "selectors": written, **said}}


def asking(count: int = 1) -> dict[str, Any]:
    """Write what a request for `count` devices asks for."""
    return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}


def give_devices(*devices: str, by: str = "holder", pool: str = "n1", **result: Any) -> ResourceClaim:
    """Let a pod have devices."""
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": each, **result} for each in devices]
    users = [{"resource": "pods", "name": by, "uid": make_pod(by).metadata.uid}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    metadata = {"namespace": "default", "name": f"of-{by}"}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def shortfalls(
    slices: Sequence[ResourceSlice], claims: Sequence[ResourceClaim], in_use: Sequence[ResourceClaim] = ()
) -> Shortfalls:
    """Say what claims lack on `n1`, where others have devices."""
    cluster = ClusterState()
    for name in ("n1", "n2"):
        cluster.put_node(make_node(name))
    for each in (*slices, device_class(), *in_use):
        cluster.objects(type(each)).put(each.metadata, each)
    node = cluster.nodes.find("n1")
    assert node is not None
    return Shortfalls(Devices(cluster), claims, node)  # type: ignore[arg-type]  # stores are all that it asks for


def slice_of_n1(*devices: dict[str, Any], **said: Any) -> ResourceSlice:
    """Make a slice of the node `n1`."""
    return resource_slice("n1", devices, nodeName="n1", **said)


CARD = [{"name": "card", "counters": {"memory": {"value": "40"}}}]


def partition(name: str, memory: int) -> dict[str, Any]:
    """Write a device that takes so much of the memory of a card."""
    return gpu(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": str(memory)}}}])
