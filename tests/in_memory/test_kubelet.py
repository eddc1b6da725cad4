"""Pods run, end and go without being executed."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import VIRTUAL_EPOCH, LoopClock, VirtualTimeLoop, rfc3339, run_virtual
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.in_memory.kubelet import ENDING_SECONDS, EXIT_CODE, RUN_SECONDS, Kubelet
from kframework.objects import Container, ObjectMeta, Pod, PodSpec, PodStatus
from kframework.testing import make_pod


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def pod(name: str, run: str | None = None, *, node: str = "", phase: str = "", started: float | None = None) -> Pod:
    """Make a pod that runs `run` seconds; `started` counts from the start of virtual time."""
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", annotations={} if run is None else {RUN_SECONDS: run}),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, start_time=None if started is None else rfc3339(VIRTUAL_EPOCH + started)),
    )


@asynccontextmanager
async def running(*pods: Pod) -> AsyncIterator[tuple[MemoryCluster, Kubelet]]:
    """Run a kubelet over a cluster; it has seen the pods when the block begins."""
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, pods)
    kubelet = Kubelet(memory, clock)
    task = asyncio.ensure_future(kubelet.run())
    await asyncio.sleep(0)
    yield memory, kubelet
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def noting_ends(memory: MemoryCluster) -> AsyncIterator[dict[str, float]]:
    """Note when pods succeed or go, in that order."""
    ends: dict[str, float] = {}

    def receive(change: Change) -> None:
        if isinstance(change.old, Pod) and not (isinstance(change.new, Pod) and not has_ended(change.new)):
            ends.setdefault(change.old.metadata.name, asyncio.get_running_loop().time())

    stop = memory.subscribe([Pod], receive)
    yield ends
    stop()


def is_idle(kubelet: Kubelet) -> bool:
    return kubelet.due is None and kubelet.pending == 0


def phases(memory: MemoryCluster) -> dict[str, str]:
    return {each.metadata.name: each.status.phase for each in memory.objects(Pod)}


async def moments(memory: MemoryCluster, until: float) -> dict[float, dict[str, str]]:
    """Note the phases at the start and at every second in which they change."""
    notes: dict[float, dict[str, str]] = {}
    last: dict[str, str] | None = None
    loop = asyncio.get_running_loop()
    while loop.time() <= until:
        now = phases(memory)
        if now != last:
            notes[loop.time()] = last = now
        await asyncio.sleep(0.5)
    return notes


async def test_bound_pod_starts_at_once() -> None:
    async with running(pod("a")) as (memory, kubelet):
        await asyncio.sleep(5)
        assert phases(memory) == {"a": "Pending"}
        await memory.bind("default", "a", "", "n1")
        assert kubelet.due == VIRTUAL_EPOCH + 5
        await asyncio.sleep(0)
        (stored,) = memory.objects(Pod)
        assert (stored.status.phase, stored.status.start_time) == ("Running", "2026-01-01T00:00:05Z")
        conditions = {each.type: (each.status, each.last_transition_time) for each in stored.status.conditions}
        since = "2026-01-01T00:00:05Z"
        assert conditions == dict.fromkeys(("PodScheduled", "Initialized", "Ready", "ContainersReady"), ("True", since))
        assert is_idle(kubelet)


async def test_kubelet_is_idle_when_nothing_is_due() -> None:
    told: list[float] = []
    async with running(pod("a", "2")) as (memory, kubelet):
        kubelet.on_idle = lambda: told.append(asyncio.get_running_loop().time())
        await memory.bind("default", "a", "", "n1")
        assert not kubelet.idle
        await asyncio.sleep(1)
        assert not (kubelet.idle or told)
        await asyncio.sleep(5)
        assert kubelet.idle
    assert set(told) == {2.0}


@pytest.mark.parametrize(
    ("code", "phase", "told"),
    [
        ("0", "Succeeded", []),
        ("3", "Failed", [3]),
        ("137", "Failed", [137]),
        ("x", "Succeeded", []),
        ("-1", "Succeeded", []),
    ],
)
async def test_pod_with_an_exit_code_fails(code: str, phase: str, told: list[int]) -> None:
    created = make_pod("a", annotations={RUN_SECONDS: "2", EXIT_CODE: code}, node_name="n1")
    async with running(replace(created, status=PodStatus())) as (memory, kubelet):
        await asyncio.sleep(5)
        status = memory.read(Pod, "a").status
        assert status.phase == phase
        states = [each.state for each in status.container_statuses]
        assert [each.terminated.exit_code for each in states if each is not None and each.terminated] == told
        conditions = {each.type: (each.status, each.reason) for each in status.conditions}
        assert conditions["Ready"] == ("False", "PodFailed" if told else "PodCompleted")
        assert is_idle(kubelet)


async def test_pod_succeeds_after_its_run_time() -> None:
    async with running(pod("a", "2.25"), pod("b", "0"), pod("c")) as (memory, kubelet):
        await asyncio.sleep(0.5)
        for name in "abc":
            await memory.bind("default", name, "", "n1")
        await asyncio.sleep(0.25)
        assert phases(memory) == {"a": "Running", "b": "Succeeded", "c": "Running"}
        assert (kubelet.due, kubelet.pending) == (VIRTUAL_EPOCH + 2.75, 1)
        await asyncio.sleep(1.75)
        assert phases(memory)["a"] == "Running"
        await asyncio.sleep(0.375)
        assert phases(memory) == {"a": "Succeeded", "b": "Succeeded", "c": "Running"}
        conditions = {each.type: each for each in memory.read(Pod, "a", "default").status.conditions}
        assert {name: each.status for name, each in conditions.items()} == {
            "PodScheduled": "True",
            "Initialized": "True",
            "Ready": "False",
            "ContainersReady": "False",
        }
        assert conditions["Ready"].last_transition_time == "2026-01-01T00:00:02Z"
        assert is_idle(kubelet)


@pytest.mark.parametrize(
    ("loaded", "ends_at"),
    [
        (pod("a", "10", node="n1", phase="Running", started=-4), 6),
        (pod("a", "10", node="n1", phase="Running", started=-40), 0),
        (pod("a", "10", node="n1", phase="Running"), 10),
        (pod("a", "10", node="n1", phase="Pending"), 10),
        (pod("a", None, node="n1", phase="Running", started=-4), None),
        (pod("a", "10", node="n1", phase="Failed", started=-4), None),
        (pod("a", "10"), None),
    ],
)
async def test_existing_pods_end_at_their_time(loaded: Pod, ends_at: float | None) -> None:
    async with running(loaded) as (memory, kubelet):
        assert kubelet.pending == (1 if ends_at else 0)
        notes = await moments(memory, 60)
        ended = [second for second, now in notes.items() if now == {"a": "Succeeded"}]
        assert ended == ([] if ends_at is None else [ends_at])


@pytest.mark.parametrize("text", ["soon", "", "nan", "inf", "-1"])
async def test_invalid_run_time_is_logged_once(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with running(pod("a", text, node="n1"), pod("b", "1", node="n1")) as (memory, kubelet):
            await memory.patch(Pod, "a", {"metadata": {"labels": {"x": "y"}}}, "default")
            await asyncio.sleep(10)
            assert phases(memory) == {"a": "Running", "b": "Succeeded"}
            assert is_idle(kubelet)
    assert [record.getMessage() for record in caplog.records] == [
        f"pod default/a: ignoring annotation {RUN_SECONDS}: {text!r} is not a number of seconds"
    ]


async def test_deleted_pod_is_removed_after_its_grace_period() -> None:
    async with running(pod("a", node="n1"), pod("b", "10", node="n1")) as (memory, kubelet):
        await asyncio.sleep(0.5)
        await memory.delete(Pod, "a", "default")
        await memory.delete(Pod, "b", "default")
        await asyncio.sleep(0)
        assert kubelet.pending == 2
        assert await moments(memory, 60) == {
            0.5: {"a": "Running", "b": "Running"},
            10: {"a": "Running"},  # it came to its end first
            30.5: {},
        }
        assert is_idle(kubelet)


async def test_grace_period_can_only_be_shortened() -> None:
    async with running(pod("a", node="n1"), pod("b", node="n1")) as (memory, kubelet):
        for name, grace in (("a", 20), ("a", 5), ("b", 5), ("b", 20)):
            memory.remove(Pod, name, "default", grace=grace)
            await asyncio.sleep(1)
        notes = await moments(memory, 60)
        assert notes == {4: {"a": "Running", "b": "Running"}, 6: {"b": "Running"}, 7: {}}
        assert kubelet.pending == 0


async def test_replaced_pod_has_no_end_of_the_previous_one() -> None:
    async with running(pod("a", "5", node="n1")) as (memory, kubelet):
        memory.remove(Pod, "a", "default", grace=0)
        assert kubelet.pending == 0
        memory.add(pod("a", "20", node="n1"))
        notes = await moments(memory, 60)
        assert [second for second, now in notes.items() if now == {"a": "Succeeded"}] == [20]


async def test_pod_terminated_by_others_is_left_alone() -> None:
    async with running(pod("a", "5", node="n1")) as (memory, kubelet):
        memory.set_status(memory.read(Pod, "a", "default"), PodStatus(phase="Failed"))
        await asyncio.sleep(10)
        assert phases(memory) == {"a": "Failed"}
        assert is_idle(kubelet)


async def test_terminated_pod_is_deleted_at_once() -> None:
    async with running(pod("a", node="n1")) as (memory, _):
        await memory.delete(Pod, "a", "default")
        memory.set_status(memory.read(Pod, "a", "default"), PodStatus(phase="Succeeded"))
        await asyncio.sleep(0)
        assert phases(memory) == {}


async def test_pods_end_in_order_of_time_then_of_arrival() -> None:
    async with running() as (memory, _), noting_ends(memory) as ends:
        for name, seconds in (("d", "3"), ("a", "5"), ("c", "3"), ("b", "1")):
            memory.add(pod(name, seconds, node="n1"))
        await asyncio.sleep(10)
    assert list(ends.items()) == [("b", 1), ("d", 3), ("c", 3), ("a", 5)]


@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.floats(0, 50), st.none() | st.floats(0, 50), st.none() | st.integers(0, 40)),
        max_size=8,
    )
)
def test_every_pod_ends_at_its_time(plans: list[tuple[float, float, float | None, int | None]]) -> None:
    """Each plan: bound at, runs for, deleted after (None: never), with this grace (None: 30 s)."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        expected: dict[str, float] = {}

        async def live(name: str, bound: float, run: float, deleted: float | None, grace: int | None) -> None:
            await asyncio.sleep(bound)
            await memory.bind("default", name, "", "n1")
            started = loop.time()
            expected[name] = started + run
            if deleted is not None and deleted < run:
                await asyncio.sleep(deleted)
                memory.remove(Pod, name, "default", grace=grace)
                expected[name] = min(expected[name], loop.time() + (30 if grace is None else grace))

        pods = [pod(f"p{n}", str(plan[1])) for n, plan in enumerate(plans)]
        async with running(*pods) as (memory, kubelet), noting_ends(memory) as ends:
            await asyncio.gather(*(live(f"p{n}", *plan) for n, plan in enumerate(plans)))
            await asyncio.sleep(200)
            assert is_idle(kubelet)
        assert ends == pytest.approx(expected, abs=1e-5)  # the epoch leaves a clock some 0.2 µs of resolution

    run_virtual(main)


