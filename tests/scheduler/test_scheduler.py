"""The scheduler wires engine, cluster and tasks, and gives its events the form that Kubernetes wants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import anyio
import pytest

from kframework import ClusterError, CycleState, PendingPod, Plugin, Wait, error, hookimpl, unschedulable
from kframework.clock import VIRTUAL_EPOCH, LoopClock, run_virtual
from kframework.config.load import default_configuration, parse
from kframework.core.cycle.results import Reservation
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import PluginError
from kframework.framework.plugin import Watch
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Event, Namespace, Node, Pod, PodCondition
from kframework.scheduler import cluster_api
from kframework.scheduler.cooperative import wait_until_idle
from kframework.scheduler.extender import Extender
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.scheduler import CONFIRM_TIMEOUT, DRAIN_TIMEOUT, EVENT_TIMEOUT, Scheduler
from kframework.scheduler.timeouts import CANCEL_GRACE
from kframework.state.inbox import Message, Upserted
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import QueuedPod
from kframework.state.statement import Statement
from kframework.state.waiting import ReservedPod
from kframework.testing import create, make_node, make_pod
from kframework.values.status import Code
from tests.extension_points.scripted import alone, held, plugin, run, scenario
from tests.support.extenders import NO_ANSWER, ScriptedExtender, accept_except, configuration, settings


def running(
    work: Callable[[Scheduler, MemoryCluster], Awaitable[None]], *plugins: type[Plugin], slice: float = 0.0
) -> None:
    """Run a scheduler of these plugins while `work` goes on."""

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, [make_node("a"), make_pod()])
        configuration = parse(alone(*plugins))
        scheduler = Scheduler(configuration, cluster, clock, registry=Registry.with_plugins(*plugins), slice=slice)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(1.0)
            await work(scheduler, cluster)
            tasks.cancel_scope.cancel()

    run_virtual(main)


class Restless(PodEngine):
    """An engine whose sessions of two steps follow each other without a pause."""

    open: Statement | None = None
    sessions: int = 0

    def step(self) -> bool:
        if self.open is not None:
            self.open.rollback()
            self.open = None
        elif self.sessions == 100:
            return super().step()
        else:
            self.open, self.sessions = self.cluster.statement(), self.sessions + 1
        return True


def test_waiter_for_the_end_of_a_session_runs_before_the_next_one() -> None:
    seen: list[int] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        scheduler = Scheduler(
            default_configuration(), MemoryCluster(clock), clock, slice=1000.0, engine=Restless.from_configuration
        )

        async def look() -> None:
            while scheduler.engine.sessions < 100:
                await wait_until_idle(scheduler.engine.cluster)
                seen.append(scheduler.engine.sessions)
                await asyncio.sleep(0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            tasks.start_soon(look)
            await asyncio.sleep(1.0)
            tasks.cancel_scope.cancel()

    run_virtual(main)
    assert set(range(1, 100)) <= set(seen)


@pytest.mark.parametrize("slice", [0.0, 0.002])
def test_scheduler_binds_existing_and_new_pods(slice: float) -> None:
    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        assert scheduler.is_idle
        cluster.add(make_pod("late"))
        await asyncio.sleep(1.0)
        assert [pod.spec.node_name for pod in cluster.objects(Pod)] == ["a", "a"]

    running(work, slice=slice)


def test_plugins_are_started_before_and_closed_after() -> None:
    log: list[str] = []

    async def start(self: Plugin) -> None:
        await asyncio.sleep(0.1)
        log.append("started")

    async def close(self: Plugin) -> None:
        await asyncio.sleep(0.1)
        log.append("closed")

    made = plugin("A", reserve=None, journal=log)
    made.start, made.close = start, close  # type: ignore[method-assign]  # made here

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        assert log == ["started", "A.reserve"]

    running(work, made)
    assert log == ["started", "A.reserve", "closed"]


def test_deleted_waiting_pod_leaves_no_memory() -> None:
    """Its series is written a last time: at 50 pods a second six minutes more would be thousands of records."""

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        await asyncio.sleep(60.0)
        assert len(scheduler.recorder._aggregator) == 2, "its first condition made it another version of the pod"
        attempts = scheduler.engine.attempts
        cluster.remove(Pod, "pod")
        await asyncio.sleep(1.0)
        assert len(scheduler.recorder._aggregator) == 0
        counts = [event.series.count if event.series else 1 for event in cluster.objects(Event)]
        assert sum(counts) == attempts > 3

    running(work, plugin("A", filter=error("no")))


def test_scheduler_watches_the_kinds_of_its_plugins() -> None:
    watching = plugin("A", filter=None)
    watching.watches = (Watch(Namespace),)

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        assert scheduler.kinds == [Node, Pod, Namespace]

    running(work, watching)


def test_spawned_task_runs_in_parallel_to_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []

    async def good() -> None:
        await asyncio.sleep(2.0)
        log.append("good")

    async def bad() -> None:
        raise ValueError("spawned")

    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        held(spawning).spawn(bad())
        held(spawning).spawn(good())

    spawning = plugin("A", reserve=reserve)
    with caplog.at_level(logging.ERROR):
        result = run(spawning, until=3.0)
    assert log == ["good"] and result.state_of("pod") == "bound"
    (line,) = [record for record in caplog.records if "coroutine" in record.getMessage()]
    name = "test_spawned_task_runs_in_parallel_to_the_scheduler.<locals>.bad"
    assert line.getMessage() == f"plugin 'A': coroutine {name} failed"
    assert line.exc_info is not None and str(line.exc_info[1]) == "spawned"
    assert line.__dict__["at_fault"] == f"plugin 'A', coroutine {name}"


def test_simulation_goes_on_while_something_spawned_runs() -> None:
    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        held(spawning).spawn(asyncio.sleep(5.0))

    spawning = plugin("A", reserve=reserve)
    assert run(spawning, until=None).seconds == 5.0


def test_binding_cycle_that_waits_for_what_it_spawned_does_not_keep_a_scheduler_from_ending() -> None:
    async def pre_bind(state: CycleState, pod: PendingPod, node_name: str) -> None:
        over = asyncio.Event()

        async def spawned() -> None:
            try:
                await asyncio.sleep(1_000.0)
            finally:
                over.set()

        held(spawning).spawn(spawned())
        with anyio.CancelScope(shield=True):
            await over.wait()

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        finished = asyncio.Event()
        scheduler.on_finished = finished.set
        scheduler.stop()
        with anyio.fail_after(DRAIN_TIMEOUT + CONFIRM_TIMEOUT + 0.1):
            await finished.wait()

    spawning = plugin("A", pre_bind=pre_bind)
    spawning.own_timeouts = frozenset({"pre_bind"})
    running(work, spawning)


@pytest.mark.parametrize("when", [None, 2.0])
def test_shielded_work_is_done_even_if_the_pod_is_preempted(when: float | None) -> None:
    async def work() -> None:
        await asyncio.sleep(5.0)
        log.append("done")

    async def pre_bind(state: CycleState, pod: PendingPod, node_name: str) -> None:
        if when is not None:
            asyncio.get_running_loop().call_later(when, preempt, pod.uid)
        await held(working).shield(work())
        log.append("bound")

    def preempt(uid: str) -> None:
        reserved = held(working)._engine.cluster.waiting.get(uid)  # type: ignore[attr-defined]  # as a preemptor does
        assert reserved is not None and reserved.preempt("Default")

    log: list[str] = []
    working = plugin("A", pre_bind=pre_bind)
    working.own_timeouts = frozenset({"pre_bind"})
    result = run(working, until=5.5)
    assert log == (["done", "bound"] if when is None else ["done"])
    assert result.state_of("pod") == "bound" or result.message_of("pod") == "preempted by Default"


def test_shielded_work_does_not_keep_the_scheduler_from_ending() -> None:
    async def pre_bind(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await held(working).shield(asyncio.sleep(1_000.0))

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        assert not scheduler.is_idle
        finished = asyncio.Event()
        scheduler.on_finished = finished.set
        scheduler.stop()
        with anyio.fail_after(DRAIN_TIMEOUT + CONFIRM_TIMEOUT + 0.1):
            await finished.wait()

    working = plugin("A", pre_bind=pre_bind)
    working.own_timeouts = frozenset({"pre_bind"})
    running(work, working)


def test_shielded_work_is_cancelled_with_the_scheduler() -> None:
    async def pre_bind(state: CycleState, pod: PendingPod, node_name: str) -> None:
        try:
            await held(working).shield(asyncio.sleep(1_000.0))
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        began.append(asyncio.get_running_loop().time())

    began, ended = list[float](), list[float]()
    working = plugin("A", pre_bind=pre_bind)
    working.own_timeouts = frozenset({"pre_bind"})
    running(work, working)
    assert ended == began


def test_spawned_task_does_not_keep_the_scheduler_from_ending() -> None:
    async def deaf() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1.0)

    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        held(spawning).spawn(deaf())

    spawning = plugin("A", reserve=reserve)
    assert run(spawning, until=3.0).seconds == 3.0 + CANCEL_GRACE


async def awaits_what_was_cancelled(*args: object) -> None:
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    await cancelled


@pytest.mark.parametrize("point", ["pre_bind", "bind", "post_bind", "spawn"])
def test_plugin_that_awaits_its_own_cancelled_task_affects_no_other(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        held(spawning).spawn(awaits_what_was_cancelled())

    hooks: dict[str, Any] = {"reserve": reserve} if point == "spawn" else {point: awaits_what_was_cancelled}
    spawning = plugin("A", **hooks)
    result = scenario(spawning, pods=("pod",)).at(5.0, create(make_pod("late"))).run(until=6.0)
    assert len(result.decisions_on("late")) == 1
    assert "it awaited a cancelled task" in caplog.text
    if point in ("pre_bind", "bind"):
        assert "it awaited a cancelled task" in result.message_of("pod")
    else:
        assert result.state_of("pod") == "bound"


def test_plugin_whose_start_awaits_what_was_cancelled_ends_the_scheduler_with_an_error() -> None:
    """The scheduler's own task is not cancelled: it would end without a word."""

    async def start(self: Plugin) -> None:
        await awaits_what_was_cancelled()

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        raise AssertionError("the scheduler runs")

    made = plugin("A", filter=None)
    made.start = start  # type: ignore[method-assign]  # made here
    with pytest.raises(ExceptionGroup) as raised:
        running(work, made)
    assert raised.group_contains(PluginError, match="plugin 'A', hook start: .* it awaited a cancelled task")


