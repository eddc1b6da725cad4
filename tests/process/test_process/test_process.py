"""The process around a scheduler starts and ends in good order."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import pytest
from msgspec.structs import replace

from kframework import ConfigError, Plugin
from kframework.client.cluster import Cluster
from kframework.client.event_record import EventRecord
from kframework.client.missing_rights import MissingRights
from kframework.client.transport import WriteFence
from kframework.clock import LoopClock, SystemClock, VirtualTimeLoop, run_virtual
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, parse
from kframework.core.runtime.registry import Registry
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Event, Lease, Pod
from kframework.process.http.endpoints import Listener
from kframework.process.observers import PodObservers
from kframework.process.process import LeadershipLost, Process
from kframework.process.servers import Connect
from kframework.scheduler.scheduler import Scheduler
from kframework.state.inbox import Message, Upserted
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone, plugin

LEASE = "kube-scheduler", "kube-system"
IN_STEP = "synced with the cluster (nodes: 1, pods: 1)"
EXITING = "Requested to terminate, exiting"


class Stage:
    """A process on a cluster in memory, whose server it replaces, and its log; its lease is kept in another."""

    elect: Connect | None = None

    def __init__(
        self, configuration: Configuration | None = None, *, fence: WriteFence | None = None, **parts: Any
    ) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop) if isinstance(loop, VirtualTimeLoop) else SystemClock()
        self.cluster = MemoryCluster(clock, [make_node("a"), make_pod()])
        self.leases = MemoryCluster(clock)
        self.lines: list[str] = []
        self.fence = fence or WriteFence()
        self.rights = MissingRights(clock)
        self.open = 0
        self.watching = False
        self.allowed = asyncio.Event()
        self.allowed.set()
        self._moved = asyncio.Event()
        self.cluster.subscribe([Pod], lambda change: self._moved.set())
        self.process = Process(
            configuration or default_configuration(), self, clock, identity="me", log=self.tell, **parts
        )

    def tell(self, line: str) -> None:
        """Note a line."""
        self.lines.append(line)
        self._moved.set()

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        """Open a client for the scheduler."""
        self.open += 1
        yield Slow(self)  # type: ignore[misc]  # a Cluster, but for its watch
        self.open -= 1

    @asynccontextmanager
    async def contend(self) -> AsyncIterator[Cluster]:
        """Open a client for the election."""
        yield self.leases

    @property
    def node(self) -> str:
        """Where the pod is."""
        return self.cluster.read(Pod, "pod", "default").spec.node_name

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait for something."""
        while not happened():
            self._moved.clear()
            await self._moved.wait()


