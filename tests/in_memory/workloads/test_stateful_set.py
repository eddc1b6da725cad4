"""A stateful set's pods come, change and go by their numbers, and have claims that stay or go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.revisions import REVISION_LABEL
from kframework.objects import (
    ClaimRetentionPolicy,
    ControllerRevision,
    PersistentVolumeClaim,
    Pod,
    RollingUpdate,
    StatefulSet,
    StatefulSetOrdinals,
    UpdateStrategy,
)
from tests.in_memory.workloads.workload_cluster import pods, record_pod_events, run_controllers, stateful_set, template

DATA: dict[str, Any] = {
    "volume_claim_templates": ({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}},)
}
PARALLEL = {"pod_management_policy": "Parallel"}


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def change(memory: MemoryCluster, seconds: float = 60, **spec: object) -> None:
    memory.merge(StatefulSet, "web", {"spec": spec})
    await asyncio.sleep(seconds)


async def roll(memory: MemoryCluster, image: str, seconds: float = 60) -> None:
    await change(memory, seconds, template=to_builtins(template(image)))


def images(memory: MemoryCluster) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.containers[0].image for pod in memory.objects(Pod)}


def numbers(memory: MemoryCluster) -> tuple[int, int, int, int, int]:
    result = memory.read(StatefulSet, "web").status
    return (
        result.replicas,
        result.ready_replicas,
        result.available_replicas,
        result.current_replicas,
        result.updated_replicas,
    )


def claims(memory: MemoryCluster) -> list[str]:
    return [claim.metadata.name for claim in memory.objects(PersistentVolumeClaim)]


@pytest.mark.parametrize(
    ("spec", "made", "shrunk"),
    [
        pytest.param(
            {},
            ["+web-0", "!web-0", "+web-1", "!web-1", "+web-2", "!web-2"],
            ["~web-2", "-web-2", "~web-1", "-web-1"],
            id="one after the other",
        ),
        pytest.param(
            PARALLEL,
            ["+web-0", "+web-1", "+web-2", "!web-0", "!web-1", "!web-2"],
            ["~web-2", "~web-1", "-web-2", "-web-1"],
            id="all together",
        ),
        pytest.param(
            {"ordinals": StatefulSetOrdinals(start=5)},
            ["+web-5", "!web-5", "+web-6", "!web-6", "+web-7", "!web-7"],
            ["~web-7", "-web-7", "~web-6", "-web-6"],
            id="from another number on",
        ),
    ],
)
async def test_pods_are_created_and_deleted_by_ordinal(
    spec: dict[str, Any], made: list[str], shrunk: list[str]
) -> None:
    async with run_controllers() as memory:
        recorded = record_pod_events(memory)
        memory.add(stateful_set(3, **spec))
        await asyncio.sleep(5)
        assert (recorded, numbers(memory)) == (made, (3, 3, 3, 3, 3))
        recorded.clear()
        await change(memory, replicas=1)
        assert (recorded, numbers(memory)) == (shrunk, (1, 1, 1, 1, 1))


async def test_pod_has_its_identity() -> None:
    async with run_controllers(stateful_set(2, service_name="peers", **DATA)) as memory:
        pod, revision = memory.read(Pod, "web-1"), memory.read(StatefulSet, "web").status.update_revision
        assert pod.spec.hostname == "web-1"
        assert pod.metadata.labels == {
            "app": "web",
            "statefulset.kubernetes.io/pod-name": "web-1",
            "apps.kubernetes.io/pod-index": "1",
            REVISION_LABEL: revision,
        }
        assert [volume.name for volume in pod.spec.volumes] == ["data"]
        assert claims(memory) == ["data-web-0", "data-web-1"]
        assert memory.read(PersistentVolumeClaim, "data-web-1").metadata.labels == {"app": "web"}


async def test_each_pod_waits_until_the_previous_one_is_available() -> None:
    async with run_controllers(stateful_set(2, min_ready_seconds=30)) as memory:
        assert (pods(memory), numbers(memory)) == (["web-0"], (1, 1, 0, 1, 1))
        await asyncio.sleep(30)
        assert (pods(memory), numbers(memory)) == (["web-0", "web-1"], (2, 2, 1, 2, 2))


@pytest.mark.parametrize("end", ["Failed", "Succeeded", "deleted"])
async def test_deleted_pod_is_created_again_under_its_name(end: str) -> None:
    async with run_controllers(stateful_set(2)) as memory:
        before = memory.read(Pod, "web-0")
        if end == "deleted":
            memory.remove(Pod, "web-0")
        else:
            memory.set_status(before, replace(before.status, phase=end))
        await asyncio.sleep(10)
        assert memory.read(Pod, "web-0").metadata.uid != before.metadata.uid
        assert numbers(memory) == (2, 2, 2, 2, 2)


async def test_rollout_starts_at_the_highest_ordinal() -> None:
    async with run_controllers(stateful_set(3)) as memory:
        recorded = record_pod_events(memory)
        await roll(memory, "app:2")
        assert [each for each in recorded if each[0] in "~!"] == [f"{mark}web-{n}" for n in (2, 1, 0) for mark in "~!"]
        assert set(images(memory).values()) == {"app:2"}
        result = memory.read(StatefulSet, "web").status
        assert result.current_revision == result.update_revision
        assert numbers(memory) == (3, 3, 3, 3, 3)


async def test_pods_below_the_partition_are_not_updated() -> None:
    strategy = UpdateStrategy(type="RollingUpdate", rolling_update=RollingUpdate(partition=2))
    async with run_controllers(stateful_set(3, update_strategy=strategy)) as memory:
        await roll(memory, "app:2")
        assert (list(images(memory).values()), numbers(memory)) == (["app:1", "app:1", "app:2"], (3, 3, 3, 2, 1))
        memory.remove(Pod, "web-0")
        await asyncio.sleep(40)
        assert images(memory) == {"web-0": "app:1", "web-1": "app:1", "web-2": "app:2"}
        await change(memory, updateStrategy={"rollingUpdate": {"partition": 0}})
        assert set(images(memory).values()) == {"app:2"}


async def test_on_delete_pods_are_updated_when_deleted() -> None:
    async with run_controllers(stateful_set(2, update_strategy=UpdateStrategy(type="OnDelete"))) as memory:
        await roll(memory, "app:2")
        assert set(images(memory).values()) == {"app:1"}
        memory.remove(Pod, "web-0")
        await asyncio.sleep(40)
        assert images(memory) == {"web-0": "app:2", "web-1": "app:1"}


async def test_old_template_reuses_its_revision_under_a_new_number() -> None:
    async with run_controllers(stateful_set(1, revision_history_limit=1)) as memory:
        first = memory.read(StatefulSet, "web").status.update_revision
        await roll(memory, "app:2")
        await roll(memory, "app:1")
        revisions = {each.metadata.name: each.revision for each in memory.objects(ControllerRevision)}
        assert revisions[first] == 3 == max(revisions.values()) and len(revisions) == 2
        for image in ("app:3", "app:4"):
            await roll(memory, image)
        assert sorted(each.revision for each in memory.objects(ControllerRevision)) == [4, 5]


@pytest.mark.parametrize(
    ("policy", "after_scale", "after_deletion"),
    [
        ((), ["data-web-0", "data-web-1"], ["data-web-0", "data-web-1"]),
        (("Retain", "Delete"), ["data-web-0"], ["data-web-0"]),
        (("Delete", "Retain"), ["data-web-0", "data-web-1"], []),
        (("Delete", "Delete"), ["data-web-0"], []),
    ],
)
async def test_claims_are_retained_or_deleted_by_policy(
    policy: tuple[str, ...], after_scale: list[str], after_deletion: list[str]
) -> None:
    retention = ClaimRetentionPolicy(when_deleted=policy[0], when_scaled=policy[1]) if policy else None
    async with run_controllers(stateful_set(2, persistent_volume_claim_retention_policy=retention, **DATA)) as memory:
        await change(memory, replicas=1)
        assert claims(memory) == after_scale
        await change(memory, replicas=2)
        assert (claims(memory), pods(memory)) == (["data-web-0", "data-web-1"], ["web-0", "web-1"])
        await change(memory, replicas=1)
        memory.remove(StatefulSet, "web")
        await asyncio.sleep(40)
        assert (pods(memory), claims(memory)) == ([], after_deletion)


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 2)])
async def test_pods_and_revisions_are_deleted_with_their_owner_unless_orphaned(policy: str, left: int) -> None:
    async with run_controllers(stateful_set(2)) as memory:
        memory.remove(StatefulSet, "web", policy=policy)
        await asyncio.sleep(40)
        assert memory.find(StatefulSet, "web") is None
        assert (len(pods(memory)), len(memory.objects(ControllerRevision))) == (left, min(left, 1))
        if left:
            recorded = record_pod_events(memory)
            memory.add(stateful_set(2))
            await asyncio.sleep(5)
            assert (recorded, numbers(memory)) == ([], (2, 2, 2, 2, 2))


async def test_controller_can_be_disabled() -> None:
    async with run_controllers(stateful_set(1), controllers=["*", "-statefulset"]) as memory:
        assert pods(memory) == []
