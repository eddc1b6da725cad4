"""A replica set has as many pods as it wants: it makes, adopts, releases and deletes them."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.dependents import DELETION_COST
from kframework.objects import Pod, PodCondition, ReplicaSet, WorkloadPodTemplate
from kframework.testing import make_pod
from tests.in_memory.workloads.workload_cluster import LABELS, pods, replica_set, run_controllers


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def status(memory: MemoryCluster) -> tuple[int, int, int, int]:
    result = memory.read(ReplicaSet, "web").status
    return result.replicas, result.fully_labeled_replicas, result.ready_replicas, result.available_replicas


async def scale(memory: MemoryCluster, count: int) -> None:
    memory.merge(ReplicaSet, "web", {"spec": {"replicas": count}})
    await asyncio.sleep(5)


async def test_pods_are_created_deleted_and_counted() -> None:
    async with run_controllers(replica_set(3)) as memory:
        assert len(pods(memory)) == 3
        assert all(name.startswith("web-") for name in pods(memory))
        assert status(memory) == (3, 3, 3, 3)
        (owner,) = memory.objects(Pod)[0].metadata.owner_references
        assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == (
            "ReplicaSet",
            "web",
            True,
            True,
        )
        await scale(memory, 1)
        assert (len(pods(memory)), status(memory)) == (1, (1, 1, 1, 1))
        memory.remove(Pod, pods(memory)[0])
        await asyncio.sleep(5)
        assert len(pods(memory)) == 1
        assert memory.read(ReplicaSet, "web").status.observed_generation == 2


async def test_pods_are_available_after_min_ready_seconds() -> None:
    async with run_controllers(replica_set(2, min_ready_seconds=30)) as memory:
        assert status(memory) == (2, 2, 2, 0)
        await asyncio.sleep(30)
        assert status(memory) == (2, 2, 2, 2)


@pytest.mark.parametrize(
    ("marks", "gone"),
    [
        pytest.param({"a": "unbound"}, "a", id="on no node"),
        pytest.param({"b": "not ready"}, "b", id="not ready"),
        pytest.param({"c": "cost"}, "c", id="cheap"),
        pytest.param({"a": "cost", "b": "not ready"}, "b", id="not ready before cheap"),
    ],
)
async def test_least_valuable_pods_are_deleted_first(marks: dict[str, str], gone: str) -> None:
    def created(name: str) -> Pod:
        mark = marks.get(name)
        pod = make_pod(name, labels=LABELS)
        pod = replace(pod, spec=replace(pod.spec, node_name="" if mark == "unbound" else "n1"))
        if mark == "cost":
            pod = replace(pod, metadata=replace(pod.metadata, annotations={DELETION_COST: "-1"}))
        conditions = (PodCondition(type="Ready", status="False"),) if mark == "not ready" else ()
        phase = "Pending" if mark == "unbound" else "Running"
        return replace(pod, status=replace(pod.status, phase=phase, conditions=conditions))

    async with run_controllers(controllers=["*"]) as memory:
        for name in "abc":
            memory.add(created(name))
        memory.add(replica_set(2))
        await asyncio.sleep(40)
        assert pods(memory) == [name for name in "abc" if name != gone]


async def test_matching_pods_are_adopted_and_others_released() -> None:
    async with run_controllers(make_pod("mine", labels=LABELS), make_pod("other"), replica_set(2)) as memory:
        assert len(pods(memory)) == 3
        assert [each.kind for each in memory.read(Pod, "mine").metadata.owner_references] == ["ReplicaSet"]
        assert memory.read(Pod, "other").metadata.owner_references == ()
        mine = memory.read(Pod, "mine")
        memory.replace(replace(mine, metadata=replace(mine.metadata, labels={})))
        await asyncio.sleep(5)
        assert memory.read(Pod, "mine").metadata.owner_references == ()
        assert len(pods(memory)) == 4


async def test_replica_set_without_a_template_is_left_alone() -> None:
    async with run_controllers(replica_set(2, template=WorkloadPodTemplate())) as memory:
        assert pods(memory) == []