class Slow:
    """The cluster of a stage, which may be watched when the stage allows it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __getattr__(self, name: str) -> object:
        return getattr(self._stage.cluster, name)

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        self._stage.watching = True
        self._stage._moved.set()
        await self._stage.allowed.wait()
        await self._stage.cluster.watch(kinds, offer, ended_pods=ended_pods)


def test_process_schedules_until_it_is_stopped() -> None:
    async def main() -> None:
        stage = Stage()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await asyncio.sleep(1.0)
            assert stage.node == "a"
            stage.process.stop()
        assert (stage.lines, stage.open) == ([IN_STEP, EXITING], 0)
        assert [event.reason for event in stage.cluster.objects(Event)] == ["Scheduled"]

    run_virtual(main)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_in_good_order(number: signal.Signals) -> None:
    async def main() -> None:
        stage = Stage()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await stage.until(lambda: stage.node)
            os.kill(os.getpid(), number)
        assert stage.lines == [IN_STEP, EXITING]

    before = signal.getsignal(number)
    asyncio.run(main())
    assert signal.getsignal(number) is before


async def hangs(self: Plugin) -> None:
    await asyncio.Event().wait()


def test_hanging_start_is_reported_by_readyz_and_obeys_a_signal_at_once() -> None:
    async def main() -> None:
        hanging = plugin("Quota", filter=None)
        hanging.start = hangs  # type: ignore[method-assign]  # made here
        registry, listener = Registry.with_plugins(hanging), Listener(port=0)
        stage = Stage(parse(alone(hanging)), registry=registry, listener=listener)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await stage.until(lambda: stage.lines and stage.process.scheduler.plugins.starting)
            url = stage.lines[0].split()[3]
            with pytest.raises(HTTPError) as unready:
                await asyncio.to_thread(urlopen, f"{url}readyz")
            assert (
                "[-]plugins-started failed: plugin Quota has been starting for 0 s\n" in unready.value.read().decode()
            )
            os.kill(os.getpid(), signal.SIGTERM)
        assert stage.lines[1:] == [EXITING]

    asyncio.run(main())


def test_hooks_that_hold_the_loop_are_counted() -> None:
    """The hook really blocks, until it is counted."""
    observers = PodObservers()

    def permit(*args: object) -> None:
        while not observers.metrics.slow_hooks:
            time.sleep(0.001)

    async def main() -> None:
        blocking = plugin("Quota", permit=permit)
        stage = Stage(parse(alone(blocking)), registry=Registry.with_plugins(blocking), observers=observers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await stage.until(lambda: stage.node)
            stage.process.stop()

    asyncio.run(main())
    assert observers.metrics.slow_hooks == {("Quota", "hook"): 1}  # what a scripted hook is called


def test_configuration_that_cannot_be_used_is_refused() -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Unheard]}}}]\n"
    )

    async def main() -> None:
        stage = Stage(parse(text.replace("Unheard", "Unheard}")))
        with pytest.raises(ConfigError, match="Unheard"):
            await stage.process.run()

    run_virtual(main)


class SideTask:
    """Works beside a scheduler until it is cancelled."""

    def __init__(self) -> None:
        self.beside: list[Scheduler] = []
        self.cancelled = False

    async def run(self, scheduler: Scheduler) -> None:
        """Note whom it works beside."""
        self.beside.append(scheduler)
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled = True


def test_companions_run_as_long_as_the_scheduler_does() -> None:
    companion = SideTask()

    async def main() -> None:
        stage = Stage(companions=[companion.run])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await asyncio.sleep(1.0)
            assert (companion.beside, companion.cancelled) == ([stage.process.scheduler], False)
            stage.process.stop()
        assert companion.cancelled

    run_virtual(main)


def test_companions_wait_for_the_lease() -> None:
    companion = SideTask()

    async def work(stage: Stage) -> None:
        await stage.until(lambda: stage.lines and stage.watching)
        assert companion.beside == []
        lease = stage.leases.read(Lease, *LEASE)
        stage.leases.replace(replace(lease, spec=replace(lease.spec, holder_identity="")))
        await stage.until(lambda: stage.node)
        assert (companion.beside, companion.cancelled) == ([stage.process.scheduler], False)
        stage.process.stop()

    elected(work, held=True, companions=[companion.run])
    assert companion.cancelled


def answer(url: str) -> tuple[int, str]:
    try:
        with urlopen(url) as response:
            return response.status, response.read().decode()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def test_process_serves_the_data_of_its_observers() -> None:
    async def main() -> None:
        stage = Stage(listener=Listener(port=0))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await stage.until(lambda: stage.node)
            url = stage.lines[0].removeprefix("status page at ").split("/ ")[0]
            assert await asyncio.to_thread(answer, f"{url}/livez") == (200, "ok")
            _, metrics = await asyncio.to_thread(answer, f"{url}/metrics")
            counted = 'scheduler_schedule_attempts_total{result="scheduled",profile="default-scheduler"} 1'
            assert counted in metrics
            _, health = await asyncio.to_thread(answer, f"{url}/metrics/slis")
            assert 'kubernetes_healthchecks_total{name="ping",type="livez",status="success"}' in health
            _, page = await asyncio.to_thread(answer, f"{url}/")
            assert page.startswith("<!doctype html>")
            stage.process.stop()

    asyncio.run(main())


def test_process_reports_its_readiness() -> None:
    async def main() -> None:
        stage = Stage(listener=Listener(port=0))
        stage.allowed.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await stage.until(lambda: stage.lines)
            live, _, ready = stage.lines[0].partition("(health checks at ")[2].rstrip(")").split()
            assert await asyncio.to_thread(answer, live) == (200, "ok")
            code, text = await asyncio.to_thread(answer, ready)
            assert code == 500 and "[-]sched-handler-sync failed" in text
            stage.allowed.set()
            await stage.until(lambda: stage.node)
            assert await asyncio.to_thread(answer, ready) == (200, "ok")
            stage.process.stop()

    asyncio.run(main())


SWIFT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 2h, renewDeadline: 1h, retryPeriod: 20ms}
delayCacheUntilActive: %s
"""


def elected(work: Callable[[Stage], Awaitable[None]], *, held: bool, delay: bool = False, **parts: Any) -> Stage:
    """Do the work beside a process that needs a lease; at first another one holds it, or none."""

    async def main() -> Stage:
        stage = Stage(parse(SWIFT % str(delay).lower()), **parts)
        stage.elect = stage.contend
        if held:
            hold(stage)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await work(stage)
        return stage

    return asyncio.run(main())