@pytest.mark.parametrize(
    ("ending", "annotation", "grace", "seconds"),
    [(math.inf, None, 30, 30), (1.0, None, 30, 1), (1.0, "20", 30, 20), (math.inf, "5", 30, 5), (1.0, "90", 30, 30)],
)
async def test_deleted_pod_ends_after_its_ending_seconds(
    ending: float, annotation: str | None, grace: int, seconds: float
) -> None:
    loop = asyncio.get_running_loop()
    memory = MemoryCluster(LoopClock(loop))
    running = asyncio.ensure_future(Kubelet(memory, LoopClock(loop), ending).run())
    annotations = {ENDING_SECONDS: annotation} if annotation else {}
    memory.add(Pod(metadata=ObjectMeta(name="a", annotations=annotations), spec=PodSpec(node_name="n")))
    await asyncio.sleep(0)
    began = loop.time()
    gone = asyncio.Event()
    memory.subscribe([Pod], lambda change: gone.set() if change.new is None else None)
    memory.remove(Pod, "a", grace=grace)
    await gone.wait()
    assert loop.time() - began == pytest.approx(seconds)
    running.cancel()
    await asyncio.wait([running])


async def test_deleted_pod_with_a_finalizer_shows_how_it_ended() -> None:
    memory = MemoryCluster(LoopClock(asyncio.get_running_loop()))
    running = asyncio.ensure_future(Kubelet(memory, LoopClock(asyncio.get_running_loop())).run())
    metadata = ObjectMeta(name="a", finalizers=("example.com/counted",))
    memory.add(Pod(metadata=metadata, spec=PodSpec(node_name="n", containers=(Container(name="c"),))))
    await asyncio.sleep(1)
    memory.remove(Pod, "a", grace=10)
    await asyncio.sleep(20)
    (status,) = memory.read(Pod, "a").status.container_statuses
    assert memory.read(Pod, "a").status.phase == "Failed"
    assert status.state is not None and status.state.terminated is not None
    assert status.state.terminated.exit_code == 143
    memory.merge(Pod, "a", {"metadata": {"finalizers": None}})
    assert memory.find(Pod, "a") is None
    running.cancel()
    await asyncio.wait([running])


async def test_pods_started_together_have_own_versions_and_a_shared_status() -> None:
    one = pod("a")
    alike = [replace(one, metadata=replace(one.metadata, name=name)) for name in "abc"]
    async with running(*alike) as (memory, _):
        written: list[Change] = []
        for name in "abc":
            memory.assign("default", name, "", "node")
        memory.subscribe([Pod], written.append)
        before = memory.version
        await asyncio.sleep(0)
        assert [change.version for change in written] == [before + 1, before + 2, before + 3]
        assert all(change.is_of_status for change in written)
        pods = memory.objects(Pod)
        assert [each.metadata.resource_version for each in pods] == [str(change.version) for change in written]
        assert pods[0].status is pods[1].status is pods[2].status
