"""Pods that no kubelet ends any more are failed and deleted, and of very many that are over the oldest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.in_memory import pod_garbage_collector
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.in_memory.pod_garbage_collector import PodGarbageCollector
from kframework.objects import (
    ApiObject,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Taint,
)
from tests.in_memory.workloads.workload_cluster import run_controllers

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
HELD = ("example.com/held",)


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def node(name: str = "n1", ready: str | None = None, taint: str | None = None) -> Node:
    conditions = (NodeCondition(type="Ready", status=ready),) if ready else ()
    taints = (Taint(key=taint, effect="NoExecute"),) if taint else ()
    status = NodeStatus(conditions=conditions)
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(taints=taints), status=status)


def pod(name: str, on: str = "n1", phase: str = "Running", created: int = 0, reason: str = "", **more: Any) -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", creation_timestamp=f"2026-01-01T00:00:{created:02}Z", **more)
    spec = PodSpec(node_name=on, termination_grace_period_seconds=3600)
    return Pod(metadata=metadata, spec=spec, status=PodStatus(phase=phase, reason=reason))


@asynccontextmanager
async def run_collector(*objects: ApiObject) -> AsyncIterator[MemoryCluster]:
    """Run the collector alone: no kubelet ends a pod."""
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    collector = PodGarbageCollector(memory, clock)
    running = asyncio.ensure_future(collector.run())
    await asyncio.sleep(1)
    yield memory
    await asyncio.sleep(100)
    assert collector.idle
    running.cancel()
    await asyncio.wait([running])


def pods(memory: MemoryCluster) -> list[str]:
    return [each.metadata.name for each in memory.objects(Pod)]


def result(memory: MemoryCluster) -> list[tuple[str, tuple[PodCondition, ...]]]:
    """Note phase and conditions of pods as they change: it grows while time passes."""
    recorded: list[tuple[str, tuple[PodCondition, ...]]] = []

    def note(change: Change) -> None:
        if isinstance(change.new, Pod):
            recorded.append((change.new.status.phase, change.new.status.conditions))

    memory.subscribe([Pod], note)
    return recorded


def release(memory: MemoryCluster, name: str) -> None:
    pod = memory.read(Pod, name, "default")
    memory.replace(replace(pod, metadata=replace(pod.metadata, finalizers=())))


async def test_pods_are_deleted_some_time_after_their_node() -> None:
    async with run_collector(node(), node("n2"), pod("a"), pod("b", "n2"), pod("c", "")) as memory:
        memory.remove(Node, "n1")
        await asyncio.sleep(39)
        assert pods(memory) == ["a", "b", "c"]
        recorded = result(memory)
        await asyncio.sleep(2)
        assert pods(memory) == ["b", "c"]
        ((phase, (condition,)),) = recorded
        assert phase == "Failed"
        said = condition.type, condition.status, condition.reason, condition.message, condition.observed_generation
        assert said == ("DisruptionTarget", "True", "DeletionByPodGC", "PodGC: node no longer exists", 1)


async def test_terminated_pod_is_deleted_without_a_status_change() -> None:
    async with run_collector(node(), pod("a", phase="Succeeded")) as memory:
        recorded = result(memory)
        memory.remove(Node, "n1")
        await asyncio.sleep(41)
        assert pods(memory) == [] == recorded


async def test_pods_of_a_recreated_node_stay() -> None:
    async with run_collector(node(), pod("a")) as memory:
        memory.remove(Node, "n1")
        await asyncio.sleep(30)
        memory.add(node())
        await asyncio.sleep(100)
        assert pods(memory) == ["a"]


async def test_pods_of_an_unknown_node_stay() -> None:
    async with run_collector(pod("a")) as memory:
        await asyncio.sleep(100)
        assert pods(memory) == ["a"]


async def test_pod_bound_to_a_deleted_node_is_deleted() -> None:
    async with run_collector(node(), pod("a", "")) as memory:
        memory.remove(Node, "n1")
        await asyncio.sleep(100)
        memory.assign("default", "a", "", "n1")
        await asyncio.sleep(39)
        assert pods(memory) == ["a"]
        await asyncio.sleep(2)
        assert pods(memory) == []


async def test_pod_with_a_finalizer_waits_for_it() -> None:
    async with run_collector(node(), pod("a", finalizers=HELD)) as memory:
        memory.remove(Node, "n1")
        await asyncio.sleep(50)
        assert memory.read(Pod, "a", "default").status.phase == "Failed"
        release(memory, "a")
        assert pods(memory) == []


async def test_deleted_pod_without_a_node_fails() -> None:
    async with run_collector(pod("a", "", "Pending", finalizers=HELD), pod("b", "", "Pending")) as memory:
        memory.remove(Pod, "a", "default")
        await asyncio.sleep(19)
        assert memory.read(Pod, "a", "default").status.phase == "Pending"
        await asyncio.sleep(2)
        assert [each.status.phase for each in memory.objects(Pod)] == ["Failed", "Pending"]
        assert memory.read(Pod, "a", "default").status.conditions == ()
        release(memory, "a")
        assert pods(memory) == ["b"]


@pytest.mark.parametrize(
    ("ready", "taint", "left"),
    [
        ("False", OUT_OF_SERVICE, ["b"]),
        ("Unknown", OUT_OF_SERVICE, ["b"]),
        ("True", OUT_OF_SERVICE, ["a", "b"]),
        (None, OUT_OF_SERVICE, ["a", "b"]),
        ("False", "node.kubernetes.io/unreachable", ["a", "b"]),
        ("False", None, ["a", "b"]),
    ],
)
async def test_deleted_pod_on_an_out_of_service_node_is_removed(
    ready: str | None, taint: str | None, left: list[str]
) -> None:
    for before in (True, False):
        async with run_collector(node("n1"), pod("a"), pod("b")) as memory:
            if before:
                memory.put(node("n1", ready, taint))
            memory.remove(Pod, "a", "default")
            if not before:
                memory.put(node("n1", ready, taint))
            await asyncio.sleep(19)
            assert pods(memory) == ["a", "b"]
            await asyncio.sleep(2)
            assert pods(memory) == left


async def test_oldest_terminated_pods_are_deleted_after_evicted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_garbage_collector, "TERMINATED_POD_THRESHOLD", 4)
    terminated = [
        pod("d", phase="Succeeded", created=3),
        pod("c", phase="Failed", created=2),
        pod("b", phase="Failed", created=2),
        pod("evicted", phase="Failed", created=9, reason="Evicted"),
        pod("running", created=1),
    ]
    async with run_collector(*terminated) as memory:
        await asyncio.sleep(100)
        assert len(pods(memory)) == 5
        memory.add(pod("e", phase="Succeeded", created=4))
        await asyncio.sleep(19)
        assert len(pods(memory)) == 6
        await asyncio.sleep(2)
        assert pods(memory) == ["d", "c", "b", "running", "e"]
        memory.add(pod("f", phase="Failed", created=5))
        running = memory.read(Pod, "running", "default")
        memory.set_status(running, replace(running.status, phase="Succeeded"))
        await asyncio.sleep(21)
        assert pods(memory) == ["d", "c", "e", "f"]
        memory.remove(Pod, "d", "default")
        memory.add(pod("g", phase="Failed", created=5))
        await asyncio.sleep(21)
        assert pods(memory) == ["c", "e", "f", "g"]


@pytest.mark.parametrize(("controllers", "left"), [(["*"], []), (["*", "-pod-garbage-collector-controller"], ["a"])])
async def test_controller_can_be_disabled(controllers: list[str], left: list[str]) -> None:
    async with run_controllers(node(), pod("a"), controllers=controllers) as memory:
        memory.remove(Node, "n1")
        await asyncio.sleep(100)
        assert pods(memory) == left
