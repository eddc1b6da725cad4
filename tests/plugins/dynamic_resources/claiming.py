"""Nodes with devices, and an API for one plugin with another client at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from kframework import ClusterError
from kframework.clock import LoopClock, run_virtual
from kframework.framework.handle import Api
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, DeviceClass, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.writes import ClaimWrites
from kframework.testing import stub_handle

__all__ = ["GPUS", "Calls", "a_class", "failing", "gpus", "wanting", "with_api"]

T = TypeVar("T")
DRIVER = "gpu.example.com"


def gpus(node_name: str, *names: str, pool: str = "", device: Mapping[str, Any] = {}) -> ResourceSlice:
    """Make a slice of a node, which is a pool: these devices, otherwise all like `device`."""
    devices = [{"name": name, **device} for name in names]
    about = {"name": pool or node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node_name, "pool": about, "devices": devices}
    return msgspec.convert({"metadata": {"name": f"slice-{pool or node_name}"}, "spec": spec}, ResourceSlice)


def a_class(name: str = "gpu", extended: str | None = None) -> DeviceClass:
    """Make a class of all devices."""
    return msgspec.convert({"metadata": {"name": name}, "spec": {"extendedResourceName": extended}}, DeviceClass)


def wanting(
    name: str = "c",
    count: int = 1,
    *,
    device_class: str = "gpu",
    constraints: Sequence[Mapping[str, Any]] = (),
    **status: Any,
) -> ResourceClaim:
    """Make a claim to this number of devices."""
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}], "constraints": constraints}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, ResourceClaim)


#: The class of all devices, under which pods may ask for them by the name of an extended resource too.
GPUS = a_class(extended="example.com/gpu")


class Calls:
    """Notes what is written, and lets a call fail, or another client be quicker, a given number of times at first."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.made: list[str] = []
        self._befalls: list[tuple[str, Fault | Callable[[MemoryCluster], object]]] = []
        cluster.faults.append(self._ask)

    def befall(self, method: str, fault: Fault | Callable[[MemoryCluster], object], times: int = 1) -> None:
        """Let this befall the next calls of a method, one each."""
        self._befalls += [(method, fault)] * times

    def _ask(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if kind is not ResourceClaim and method != "patch_status":
            return None
        self.made.append(method)
        place = next((index for index, (of, _) in enumerate(self._befalls) if of == method), None)
        if place is None:
            return None
        _, fault = self._befalls.pop(place)
        if isinstance(fault, Fault):
            return fault
        fault(self.cluster)
        return None


def failing(status: int, text: str = "no", *, done: bool = False) -> Fault:
    """Let a call fail, `done` though it seems not."""
    return Fault(error=ClusterError(text, status=status), done=done)


def with_api(
    *objects: ApiObject, do: Callable[[ClaimWrites, MemoryCluster, Calls], Coroutine[Any, Any, T]]
) -> tuple[T, float]:
    """Let claims be written on a cluster of these objects, and tell how many virtual seconds that took."""

    async def main() -> tuple[T, float]:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, objects)
        began = clock.now()
        result = await do(ClaimWrites(stub_handle(api=cast("Api", cluster))), cluster, Calls(cluster))
        return result, clock.now() - began

    return run_virtual(main)
