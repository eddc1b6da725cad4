"""The scheduler wires engine, cluster and tasks, and gives its events the form that Kubernetes wants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kframework import ClusterError, ConfigError, CycleState, PendingPod, Plugin, unschedulable
from kframework.clock import LoopClock, run_virtual
from kframework.cluster.memory import Fault, MemoryCluster
from kframework.config import parse
from kframework.effects import Reservation
from kframework.extender import Extender
from kframework.extenders import Extenders
from kframework.objects import ApiObject, Namespace, Node, Pod, PodCondition, StorageClass
from kframework.plugin import Watch
from kframework.registry import Registry
from kframework.scheduler import Scheduler
from kframework.state.pods import Interned
from kframework.state.queued_pod import QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.testing import create, make_node, make_pod
from tests.extending import Scripted, configuration, lets_pass, settings
from tests.extension_points.scripted import alone, held, plugin, run, scenario


def running(
    work: Callable[[Scheduler, MemoryCluster], Awaitable[None]], *plugins: type[Plugin], slice: float = 0.0
) -> None:
    """Run a scheduler of these plugins while `work` goes on."""

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, [make_node("a"), make_pod()])
        configuration = parse(alone(*plugins))
        scheduler = Scheduler(configuration, cluster, clock, registry=Registry.of(*plugins), slice=slice)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(1.0)
            await work(scheduler, cluster)
            tasks.cancel_scope.cancel()

    run_virtual(main)


@pytest.mark.parametrize("slice", [0.0, 0.002])
def test_it_schedules_what_is_there_and_what_comes(slice: float) -> None:
    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        assert scheduler.settled
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


@pytest.mark.parametrize(
    ("watches", "kinds"),
    [
        ((), [Node, Pod]),
        (
            (Watch("namespaces"), Watch("pods"), Watch("storageclasses", "storage.k8s.io")),
            [Node, Pod, Namespace, StorageClass],
        ),
    ],
)
def test_it_follows_what_its_plugins_watch(watches: tuple[Watch, ...], kinds: list[type[ApiObject]]) -> None:
    watching = plugin("A", filter=None)
    watching.watches = watches

    async def work(scheduler: Scheduler, cluster: MemoryCluster) -> None:
        assert scheduler.kinds == kinds

    running(work, watching)


def test_an_unknown_kind_is_refused_when_the_scheduler_is_made() -> None:
    watching = plugin("A", filter=None)
    watching.watches = (Watch("namespace"),)
    with pytest.raises(ConfigError, match=r"plugin 'A' watches 'namespace', .*did you mean 'namespaces'"):
        run(watching)


def test_events_have_the_form_that_kubernetes_wants() -> None:
    result = run(plugin("A", filter=lambda state, pod, node: unschedulable("no")), pods=[make_pod(), make_pod("two")])
    event, other = result.events
    assert event.metadata.namespace == "default"
    assert event.metadata.name.startswith("pod.") and event.metadata.name != other.metadata.name
    assert event.event_time == "2026-01-01T00:00:00.000000Z"
    assert event.reporting_controller == "default-scheduler"
    assert event.reporting_instance.startswith("default-scheduler-")
    assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
    regarding = event.regarding
    assert (regarding.api_version, regarding.kind, regarding.namespace, regarding.name) == (
        "v1",
        "Pod",
        "default",
        "pod",
    )
    assert event.related is None


@pytest.mark.parametrize(
    ("reason", "size"), [("x" * 900, None), ("x" * 2000, 1024), ("é" * 900, 1024), ("x" + "é" * 900, 1023)]
)
def test_long_notes_are_cut_and_messages_are_not(reason: str, size: int | None) -> None:
    result = run(plugin("A", filter=unschedulable(reason)))
    message = f"0/1 nodes are available: 1 {reason}."
    assert result.message_of("pod") == message
    ((_, note),) = result.events_on("pod")
    if size is None:
        assert note == message
    else:
        assert note.endswith(" ...") and message.startswith(note.removesuffix(" ..."))
        assert 1020 < len(note.encode()) <= 1024


def test_what_a_plugin_spawns_runs_beside_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
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
    assert log == ["good"] and result.place_of("pod") == "bound"
    assert "a coroutine spawned by a plugin failed" in caplog.text


async def awaits_what_was_cancelled(*args: object) -> None:
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    await cancelled


@pytest.mark.parametrize("point", ["pre_bind", "bind", "post_bind", "spawn"])
def test_a_plugin_that_awaits_what_it_cancelled_itself_stops_nobody_else(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        held(spawning).spawn(awaits_what_was_cancelled())

    hooks: dict[str, Any] = {"reserve": reserve} if point == "spawn" else {point: awaits_what_was_cancelled}
    spawning = plugin("A", **hooks)
    result = scenario(spawning, pods=("pod",)).at(5.0, create(make_pod("late"))).run(until=6.0)
    assert len(result.decisions_on("late")) == 1
    assert "what it awaited was cancelled" in caplog.text
    if point in ("pre_bind", "bind"):
        assert "what it awaited was cancelled" in result.message_of("pod")
    else:
        assert result.place_of("pod") == "bound"


def test_a_status_that_waits_is_not_written_after_the_binding() -> None:
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


def test_writes_that_are_refused_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def refusing(cluster: MemoryCluster) -> None:
        refusal = Fault(error=ClusterError("no writes today", status=500))
        cluster.faults.append(lambda method, *_: refusal if method in ("patch_pod_status", "record_event") else None)

    rejecting = plugin("R", filter=lambda state, pod, node: unschedulable("no") if pod.name == "big" else None)
    result = scenario(rejecting, pods=("big", "pod")).at(0.0, refusing).run()
    assert (result.place_of("big"), result.place_of("pod")) == ("unschedulable", "bound")
    assert "no writes today" in caplog.text


def test_extenders_are_started_before_and_closed_after() -> None:
    line = Scripted({"filter": lets_pass("b"), "bind": {}})

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

    line = Scripted({})
    with pytest.raises(ExceptionGroup) as raised:
        running(work, closing("A", ValueError("stuck")), closing("B", None))
    assert raised.group_contains(ValueError, match="stuck")
    assert (closed, line.open) == (["A", "B"], 0)


EXTENDED = configuration({"urlPrefix": "http://extender", "filterVerb": "filter", "bindVerb": "bind"})


def test_what_waits_to_be_written_of_a_pod_is_dropped_when_an_extender_binds_it() -> None:
    """Else the pod's condition would say that it is unschedulable after it was bound."""

    async def main() -> None:
        clock, pod = LoopClock(asyncio.get_running_loop()), PendingPod(make_pod(), Interned())
        cluster, line = MemoryCluster(clock, [make_node("a"), make_pod()]), Scripted({"bind": {}})
        scheduler = Scheduler(parse(EXTENDED), cluster, clock, extender=lambda each: Extender(each, line))
        scheduler.patch_status(pod, PodCondition(type="PodScheduled", status="False"), None)
        assert not scheduler.outbox.empty
        reserved = ReservedPod(pod, "a", {}, clock.now())
        queued, profile = QueuedPod(pod, clock.now()), scheduler.profiles["default-scheduler"]
        assert await scheduler._bind_by_extenders(Reservation(1, profile, queued, CycleState(), reserved)) is None
        assert scheduler.outbox.empty

    run_virtual(main)
