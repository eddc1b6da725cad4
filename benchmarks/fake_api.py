"""What a pod costs the fake API server: it is created and bound, without the network."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from time import process_time

import msgspec

from kframework.client.transport import Request
from kframework.clock import LoopClock
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster

_PODS = "/api/v1/namespaces/default/pods"
#: So many go before, for caches.
_FIRST = 200


def created_and_bound(pods: int, rounds: int) -> float:
    """Measure a pod in microseconds of processor time: the best of several rounds, as other work only adds to it."""
    return min(asyncio.run(_round(pods)) for _ in range(rounds))


async def _round(pods: int) -> float:
    clock = LoopClock(asyncio.get_running_loop())
    server = ApiServer(MemoryCluster(clock), clock)
    await create_and_bind(server, 0, _FIRST)
    gc.collect()
    began = process_time()
    await create_and_bind(server, _FIRST, _FIRST + pods)
    return (process_time() - began) / pods * 1e6


async def create_and_bind(server: ApiServer, start: int, end: int) -> None:
    """Create pods of one template with numbers from `start` to `end`, and bind each."""
    for number in range(start, end):
        for request in _requests(f"pod-{number}"):
            await server.prepare(request)
            answer = await server.answer(request)
            assert answer.status == 201, answer


def _requests(name: str) -> Iterator[Request]:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "app:1", "resources": resources}]},
    }
    yield Request(method="POST", path=_PODS, body=msgspec.json.encode(pod))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": "n1"},
    }
    yield Request(method="POST", path=f"{_PODS}/{name}/binding", body=msgspec.json.encode(binding))
