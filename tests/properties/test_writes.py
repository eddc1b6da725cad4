"""Every pod of a drain has its Scheduled event, once, however slow the server is and whatever befalls it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import anyio
import pytest
from anyio.abc import TaskGroup

from kframework.client.flow_control import FlowControl
from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.clock import LoopClock, run_virtual
from kframework.config.load import parse
from kframework.config.models import ClientConnection
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Event, Pod
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.support.faulty_transport import FaultyTransport, Rates
from tests.support.slow_server import SlowServer

CONFIGURATION = parse("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
PODS = 1000


class Drain:
    """A scheduler that meets many pods at once, over a slow server."""

    def __init__(
        self,
        capacity: float,
        latency: float,
        around: Callable[[Transport], Transport] = lambda api: api,
        qps: float = -1.0,
        pods: int = PODS,
    ) -> None:
        self.pods = pods
        self.loop = asyncio.get_running_loop()
        clock = LoopClock(self.loop)
        nodes = [make_node(f"n{number}", cpu="1000", memory="1000Gi", pods=pods) for number in range(3)]
        self.store = MemoryCluster(clock, [*nodes, *(make_pod(f"p{number}") for number in range(pods))])
        api = around(InProcessTransport(ApiServer(self.store, clock)))
        self.server = SlowServer(capacity, latency, api)
        transport = FlowControl(self.server, ClientConnection(qps=qps, burst=100), clock)
        self.scheduler = Scheduler(CONFIGURATION, KubeCluster(transport, clock, random=Random(0)), clock, slice=0.0)

    @property
    def bound(self) -> int:
        return sum(bool(pod.spec.node_name) for pod in self.store.objects(Pod))

    @property
    def told(self) -> Counter[str]:
        """How often each pod was reported as bound."""
        return Counter(event.regarding.name for event in self.store.objects(Event) if event.reason == "Scheduled")

    async def until(self, over: Callable[[], bool], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not over():  # noqa: ASYNC110  # what is waited for has no event, and the time is virtual
                await asyncio.sleep(0.5)


def complete(drain: Drain) -> None:
    """Check that every pod was reported once."""
    told = drain.told
    assert (drain.bound, len(told), set(told.values())) == (drain.pods, drain.pods, {1})
    assert not any(drain.scheduler.outbox.dropped.values())


@pytest.mark.slow
@pytest.mark.parametrize(("capacity", "latency"), [(400, 0.01), (1000, 0.05)])
def test_no_event_is_lost_over_a_slow_server(capacity: float, latency: float) -> None:
    async def main() -> None:
        drain = Drain(capacity, latency)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.scheduler.run)
            await drain.until(lambda: drain.bound == PODS, 60.0)
            behind = PODS - len(drain.told)
            assert behind > PODS // 2, "bindings went first"
            assert behind < 0.95 * PODS, "and events have not stood still"
            await drain.until(lambda: drain.scheduler.outbox.is_empty, 60.0)
            assert drain.loop.time() < 1.25 * 2 * PODS / capacity + 5.0
            complete(drain)
            tasks.cancel_scope.cancel()

    run_virtual(main)


@pytest.mark.slow
def test_no_event_is_lost_in_an_outage() -> None:
    async def main() -> None:
        drain = Drain(400, 0.01)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.scheduler.run)
            await drain.until(lambda: drain.bound >= PODS // 2, 60.0)
            drain.server.down = True
            await asyncio.sleep(60.0)
            drain.server.down = False
            await drain.until(lambda: drain.bound == PODS and drain.scheduler.outbox.is_empty, 300.0)
            complete(drain)
            tasks.cancel_scope.cancel()

    run_virtual(main)


@pytest.mark.slow
def test_no_event_is_lost_or_duplicated_under_faults() -> None:
    rates = Rates(too_many_requests=0.02, internal_error=0.01, unavailable=0.01, lost=0.002, unanswered=0.004)

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        drain = Drain(400, 0.01, lambda api: FaultyTransport(api, Random(0), rates, clock))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.scheduler.run)
            await drain.until(lambda: drain.bound == PODS and drain.scheduler.outbox.is_empty, 3000.0)
            complete(drain)
            tasks.cancel_scope.cancel()

    run_virtual(main)


class LateBindings(TransportLayer):
    """Breaks the connections of the first four bindings of each pod, which are executed half a second later."""

    def __init__(self, inner: Transport, tasks: TaskGroup) -> None:
        super().__init__(inner)
        self._tasks = tasks
        self._sent: Counter[str] = Counter()

    async def send(self, request: Request) -> Response:
        self._sent[request.path] += 1
        if not request.path.endswith("/binding") or self._sent[request.path] > 4:
            return await self._inner.send(request)
        self._tasks.start_soon(self._send_later, request)
        raise ClusterError("the connection was reset", status=0, retryable=True)

    async def _send_later(self, request: Request) -> None:
        await asyncio.sleep(0.5)
        await self._inner.send(request)


def test_pod_whose_failed_binding_is_executed_later_has_one_event() -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            drain = Drain(1000, 0.01, around=lambda api: LateBindings(api, tasks), pods=2)
            tasks.start_soon(drain.scheduler.run)
            await drain.until(lambda: drain.bound == drain.pods, 60.0)
            await drain.until(lambda: drain.scheduler.outbox.is_empty, 60.0)
            await asyncio.sleep(10.0)  # the watch shows the last binding
            complete(drain)
            tasks.cancel_scope.cancel()

    run_virtual(main)


@pytest.mark.long
def test_configured_client_rates_are_respected() -> None:
    async def main() -> None:
        drain = Drain(400, 0.01, qps=50.0, pods=2500)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.scheduler.run)
            await asyncio.sleep(20.0)
            assert drain.bound == pytest.approx(100 + 20 * 50, rel=0.03), "lists and watches are requests too"
            assert len(drain.told) == pytest.approx(drain.bound, rel=0.1), "events have a bucket of their own"
            tasks.cancel_scope.cancel()

    run_virtual(main)
