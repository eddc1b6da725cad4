"""Three ways to one cluster: directly, and by the client of a real one without a network and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import pytest
from msgspec.structs import replace

from kframework._version import __version__
from kframework.client.cluster import Cluster
from kframework.client.kube import ConnectionSettings, connect
from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import Transport
from kframework.clock import LoopClock, SystemClock
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.fake_api.web import serve
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Container, Lease, LeaseSpec, Node, NodeStatus, ObjectMeta, Pod, PodSpec
from kframework.state.inbox import Deleted, Message, Synced, Upserted
from tests.support.faulty_transport import FaultyTransport, Rates

#: How long anything may take that takes milliseconds, in seconds; on virtual time it is over at once.
DEADLINE = 20.0

#: To look the version up takes reading a file, which no loop should wait for.
_AGENT = f"kframework/{__version__}"


class Stage:
    """A cluster as a client sees it, and `store`, its own side: there the kubelet and all others write."""

    def __init__(self, client: Cluster, store: MemoryCluster, interrupt: Callable[[], None]) -> None:
        self.client = client
        self.store = store
        #: Breaks every watch; as long as nobody waits for anything, none is resumed.
        self.interrupt = interrupt

    @asynccontextmanager
    async def watching(self, *kinds: type[ApiObject], ended_pods: bool = False) -> AsyncIterator[Watched]:
        """Follow these kinds; what is there already has arrived when the block begins."""
        watched = Watched()
        task = asyncio.ensure_future(self.client.watch(kinds, watched.offer, ended_pods=ended_pods))
        await watched.until("synced")
        yield watched
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Watched:
    """The messages of a watch so far."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._grown = asyncio.Event()

    def offer(self, message: Message) -> None:
        self.messages.append(message)
        self._grown.set()

    async def until(self, word: str) -> list[str]:
        """Wait until this message has arrived, and return all so far, in short."""
        async with asyncio.timeout(DEADLINE):
            while word not in self.words:
                self._grown.clear()
                await self._grown.wait()
        return self.words

    @property
    def words(self) -> list[str]:
        """All messages, in short: `+name` for Upserted, `-name` for Deleted, `synced`."""
        return [_word(message) for message in self.messages]


def _word(message: Message) -> str:
    match message:
        case Upserted(obj):
            return f"+{obj.metadata.name}"
        case Deleted(obj):
            return f"-{obj.metadata.name}"
        case Synced():
            return "synced"
    raise AssertionError(f"a watch does not tell {message}")


@asynccontextmanager
async def directly() -> AsyncIterator[Stage]:
    store = MemoryCluster(LoopClock(asyncio.get_running_loop()))
    yield Stage(store, store, lambda: None)


@asynccontextmanager
async def in_process() -> AsyncIterator[Stage]:
    clock = LoopClock(asyncio.get_running_loop())
    store = MemoryCluster(clock)
    yield _stage(InProcessTransport(ApiServer(store, clock)), store, clock)


@asynccontextmanager
async def http_extender() -> AsyncIterator[Stage]:
    clock = SystemClock()
    store = MemoryCluster(clock)
    async with serve(ApiServer(store, clock)) as port:
        transport = await connect(ConnectionSettings(server=f"http://127.0.0.1:{port}", user_agent=_AGENT))
        yield _stage(transport, store, clock)
        await transport.close()


def _stage(transport: Transport, store: MemoryCluster, clock: LoopClock | SystemClock) -> Stage:
    """Put a client on a transport; it lists in pages of two, so that every list is one of several pages."""
    breakable = FaultyTransport(transport, Random(0), Rates(), clock)
    client = KubeCluster(breakable, clock, random=Random(0), page=2)
    return Stage(client, store, lambda: breakable.restart(0.0))


WAYS: Mapping[str, Callable[[], AbstractAsyncContextManager[Stage]]] = {
    "memory": directly,
    "in process": in_process,
    "http": http_extender,
}


def pod(name: str = "web", *, namespace: str = "default", **spec: object) -> Pod:
    one_container = PodSpec(containers=(Container(name="main", image="registry.example/app:1"),))
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=replace(one_container, **spec))


def node(name: str = "n1", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(capacity={"cpu": "4"}))


def lease(name: str = "boss", holder: str = "a") -> Lease:
    metadata = ObjectMeta(name=name, namespace="kube-system")
    return Lease(metadata=metadata, spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=15))


async def refusal(call: Awaitable[object]) -> tuple[int, str, str]:
    """Return status, reason and message of a call that must be refused."""
    with pytest.raises(ClusterError) as caught:
        await call
    return caught.value.status, caught.value.reason, str(caught.value)
