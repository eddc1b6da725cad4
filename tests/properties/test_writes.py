"""Every pod of a drain has its Scheduled event, once, however slow the server is and whatever befalls it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import anyio
import pytest

from kframework.client.flow_control import FlowControl
from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import Transport
from kframework.clock import LoopClock, run_virtual
from kframework.config.load import parse
from kframework.config.models import ClientConnection
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Event, Pod
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.support.faulty_transport import FaultyTransport, Rates
from tests.support.slow_server import SlowServer

CONFIGURATION = parse("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
PODS = 2500


class Drain:
    """A scheduler that meets many pods at once, over a slow server."""

    def __init__(self, capacity: float, latency: float, faults: Rates | None = None, qps: float = -1.0) -> None:
        self.loop = asyncio.get_running_loop()
        clock = LoopClock(self.loop)
        nodes = [make_node(f"n{number}", cpu="1000", memory="1000Gi", pods=PODS) for number in range(3)]
        self.store = MemoryCluster(clock, [*nodes, *(make_pod(f"p{number}") for number in range(PODS))])
        api: Transport = InProcessTransport(ApiServer(self.store, clock))
        if faults is not None:
            api = self.faulty = FaultyTransport(api, Random(0), faults, clock)
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
    assert (drain.bound, len(told), set(told.values())) == (PODS, PODS, {1})
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
        drain = Drain(400, 0.01, rates)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.scheduler.run)
            await drain.until(lambda: drain.bound == PODS and drain.scheduler.outbox.is_empty, 3000.0)
            complete(drain)
            tasks.cancel_scope.cancel()

    run_virtual(main)


@pytest.mark.long
def test_configured_client_rates_are_respected() -> None:
    async def main() -> None:
        drain = Drain(400, 0.01, qps=50.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.scheduler.run)
            await asyncio.sleep(20.0)
            assert drain.bound == pytest.approx(100 + 20 * 50, rel=0.03), "lists and watches are requests too"
            assert len(drain.told) == pytest.approx(drain.bound, rel=0.1), "events have a bucket of their own"
            tasks.cancel_scope.cancel()

    run_virtual(main)
