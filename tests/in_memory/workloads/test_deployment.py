"""A deployment rolls out: by surge and unavailability, all at once, back again, paused, scaled in the midst of it."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import to_builtins

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Deployment, Pod, ReplicaSet
from tests.in_memory.workloads.workload_cluster import (
    deployment,
    pods,
    record_replica_counts,
    run_controllers,
    template,
)


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def change(memory: MemoryCluster, seconds: float = 60, **spec: object) -> None:
    memory.merge(Deployment, "web", {"spec": spec})
    await asyncio.sleep(seconds)


async def roll(memory: MemoryCluster, image: str, seconds: float = 60) -> None:
    await change(memory, seconds, template=to_builtins(template(image)))


def images(memory: MemoryCluster) -> set[str]:
    return {each.image for pod in memory.objects(Pod) for each in pod.spec.containers}


def sizes(memory: MemoryCluster) -> list[int | None]:
    return [each.spec.replicas for each in memory.objects(ReplicaSet)]


def progress(memory: MemoryCluster) -> tuple[str, str]:
    conditions = memory.read(Deployment, "web").status.conditions
    return next((each.status, each.reason) for each in conditions if each.type == "Progressing")


@pytest.mark.parametrize(
    ("count", "surge", "unavailable", "most", "fewest"),
    [
        (4, "25%", "25%", 5, 3),
        (4, 1, 0, 5, 4),
        (4, 0, 1, 4, 3),
        (3, "25%", "25%", 4, 3),
        (4, 0, "10%", 4, 3),
        (2, "100%", 0, 4, 2),
    ],
)
async def test_rollout_respects_its_limits(
    count: int, surge: int | str, unavailable: int | str, most: int, fewest: int
) -> None:
    async with run_controllers(deployment(count, surge, unavailable)) as memory:
        assert progress(memory) == ("True", "NewReplicaSetAvailable")
        recorded = record_replica_counts(memory)
        await roll(memory, "app:2")
        assert (max(all_of for all_of, _ in recorded), min(ready for _, ready in recorded)) == (most, fewest), recorded
        assert images(memory) == {"app:2"} and sizes(memory) == [0, count]
        condition = memory.read(Deployment, "web").status
        assert (condition.replicas, condition.updated_replicas, condition.available_replicas) == (count, count, count)


async def test_recreate_deletes_all_pods_before_creating_new_ones() -> None:
    async with run_controllers(deployment(2, kind="Recreate")) as memory:
        recorded = record_replica_counts(memory)
        await roll(memory, "app:2")
        assert (0, 0) in recorded and max(all_of for all_of, _ in recorded) == 2
        assert images(memory) == {"app:2"} and len(pods(memory)) == 2


async def test_old_template_reuses_its_replica_set_under_a_new_revision() -> None:
    async with run_controllers(deployment(1)) as memory:
        await roll(memory, "app:2")
        await roll(memory, "app:1")
        revisions = [
            each.metadata.annotations["deployment.kubernetes.io/revision"] for each in memory.objects(ReplicaSet)
        ]
        assert (revisions, sizes(memory)) == (["3", "2"], [1, 0])
        annotations = memory.read(Deployment, "web").metadata.annotations
        assert annotations["deployment.kubernetes.io/revision"] == "3"


async def test_history_respects_its_limit() -> None:
    async with run_controllers(deployment(1, revision_history_limit=1)) as memory:
        for image in ("app:2", "app:3", "app:4"):
            await roll(memory, image)
        assert [each.spec.template.spec["containers"][0]["image"] for each in memory.objects(ReplicaSet)] == [  # type: ignore[index]
            "app:3",
            "app:4",
        ]


async def test_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    async with run_controllers(deployment(2)) as memory:
        await change(memory, paused=True)
        assert progress(memory) == ("Unknown", "DeploymentPaused")
        await roll(memory, "app:2")
        await change(memory, replicas=3)
        assert (images(memory), len(pods(memory))) == ({"app:1"}, 3)
        await change(memory, paused=False)
        assert (images(memory), len(pods(memory))) == ({"app:2"}, 3)
        assert progress(memory) == ("True", "NewReplicaSetAvailable")


async def test_stuck_rollout_is_scaled_proportionally_and_times_out() -> None:
    async with run_controllers(deployment(10, surge=3, unavailable=2, min_ready_seconds=3)) as memory:
        await asyncio.sleep(10)
        of_no_node = to_builtins(template("app:2"))
        of_no_node["spec"]["nodeName"] = ""
        await change(memory, 60, template=of_no_node)
        assert sizes(memory) == [8, 5]
        await change(memory, 60, replicas=15)
        assert sizes(memory) == [11, 7]
        await asyncio.sleep(700)
        assert progress(memory) == ("False", "ProgressDeadlineExceeded")


async def test_replica_sets_and_pods_are_deleted_with_their_deployment() -> None:
    async with run_controllers(deployment(2)) as memory:
        memory.remove(Deployment, "web", policy="Foreground")
        await asyncio.sleep(40)
        assert (memory.objects(Deployment), sizes(memory), pods(memory)) == ([], [], [])


async def test_orphaned_replica_sets_are_adopted() -> None:
    async with run_controllers(deployment(2)) as memory:
        memory.remove(Deployment, "web", policy="Orphan")
        await asyncio.sleep(5)
        assert sizes(memory) == [2]
        memory.add(deployment(2))
        await asyncio.sleep(5)
        assert (sizes(memory), len(pods(memory))) == ([2], 2)


@pytest.mark.parametrize("name", ["-deployment", "-deployment-controller"])
async def test_controller_can_be_disabled(name: str) -> None:
    async with run_controllers(deployment(2), controllers=["*", name]) as memory:
        assert sizes(memory) == []
