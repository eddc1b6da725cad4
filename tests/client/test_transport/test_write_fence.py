"""A closed fence blocks writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import anyio
import msgspec
import pytest

from kframework.client.cluster import Cluster
from kframework.client.flow_control import FlowControl
from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import STOPPED, FencedTransport, Request, Response, WriteFence
from kframework.clock import Clock, LoopClock, VirtualTimeLoop
from kframework.config.load import parse
from kframework.config.models import ClientConnection
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import ApiObject, Pod
from kframework.scheduler.extender import Extender
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.client.scripted import Scripted, listed, ok, refused, some
from tests.support.storage import HOSTNAME, claim, claim_volumes, label_affinity, storage_class, volume

WORDS = "writes are blocked: this scheduler has stopped or lost its lease"


@pytest.fixture
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def test_fence_is_open_until_it_is_closed() -> None:
    fence = WriteFence()
    fence.check()
    fence.close()
    with pytest.raises(ClusterError, match=WORDS) as caught:
        fence.check()
    assert (caught.value.status, caught.value.reason) == (403, STOPPED)


@pytest.mark.anyio
async def test_blocked_write_fails_when_it_is_awaited() -> None:
    with pytest.raises(ClusterError, match=WORDS) as caught:
        await WriteFence().refuse()
    assert (caught.value.status, caught.value.reason) == (403, STOPPED)


def test_fence_is_closed_while_its_condition_is_false() -> None:
    leading = [False]
    fence = WriteFence()
    fence.only_while(lambda: leading[0])
    with pytest.raises(ClusterError, match=WORDS):
        fence.check()
    leading[0] = True
    fence.check()
    fence.close()
    with pytest.raises(ClusterError, match=WORDS):
        fence.check()


async def test_closed_fence_passes_events_only() -> None:
    """Though the leadership, on which all else depends, is over."""
    pods, events = "/api/v1/namespaces/default/pods", "/apis/events.k8s.io/v1/namespaces/default/events"
    leading = [True]
    fence, inner = WriteFence(), Scripted(*[ok({})] * 3)
    fence.only_while(lambda: leading[0])
    transport = FencedTransport(inner, fence)
    fence.hand_over()
    leading[0] = False
    await transport.send(Request(method="POST", path=events))
    await transport.send(Request(method="PATCH", path=f"{events}/e"))
    await transport.send(Request(method="GET", path=pods))
    for method, path in (("POST", f"{pods}/p/binding"), ("PATCH", f"{pods}/p/status"), ("DELETE", f"{pods}/p")):
        with pytest.raises(ClusterError, match=WORDS):
            await transport.send(Request(method=method, path=path))
    fence.close()
    with pytest.raises(ClusterError, match=WORDS):
        await transport.send(Request(method="POST", path=events))
    assert len(inner.requests) == 3


def test_lost_leadership_blocks_events_too() -> None:
    fence = WriteFence()
    fence.only_while(lambda: False)
    with pytest.raises(ClusterError, match=WORDS):
        fence.check_event()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_closed_fence_blocks_all_writes(method: str) -> None:
    fence, inner = WriteFence(), Scripted(ok({}), ok({}), listed(1))
    transport = FencedTransport(inner, fence)
    await transport.send(Request(method=method, path="/"))
    fence.close()
    with pytest.raises(ClusterError, match=WORDS):
        await transport.send(Request(method=method, path="/"))
    await transport.send(Request(method="GET", path="/"))
    async with transport.stream(Request(method="GET", path="/", query=(("watch", "true"),))):
        pass
    await transport.close()
    assert [request.method for request in inner.requests] == [method, "GET", "GET"]
    assert [request.check_before_send for request in inner.requests] == [fence.check, None, None]


async def test_write_that_waited_for_its_turn_is_blocked() -> None:
    clock, fence, inner = LoopClock(asyncio.get_running_loop()), WriteFence(), Scripted(*[ok({})] * 3)
    transport = FlowControl(FencedTransport(inner, fence), ClientConnection(qps=1, burst=1), clock)
    cluster = KubeCluster(transport, clock, random=None)  # type: ignore[arg-type]  # only watches take chances
    refusals = list[ClusterError]()

    async def bind(name: str) -> None:
        try:
            await cluster.bind("default", name, "", "n")
        except ClusterError as error:
            refusals.append(error)

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(bind, name)
        await asyncio.sleep(1.5)
        fence.close()
    assert [request.path.rpartition("pods/")[2] for request in inner.requests] == ["a/binding", "b/binding"]
    assert [error.reason for error in refusals] == [STOPPED]


async def test_retried_write_is_blocked() -> None:
    clock, fence, inner = (
        LoopClock(asyncio.get_running_loop()),
        WriteFence(),
        Scripted(refused(429, retry_after="5")),
    )
    cluster = KubeCluster(FencedTransport(inner, fence), clock, random=None)  # type: ignore[arg-type]  # only watches take chances
    asyncio.get_running_loop().call_later(1.0, fence.close)
    with pytest.raises(ClusterError, match=WORDS):
        await cluster.delete(Pod, make_pod("web").metadata.name)
    assert len(inner.requests) == 1


async def test_reads_pass_a_closed_fence() -> None:
    clock, fence, inner = LoopClock(asyncio.get_running_loop()), WriteFence(), Scripted(ok(some("web", 1)))
    fence.close()
    cluster = KubeCluster(FencedTransport(inner, fence), clock, random=None)  # type: ignore[arg-type]  # only watches take chances
    assert (await cluster.get(Pod, "web")).metadata.name == "web"


# -- a whole scheduler, whose fence is closed at any turn of its loop --------------------------------------------------

EXTENDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://extender
  bindVerb: bind
  managedResources: [{name: example.com/thing}]
"""

