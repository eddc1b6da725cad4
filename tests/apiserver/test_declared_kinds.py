"""Kinds that plugins declare, through the client and the fake API server: they are served like any other."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

from kframework.apiserver.in_process import InProcess
from kframework.apiserver.server import ApiServer
from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.cluster.kube_cluster import KubeCluster
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.transport import Request
from kframework.errors import ClusterError
from kframework.objects import ObjectMeta
from kframework.state.inbox import Changed, Gone, Message, Synced
from tests.declared import Quota, Team, team


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_they_are_created_followed_changed_and_deleted() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    client = KubeCluster(InProcess(ApiServer(MemoryCluster(clock), clock)), clock, random=Random(0))
    messages: list[Message] = []
    following = asyncio.ensure_future(client.watch([Team, Quota], messages.append))
    await client.create(team("red", 3))
    await client.create(Quota(metadata=ObjectMeta(name="all")))
    await asyncio.sleep(1.0)

    patched = await client.patch(Team, "red", {"spec": {"maxPods": 5}}, "default")
    stale = replace(patched, metadata=replace(patched.metadata, resource_version="1"))
    with pytest.raises(ClusterError, match=r'teams\.example\.com "red"'):
        await client.update(stale)
    assert [each.spec.max_pods for each in await client.list(Team)] == [5]
    await client.delete(Quota, "all")
    await asyncio.sleep(1.0)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)

    told = [(type(each), each.obj.metadata.name) for each in messages if isinstance(each, Changed | Gone)]
    assert sorted(told[:2], key=str) == [(Changed, "all"), (Changed, "red")]
    assert told[2:] == [(Changed, "red"), (Gone, "all")]
    assert sum(isinstance(each, Synced) for each in messages) == 1


async def test_discovery_names_them() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    server = ApiServer(MemoryCluster(clock), clock)
    answer = await server.answer(Request(method="GET", path="/apis/example.com/v1beta1"))
    assert answer.status == 200
    assert b'"teams"' in answer.body and b'"Team"' in answer.body
