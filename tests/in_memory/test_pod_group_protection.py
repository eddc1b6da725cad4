"""A deleted PodGroup stays until its pods have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.group_admission import PROTECTION
from kframework.in_memory.pod_group_protection import PodGroupProtectionController
from kframework.objects import ApiObject, Pod, PodGroup
from kframework.testing import make_pod
from tests.support.groups import basic, members


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@asynccontextmanager
async def protected(*objects: ApiObject) -> AsyncIterator[MemoryCluster]:
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    task = asyncio.ensure_future(PodGroupProtectionController(memory, clock).run())
    await asyncio.sleep(0.1)
    yield memory
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def is_there(cluster: MemoryCluster) -> bool:
    return cluster.find(PodGroup, "g", "default") is not None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_deleted_group_stays_until_its_pods_have_ended(phase: str) -> None:
    first, second = members("g", 2)
    async with protected(basic("g"), first, second, make_pod("other"), *members("h", 1)) as cluster:
        cluster.remove(PodGroup, "g", "default")
        await asyncio.sleep(0.1)
        assert cluster.read(PodGroup, "g", "default").metadata.finalizers == (PROTECTION,)
        pod = cluster.read(Pod, "g-0", "default")
        cluster.set_status(pod, replace(pod.status, phase=phase))
        await asyncio.sleep(0.1)
        assert is_there(cluster)
        cluster.remove(Pod, "g-1", "default", grace=0)
        await asyncio.sleep(0.1)
        assert not is_there(cluster)


async def test_unused_group_is_deleted_at_once() -> None:
    (ended,) = members("g", 1)
    ended = replace(ended, status=replace(ended.status, phase="Succeeded"))
    async with protected(basic("g"), ended) as cluster:
        cluster.remove(PodGroup, "g", "default")
        await asyncio.sleep(0.1)
        assert not is_there(cluster)


async def test_used_group_without_the_finalizer_gets_it() -> None:
    async with protected(basic("g")) as cluster:
        cluster.merge(PodGroup, "g", {"metadata": {"finalizers": None}}, "default")
        await asyncio.sleep(0.1)
        assert cluster.read(PodGroup, "g", "default").metadata.finalizers == ()
        cluster.add(members("g", 1)[0])
        await asyncio.sleep(0.1)
        assert cluster.read(PodGroup, "g", "default").metadata.finalizers == (PROTECTION,)


async def test_other_finalizers_of_a_group_stay() -> None:
    group = basic("g")
    async with protected(replace(group, metadata=replace(group.metadata, finalizers=("example.com/held",)))) as cluster:
        cluster.remove(PodGroup, "g", "default")
        await asyncio.sleep(0.1)
        assert cluster.read(PodGroup, "g", "default").metadata.finalizers == ("example.com/held",)