#: All that a scheduler writes: to the API server, as method and a part of the path, and to the cluster in memory.
VOLUMES = ("persistentvolumes", "persistentvolumeclaims")
TO_THE_SERVER = {
    "POST binding",
    "PATCH status",
    "DELETE pods",
    *(f"PATCH {plural}" for plural in VOLUMES),
    "POST events",
    "ask extender to bind",
}
TO_THE_CLUSTER = {
    "bind Pod",
    "patch_pod_status Pod",
    "delete Pod",
    "patch PersistentVolume",
    "patch PersistentVolumeClaim",
    "record_event Event",
    "ask extender to bind",
}


class Turns(VirtualTimeLoop):
    """A loop that calls back before one of its turns."""

    turns = 0

    def __init__(self, turn: int, act: Callable[[], None]) -> None:
        super().__init__()
        self._turn, self._act = turn, act

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns == self._turn:
            self._act()
        super()._run_once()  # type: ignore[misc]  # nothing else tells one turn from the next


class Books:
    """What was written while the fence was open, and while it was not."""

    def __init__(self, fence: WriteFence) -> None:
        self._fence = fence
        self.written = set[str]()
        self.too_late = list[str]()
        self.last_turn = 0

    def note(self, write: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Turns)
        self.written.add(write)
        self.last_turn = loop.turns
        try:
            self._fence.check()
        except ClusterError:
            self.too_late.append(write)


class Noted(InProcessTransport):
    """The way to the server, on which writes are noted."""

    def __init__(self, server: ApiServer, books: Books) -> None:
        super().__init__(server)
        self._books = books

    async def send(self, request: Request) -> Response:
        """Note a write, and have it done."""
        if request.method != "GET":
            *_, part, name = request.path.split("/")
            self._books.note(f"{request.method} {part if request.method == 'DELETE' or part in VOLUMES else name}")
        return await super().send(request)


class NotedLine(HttpExtenderTransport):
    """The way to an extender, which binds pods."""

    def __init__(self, books: Books, store: MemoryCluster) -> None:
        self._books = books
        self._store = store

    async def start(self) -> None:
        pass

    async def send(self, verb: str, request: bytes) -> bytes:
        self._books.note(f"ask extender to {verb}")
        asked = msgspec.json.decode(request)
        self._store.assign(asked["PodNamespace"], asked["PodName"], asked["PodUID"], asked["Node"])
        return b"{}"

    async def close(self) -> None:
        pass


def world() -> list[ApiObject]:
    """A cluster in which a scheduler has to write all that it ever writes."""
    here, there = {HOSTNAME: "a"}, {HOSTNAME: "b"}
    return [
        make_node("a", cpu=4),
        make_node("b", cpu=4),
        *(make_pod(f"victim-{number}", cpu=2, node_name="a", priority=0) for number in range(2)),
        make_pod("outranked", cpu=4, node_selector=here, priority=5, nominated_node_name="a"),
        make_pod("urgent", cpu=4, node_selector=here, priority=10),
        make_pod("plain", node_selector=there),
        make_pod("extended", requests={"example.com/thing": 0}, node_selector=there),
        storage_class(),
        volume(on=label_affinity(HOSTNAME, "b")),
        claim(),
        make_pod("disk", volumes=claim_volumes("data")),
        storage_class("made", "example.com/csi"),
        claim("new", "made"),
        make_pod("new", volumes=claim_volumes("new"), node_selector=there),
    ]


def over_its_client(store: MemoryCluster, clock: Clock, fence: WriteFence, books: Books) -> Cluster:
    """Reach a cluster as `kframework run` does: requests wait for their turn, then for the fence."""
    fenced = FencedTransport(Noted(ApiServer(store, clock), books), fence)
    return KubeCluster(FlowControl(fenced, ClientConnection(qps=50, burst=2), clock), clock, random=Random(0))


def directly(store: MemoryCluster, clock: Clock, fence: WriteFence, books: Books) -> Cluster:
    """Reach a cluster without a fence on the way: those who write must ask by themselves."""

    def note(method: str, kind: type[ApiObject], namespace: str, name: str) -> None:
        if method not in ("get", "list", "watch"):
            books.note(f"{method} {kind.__name__}")

    store.faults.append(note)
    return store


Way = Callable[[MemoryCluster, Clock, WriteFence, Books], Cluster]


def closed_at(turn: int, way: Way) -> Books:
    """Schedule for a while, and close the fence before a turn of the loop."""
    fence = WriteFence()
    books = Books(fence)

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        store = MemoryCluster(clock, world())
        line = NotedLine(books, store)
        scheduler = Scheduler(
            parse(EXTENDED),
            way(store, clock, fence, books),
            clock,
            slice=0.0,
            fence=fence,
            extender=lambda settings: Extender(settings, line),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(VolumeController(store).run)
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(2.5)
            tasks.cancel_scope.cancel()

    with asyncio.Runner(loop_factory=lambda: Turns(turn, fence.close)) as runner:
        runner.run(main())
    return books


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "everything", "step"),
    [(directly, TO_THE_CLUSTER, 1), (over_its_client, TO_THE_SERVER, 2)],
    ids=["asked", "fenced"],
)
def test_no_write_follows_the_closing_of_the_fence(way: Way, everything: set[str], step: int) -> None:
    whole = closed_at(0, way)
    assert whole.written == everything
    for turn in range(1, whole.last_turn + 2, step):
        assert closed_at(turn, way).too_late == [], f"the fence was closed before turn {turn}"