def hold(stage: Stage) -> None:
    """Let another scheduler have the lease."""
    found = stage.leases.find(Lease, *LEASE) or stage.leases.add(
        Lease(metadata=replace(make_pod("kube-scheduler", namespace="kube-system").metadata, labels={}, uid=""))
    )
    stage.leases.replace(replace(found, spec=replace(found.spec, holder_identity="other", lease_duration_seconds=900)))


def holder(stage: Stage) -> str | None:
    return stage.leases.read(Lease, *LEASE).spec.holder_identity


def test_leader_schedules_and_gives_the_lease_up_when_it_ends() -> None:
    async def work(stage: Stage) -> None:
        await stage.until(lambda: stage.node and IN_STEP in stage.lines)
        fence.check()
        stage.process.stop()

    fence = WriteFence()
    stage = elected(work, held=False, fence=fence)
    with pytest.raises(ClusterError, match="writes are blocked"):
        fence.check()
    assert set(stage.lines[:-1]) == {"waiting for the lease kube-system/kube-scheduler", "leading as me", IN_STEP}
    assert stage.lines[-1] == EXITING
    assert holder(stage) == ""


def test_leader_hands_over_before_its_events_are_written() -> None:
    companion = SideTask()

    async def work(stage: Stage) -> None:
        written = asyncio.Event()
        record = stage.cluster.record_event

        async def hold_up(told: EventRecord) -> None:
            await written.wait()
            await record(told)

        stage.cluster.record_event = hold_up  # type: ignore[assignment, method-assign]  # for this test
        moved, loop = asyncio.Event(), asyncio.get_running_loop()

        def note(change: Change) -> None:
            loop.call_soon_threadsafe(moved.set)

        stage.leases.subscribe([Lease], note)
        await stage.until(lambda: stage.node)
        stage.process.stop()
        while holder(stage) != "":
            moved.clear()
            await moved.wait()
        assert not stage.fence.is_open
        while not companion.cancelled:  # noqa: ASYNC110  # it writes too, and has no event
            await asyncio.sleep(0)
        stage.fence.check_event()
        assert stage.lines[-1] != EXITING and not stage.cluster.objects(Event)
        written.set()

    stage = elected(work, held=False, companions=[companion.run])
    assert [event.reason for event in stage.cluster.objects(Event)] == ["Scheduled"]
    assert stage.lines[-1] == EXITING


@pytest.mark.parametrize("delay", [False, True])
def test_standby_schedules_nothing_until_it_leads(delay: bool) -> None:
    async def work(stage: Stage) -> None:
        await stage.until(lambda: stage.lines and (delay or stage.watching))
        assert (stage.node, stage.watching) == ("", not delay)
        lease = stage.leases.read(Lease, *LEASE)
        stage.leases.replace(replace(lease, spec=replace(lease.spec, holder_identity="")))
        await stage.until(lambda: stage.node)
        stage.process.stop()

    elected(work, held=True, delay=delay)


@pytest.mark.parametrize("delay", [False, True])
def test_standby_ends_cleanly(delay: bool) -> None:
    async def work(stage: Stage) -> None:
        await stage.until(lambda: stage.lines)
        stage.process.stop()

    stage = elected(work, held=True, delay=delay)
    assert (stage.lines[-1], stage.node, holder(stage)) == (EXITING, "", "other")


def test_scheduler_that_has_lost_its_lease_writes_nothing_more() -> None:
    async def work(stage: Stage) -> None:
        await stage.until(lambda: stage.node)
        hold(stage)

    with pytest.raises(ExceptionGroup) as raised:
        elected(work, held=False)
    assert raised.group_contains(LeadershipLost, match="Leaderelection lost")


def test_listed_objects_are_frozen_while_they_arrive() -> None:
    """Otherwise the collector scans them again and again before the first pod is tried."""

    async def main() -> None:
        stage = Stage()
        stage.allowed.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await stage.until(lambda: stage.watching)
            await asyncio.sleep(1.0)
            before = gc.get_freeze_count()
            for number in range(100):
                stage.process.scheduler.on_message(Upserted(make_node(f"listed-{number}")))
            await asyncio.sleep(1.0)
            assert not stage.process.scheduler.engine.synced
            assert gc.get_freeze_count() - before > 100
            stage.process.stop()

    run_virtual(main)


def test_nothing_stays_frozen() -> None:
    async def main() -> None:
        stage = Stage()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.process.run)
            await asyncio.sleep(1.0)
            assert gc.get_freeze_count()
            stage.process.stop()

    run_virtual(main)
    assert not gc.get_freeze_count()