# -- starting ----------------------------------------------------------------------------------------------------------


async def hangs(self: Plugin) -> None:
    await asyncio.Event().wait()


async def ignores_everything(self: Plugin) -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1.0)


async def fails(self: Plugin) -> None:
    raise ValueError("no licence")


async def never(scheduler: Scheduler, cluster: MemoryCluster) -> None:
    await asyncio.sleep(100.0)
    raise AssertionError("the scheduler runs")


def starting(start: Callable[[Plugin], Awaitable[None]]) -> type[Plugin]:
    made = plugin("A", filter=None)
    made.start = start  # type: ignore[assignment, method-assign]  # made here
    return made


@pytest.mark.parametrize(
    ("start", "fault"),
    [(fails, "ValueError: no licence"), (hangs, r"timed out after 30 s \(hookTimeouts.start\)")],
)
def test_plugin_that_cannot_start_ends_the_scheduler_and_is_named(
    start: Callable[[Plugin], Awaitable[None]], fault: str
) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        running(never, starting(start))
    assert raised.group_contains(PluginError, match=f"plugin 'A', hook start: {fault}")


@pytest.mark.parametrize(("start", "seconds"), [(hangs, 0.0), (ignores_everything, CANCEL_GRACE)])
def test_start_that_hangs_does_not_keep_the_scheduler_from_stopping(
    start: Callable[[Plugin], Awaitable[None]], seconds: float
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = starting(start)
        cluster = MemoryCluster(LoopClock(loop), [make_node("a"), make_pod()])
        scheduler = Scheduler(parse(alone(made)), cluster, LoopClock(loop), registry=Registry.with_plugins(made))
        assert scheduler.plugins.starting is None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(12.0)
            assert scheduler.plugins.starting is not None
            plugin, since = scheduler.plugins.starting
            assert (plugin.name, since) == ("A", scheduler.clock.now() - 12.0)
            scheduler.stop()
        assert loop.time() == 12.0 + seconds
        assert scheduler.engine.attempts == 0

    run_virtual(main)


def test_scheduler_that_is_stopped_before_it_begins_starts_nothing() -> None:
    async def main() -> None:
        made = starting(hangs)
        clock = LoopClock(asyncio.get_running_loop())
        scheduler = Scheduler(parse(alone(made)), MemoryCluster(clock), clock, registry=Registry.with_plugins(made))
        scheduler.stop()
        await scheduler.run()
        assert clock.now() == VIRTUAL_EPOCH

    run_virtual(main)


def test_binding_cycle_that_awaits_what_was_cancelled_ends_the_scheduler_with_an_error() -> None:
    """Its pod would be neither bound nor put back, and no message would say so."""

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        scheduler._start_work(awaits_what_was_cancelled())
        await asyncio.sleep(1.0)

    with pytest.raises(ExceptionGroup) as raised:
        running(work)
    assert raised.group_contains(RuntimeError, match="it awaited a cancelled task")


async def nothing_at_all(*args: object) -> None:
    await asyncio.sleep(0)


class HandsOn(Plugin):
    """Bind a pod, and hand on what the API answers."""

    name = "HandsOn"

    @hookimpl
    def bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Awaitable[None]:
        return self.handle.api.bind(pod, node_name)


@pytest.mark.parametrize(
    ("made", "waits"),
    [
        (plugin("A", post_bind=None), False),
        (plugin("A", bind=None), False),
        (HandsOn, False),
        (plugin("A", bind=nothing_at_all), True),
    ],
)
def test_binding_is_a_task_only_where_it_waits(made: type[Plugin], waits: bool) -> None:
    tasks: list[asyncio.Task[Any]] = []

    def make(loop: asyncio.AbstractEventLoop, work: Any, **settings: Any) -> asyncio.Task[Any]:
        tasks.append(asyncio.Task(work, loop=loop, **settings))
        return tasks[-1]

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        asyncio.get_running_loop().set_task_factory(make)
        for number in range(20):
            cluster.add(make_pod(f"pod-{number}"))
        await asyncio.sleep(1.0)
        assert scheduler.engine.attempts == 21

    running(work, made)
    assert (len(tasks) >= 20) is waits, "those who write events take turns"


def test_status_that_waits_is_not_written_after_the_binding() -> None:
    """The announcement of one pod waits behind the slow write about another."""

    def slow(cluster: MemoryCluster) -> None:
        cluster.faults.append(
            lambda method, kind, namespace, name: (
                Fault(delay=5.0) if (method, name) == ("patch_pod_status", "big") else None
            )
        )

    async def work(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(1.0)

    rejecting = plugin("R", filter=lambda state, pod, node: unschedulable("no") if pod.name == "big" else None)
    pods = [make_pod("big", priority=9), make_pod()]
    result = scenario(rejecting, plugin("W", pre_bind=work), pods=pods).at(0.0, slow).run(until=20.0)
    assert result.node_of("pod") == "a"
    assert result.pod("pod").status.nominated_node_name == ""


def test_refused_writes_do_not_stop_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    def refusing(cluster: MemoryCluster) -> None:
        refusal = Fault(error=ClusterError("no writes today", status=500))
        cluster.faults.append(lambda method, *_: refusal if method in ("patch_pod_status", "record_event") else None)

    rejecting = plugin("R", filter=lambda state, pod, node: unschedulable("no") if pod.name == "big" else None)
    result = scenario(rejecting, pods=("big", "pod")).at(0.0, refusing).run()
    assert (result.state_of("big"), result.state_of("pod")) == ("unschedulable", "bound")
    assert "no writes today" in caplog.text


def test_extenders_are_started_before_and_closed_after() -> None:
    line = ScriptedExtender({"filter": accept_except("b"), "bind": {}})

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, [make_node("a"), make_node("b"), make_pod()])
        scheduler = Scheduler(parse(EXTENDED), cluster, clock, slice=0.0, extender=lambda each: Extender(each, line))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(1.0)
            assert line.open == 1
            assert [verb for verb, _ in line.journal] == ["filter", "bind"]
            (assumed,) = scheduler.engine.cluster.pods.values()
            assert assumed.node_name == "b"
            tasks.cancel_scope.cancel()

    run_virtual(main)
    assert line.open == 0


def test_of_plugins_that_were_not_started_none_is_closed() -> None:
    log: list[str] = []

    def starting(name: str, error: Exception | None) -> type[Plugin]:
        async def start(self: Plugin) -> None:
            if error is not None:
                raise error

        async def close(self: Plugin) -> None:
            log.append(name)

        made = plugin(name, filter=None)
        made.start, made.close = start, close  # type: ignore[method-assign]  # made here
        return made

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        raise AssertionError("it has not begun")

    with pytest.raises(ExceptionGroup) as raised:
        running(work, starting("A", None), starting("B", ValueError("no data")), starting("C", None))
    assert raised.group_contains(PluginError, match="plugin 'B', hook start: ValueError: no data")
    assert log == ["A"]


def test_all_are_closed_even_if_one_cannot_be() -> None:
    closed: list[str] = []

    def closing(name: str, error: Exception | None) -> type[Plugin]:
        async def close(self: Plugin) -> None:
            closed.append(name)
            if error is not None:
                raise error

        made = plugin(name, filter=None)
        made.close = close  # type: ignore[method-assign]  # made here
        return made

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        scheduler.extenders = Extenders([Extender(settings(), line)])
        line.open += 1

    line = ScriptedExtender({})
    with pytest.raises(ExceptionGroup) as raised:
        running(work, closing("A", ValueError("stuck")), closing("B", None))
    assert raised.group_contains(PluginError, match="plugin 'A', hook close: ValueError: stuck")
    assert (closed, line.open) == (["A", "B"], 0)


# -- standing by, and stopping --------------------------------------------------------------------------------------


class Stopped:
    """A scheduler that is stopped after a second, with the pod `late` at the same moment."""

    def __init__(self, *plugins: type[Plugin], objects: Sequence[ApiObject] = (), fault: Fault | None = None) -> None:
        run_virtual(lambda: self._run(plugins, [make_node("a"), make_pod(), *objects], fault))

    async def _run(self, plugins: tuple[type[Plugin], ...], objects: list[ApiObject], fault: Fault | None) -> None:
        loop = asyncio.get_running_loop()
        self.cluster = MemoryCluster(LoopClock(loop), objects)
        self.cluster.faults.append(lambda method, *_: fault if method == "record_event" else None)
        self.scheduler = Scheduler(
            parse(alone(*plugins)), self.cluster, LoopClock(loop), registry=Registry.with_plugins(*plugins), slice=0.0
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.scheduler.run)
            await asyncio.sleep(1.0)
            self.cluster.add(make_pod("late"))
            self.scheduler.stop()
        self.seconds = loop.time() - 1.0

    @property
    def nodes(self) -> dict[str, str]:
        """Where the pods are that are bound."""
        return {pod.metadata.name: pod.spec.node_name for pod in self.cluster.objects(Pod) if pod.spec.node_name}

    @property
    def events(self) -> list[str]:
        """The reasons of the events that were written."""
        return [event.reason for event in self.cluster.objects(Event)]


def sleeping(seconds: float) -> Callable[..., Awaitable[None]]:
    async def work(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(seconds)

    return work


@pytest.mark.parametrize(("point", "seconds"), [("bind", 0.0), ("pre_bind", 4.0), ("post_bind", 4.0)])
def test_binding_cycle_ends_before_the_scheduler_does(point: str, seconds: float) -> None:
    hooks: dict[str, Any] = {} if not seconds else {point: sleeping(seconds)}
    journal: list[str] = []
    stopped = Stopped(plugin("A", reserve=None, unreserve=None, journal=journal, **hooks))
    assert stopped.seconds == max(seconds - 1.0, 0.0)
    assert stopped.nodes == {"pod": "a"}
    assert stopped.events == ["Scheduled"]
    assert "A.unreserve" not in journal


@pytest.mark.parametrize(
    ("hooks", "seconds"),
    [
        ({"pre_bind": sleeping(1e6)}, DRAIN_TIMEOUT),
        ({"bind": sleeping(1e6)}, DRAIN_TIMEOUT),
        ({"permit": Wait(900.0)}, 0.0),
    ],
)
def test_hook_beyond_its_limit_is_undone_without_a_write(hooks: dict[str, Any], seconds: float) -> None:
    journal: list[str] = []
    stopped = Stopped(plugin("A", reserve=None, unreserve=None, journal=journal, **hooks))
    assert stopped.seconds == seconds
    assert journal[-1] == "A.unreserve"
    assert (stopped.nodes, stopped.events) == ({}, [])
    assert not stopped.scheduler.engine.cluster.pods


def test_pod_that_waits_on_permit_does_not_keep_others_from_being_bound() -> None:
    def permit(state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return Wait(900.0) if pod.name == "waits" else None

    stopped = Stopped(plugin("A", permit=permit, pre_bind=sleeping(4.0)), objects=[make_pod("waits", priority=1)])
    assert (stopped.seconds, stopped.nodes) == (3.0, {"pod": "a"})


def test_pod_is_placed_when_it_can_be_bound_soon_the_most_important_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_api, "ENOUGH_BINDS", 3)
    bound: list[str] = []
    assumed: list[int] = []

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        def note(change: Change) -> None:
            if isinstance(change.new, Pod) and change.new.spec.node_name:
                bound.append(change.new.metadata.name)
                assumed.append(len(scheduler.engine.cluster.assumed))

        cluster.subscribe([Pod], note)
        cluster.faults.append(lambda method, *_: Fault(delay=1.0) if method == "bind" else None)
        for number in range(6):
            cluster.add(make_pod(f"p{number}"))
        await asyncio.sleep(0.5)
        cluster.add(make_pod("urgent", priority=1))
        await asyncio.sleep(10.0)

    running(work)
    assert [{*bound[:3]}, {*bound[3:6]}, {*bound[6:]}] == [{"p0", "p1", "p2"}, {"urgent", "p3", "p4"}, {"p5"}]
    assert max(assumed) == 3


def test_write_time_is_limited() -> None:
    stopped = Stopped(plugin("A", pre_bind=sleeping(4.0)), fault=Fault(delay=1e6))
    assert (stopped.seconds, stopped.nodes) == (EVENT_TIMEOUT, {"pod": "a"})


def test_scheduler_has_finished_when_only_events_are_unwritten() -> None:
    """Bindings and statuses are done by then, and nothing but events is written afterwards."""
    calls: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        cluster = MemoryCluster(LoopClock(loop), [make_node("a", cpu=8), make_pod(), make_pod("huge", cpu=99)])

        def delayed(method: str, *_: object) -> Fault:
            calls.append(method)
            return Fault(delay={"bind": 1.0, "patch_pod_status": 2.0, "record_event": 5.0}.get(method, 0.0))

        cluster.faults.append(delayed)
        scheduler = Scheduler(default_configuration(), cluster, LoopClock(loop), slice=0.0)
        scheduler.on_finished = lambda: calls.append(f"finished at {loop.time()}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(0.5)
            scheduler.stop()
        events = cluster.objects(Event)
        assert sorted(event.reason for event in events) == ["FailedScheduling", "Scheduled"]
        assert loop.time() == 6.0

    run_virtual(main)
    assert calls[-1] == "finished at 2.0"
    assert set(calls[:-1]) == {"watch", "bind", "patch_pod_status", "record_event"}


@pytest.mark.parametrize(("late", "ended"), [(0.1, 0.6), (5.0, 0.75)], ids=["heard of", "not heard of in time"])
def test_scheduler_has_finished_when_its_bindings_are_confirmed(late: float, ended: float) -> None:
    """Another one that leads from then on hears of them about when this one does."""

    class Late(MemoryCluster):
        """A cluster whose watches are late with what was bound."""

        async def watch(
            self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
        ) -> None:
            def come(message: Message) -> None:
                bound = isinstance(message, Upserted) and isinstance(message.obj, Pod) and message.obj.spec.node_name
                asyncio.get_running_loop().call_later(late if bound else 0.0, offer, message)

            await super().watch(kinds, come, ended_pods=ended_pods)

    async def main() -> list[float]:
        loop, finished = asyncio.get_running_loop(), list[float]()
        cluster = Late(LoopClock(loop), [make_node("a", cpu=8)])
        scheduler = Scheduler(default_configuration(), cluster, LoopClock(loop), slice=0.0)
        scheduler.on_finished = lambda: finished.append(loop.time())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(0.5)
            cluster.add(make_pod())
            loop.call_later(1e-9, scheduler.stop)
        return finished

    assert run_virtual(main) == [pytest.approx(ended)]


def test_close_time_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    async def close(self: Plugin) -> None:
        await asyncio.sleep(1e6)

    hanging = plugin("A", filter=None)
    hanging.close = close  # type: ignore[method-assign]  # made here
    assert Stopped(hanging).seconds == 5.0
    assert "plugin 'A', hook close: timed out after 5 s (hookTimeouts.close)" in caplog.text


def test_preemption_ends_before_the_scheduler_does() -> None:
    full, victim = make_node("a", cpu=4), make_pod("victim", node_name="a", cpu=4, priority=-1)

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, [full, victim])
        cluster.faults.append(lambda method, *_: Fault(delay=2.0) if method == "delete" else None)
        scheduler = Scheduler(default_configuration(), cluster, clock, slice=0.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(1.0)
            cluster.add(make_pod("urgent", cpu=4))
            await asyncio.sleep(1.0)
            scheduler.stop()
        assert cluster.read(Pod, "victim", "default").metadata.deletion_timestamp is not None
        assert "Preempted" in [event.reason for event in cluster.objects(Event)]

    run_virtual(main)


def test_standby_follows_the_cluster_and_schedules_nothing() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, [make_node("a"), make_pod()])
        scheduler = Scheduler(default_configuration(), cluster, clock, slice=0.0)
        scheduler.stand_by()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(3600.0)
            cluster.add(make_pod("late"))
            await asyncio.sleep(1.0)
            assert scheduler.engine.queue.count_by_queue()["active"] == 2
            assert [pod.spec.node_name for pod in cluster.objects(Pod)] == ["", ""]
            scheduler.lead()
            await asyncio.sleep(1.0)
            assert [pod.spec.node_name for pod in cluster.objects(Pod)] == ["a", "a"]
            scheduler.stop()

    run_virtual(main)


EXTENDED = configuration({"urlPrefix": "http://extender", "filterVerb": "filter", "bindVerb": "bind"})


def test_waiting_status_of_a_pod_is_dropped_when_an_extender_binds_it() -> None:
    """Else the pod's condition would say that it is unschedulable after it was bound."""

    async def main() -> None:
        clock, pod = LoopClock(asyncio.get_running_loop()), PendingPod(make_pod(), TemplateInterner())
        cluster, line = MemoryCluster(clock, [make_node("a"), make_pod()]), ScriptedExtender({"bind": {}})
        scheduler = Scheduler(parse(EXTENDED), cluster, clock, extender=lambda each: Extender(each, line))
        scheduler.patch_status(pod, PodCondition(type="PodScheduled", status="False"), None)
        assert not scheduler.outbox.is_empty
        reserved = ReservedPod(pod, "a", {}, clock.now())
        queued, profile = QueuedPod(pod, clock.now()), scheduler.profiles["default-scheduler"]
        reservation = Reservation(profile, queued, CycleState(), reserved, AttemptTrace(pod, 1))
        assert await scheduler._bind_by_extenders(reservation) is None
        assert scheduler.outbox.is_empty

    run_virtual(main)


@pytest.mark.parametrize(("bound_to", "code"), [("a", None), ("b", Code.ERROR), ("", Code.ERROR)])
def test_pod_that_an_extender_bound_without_an_answer_is_bound(bound_to: str, code: Code | None) -> None:
    """Else its room would be given away."""

    async def main() -> None:
        clock, pod = LoopClock(asyncio.get_running_loop()), PendingPod(make_pod(), TemplateInterner())
        cluster = MemoryCluster(clock, [make_node("a"), make_node("b"), make_pod(node_name=bound_to)])
        line = ScriptedExtender({"bind": NO_ANSWER})
        scheduler = Scheduler(parse(EXTENDED), cluster, clock, extender=lambda each: Extender(each, line))
        reserved = ReservedPod(pod, "a", {}, clock.now())
        queued, profile = QueuedPod(pod, clock.now()), scheduler.profiles["default-scheduler"]
        reservation = Reservation(profile, queued, CycleState(), reserved, AttemptTrace(pod, 1))
        status = await scheduler._bind_by_extenders(reservation)
        assert (status and status.code) == code

    run_virtual(main)
