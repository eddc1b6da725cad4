"""Plain pods get pod groups, those of one owner the same one, and empty groups are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from kframework_batch.controllers.pod_groups import MIN_MEMBER, PodGroupController
from kframework_batch.objects import PodGroup
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import (
    ApiObject,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSchedulingGroup,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
)
from kframework.testing import make_pod

GROUP_NAME = "scheduling.k8s.io/group-name"


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@asynccontextmanager
async def running(*objects: ApiObject) -> AsyncIterator[MemoryCluster]:
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    controller = PodGroupController(memory, clock, frozenset({"volcano", "other"}))
    task = asyncio.ensure_future(controller.run())
    await settled()
    assert controller.idle
    yield memory
    assert controller.idle
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settled() -> None:
    await asyncio.sleep(0.01)


def plain(
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    owner: OwnerReference | None = None,
    scheduler: str = "volcano",
) -> Pod:
    return make_pod(
        name, annotations=annotations or {}, labels=labels or {}, owner=owner, scheduler_name=scheduler, cpu="500m"
    )


def owned_by(owner: ApiObject, kind: str) -> OwnerReference:
    metadata = owner.metadata
    return OwnerReference(api_version="apps/v1", kind=kind, name=metadata.name, uid=metadata.uid, controller=True)


def replica_set(annotations: Mapping[str, str]) -> ReplicaSet:
    return ReplicaSet(metadata=ObjectMeta(name="web", namespace="default", uid="rs-1", annotations=dict(annotations)))


def groups(memory: MemoryCluster) -> dict[str, PodGroup]:
    return {group.metadata.name: group for group in memory.objects(PodGroup)}


def group_of(memory: MemoryCluster, pod: str) -> str | None:
    return memory.read(Pod, pod).metadata.annotations.get(GROUP_NAME)


async def test_single_pod_gets_a_group_of_one() -> None:
    pod = plain("a", annotations={"scheduling.volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true"})
    pod = replace(pod, spec=replace(pod.spec, priority_class_name="high"))
    async with running(pod, PriorityClass(metadata=ObjectMeta(name="high"), value=5)) as memory:
        (name,) = groups(memory)
        assert name == f"podgroup-{pod.metadata.uid}" == group_of(memory, "a")
        group = groups(memory)[name]
        assert (group.spec.min_member, group.spec.queue, group.spec.priority_class_name) == (1, "q", "high")
        assert group.spec.min_resources == {"cpu": "500m", "memory": "128Mi"}
        assert group.metadata.annotations == {"volcano.sh/preemptable": "true"}
        (owner,) = group.metadata.owner_references
        assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("v1", "Pod", "a", pod.metadata.uid)
        assert owner.controller
        memory.remove(Pod, "a")
        await settled()
        assert groups(memory) == {}


@pytest.mark.parametrize(
    "pod",
    [
        plain("a", scheduler="default-scheduler"),
        plain("a", annotations={GROUP_NAME: "mine"}),
        plain("a", annotations={GROUP_NAME: "podgroup-of-somebody"}),
        plain("a", labels={"scheduling.x-k8s.io/pod-group": "theirs"}),
        replace(
            plain("a"), spec=replace(plain("a").spec, scheduling_group=PodSchedulingGroup(pod_group_name="upstream"))
        ),
        replace(plain("a"), status=replace(plain("a").status, phase="Succeeded")),
    ],
    ids=["of another scheduler", "annotated", "annotated likewise", "labelled", "upstream", "ended"],
)
async def test_pods_of_other_schedulers_get_no_group(pod: Pod) -> None:
    async with running(pod) as memory:
        assert groups(memory) == {}
        assert memory.read(Pod, "a").metadata.annotations == pod.metadata.annotations


async def test_pods_of_one_owner_share_a_group_that_lives_as_long_as_the_owner() -> None:
    owner = replica_set({MIN_MEMBER: "3", "volcano.sh/sla-waiting-time": "1h", "note": "no"})
    pods = [plain(name, owner=owned_by(owner, "ReplicaSet"), scheduler="other") for name in "abc"]
    async with running(owner, *pods) as memory:
        assert {group_of(memory, name) for name in "abc"} == {*groups(memory)} == {"podgroup-rs-1"}
        group = groups(memory)["podgroup-rs-1"]
        assert (group.spec.min_member, group.spec.queue) == (3, "default")
        assert group.spec.min_resources == {"cpu": "1500m", "memory": "384Mi"}
        assert group.metadata.annotations == {"volcano.sh/sla-waiting-time": "1h"}
        assert group.metadata.owner_references == (owned_by(owner, "ReplicaSet"),)
        for name in "abc":
            memory.remove(Pod, name)
        await settled()
        assert [*groups(memory)] == ["podgroup-rs-1"]
        memory.remove(ReplicaSet, "web", "default")
        await settled()
        assert groups(memory) == {}


async def test_group_is_updated_with_its_owner() -> None:
    owner = StatefulSet(metadata=ObjectMeta(name="db", namespace="default", uid="sts-1"))
    async with running(owner, plain("a", owner=owned_by(owner, "StatefulSet"))) as memory:
        assert groups(memory)["podgroup-sts-1"].spec.min_member == 1
        memory.merge(StatefulSet, "db", {"metadata": {"annotations": {MIN_MEMBER: "2"}}}, "default")
        await settled()
        spec = groups(memory)["podgroup-sts-1"].spec
        assert (spec.min_member, spec.min_resources) == (2, {"cpu": "1", "memory": "256Mi"})


async def test_group_of_unknown_owner_is_deleted_with_its_pods() -> None:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="job-1", controller=True)
    async with running(plain("a", owner=owner), plain("b", owner=owner)) as memory:
        assert [*groups(memory)] == ["podgroup-job-1"]
        memory.remove(Pod, "a")
        await settled()
        assert [*groups(memory)] == ["podgroup-job-1"]
        memory.remove(Pod, "b")
        await settled()
        assert groups(memory) == {}


async def test_group_with_ended_pods_is_kept() -> None:
    async with running(plain("a")) as memory:
        memory.set_status(memory.read(Pod, "a"), replace(memory.read(Pod, "a").status, phase="Succeeded"))
        await settled()
        assert len(groups(memory)) == 1


async def test_deleted_group_is_recreated() -> None:
    async with running(plain("a")) as memory:
        (name,) = groups(memory)
        memory.remove(PodGroup, name, "default")
        await settled()
        assert [*groups(memory)] == [name]


async def test_changes_of_users_to_a_group_without_owner_are_kept() -> None:
    async with running(plain("a")) as memory:
        (name,) = groups(memory)
        memory.merge(PodGroup, name, {"spec": {"minMember": 5}}, "default")
        memory.add(plain("b"))
        memory.set_status(memory.read(Pod, "a"), replace(memory.read(Pod, "a").status, phase="Running"))
        await settled()
        assert groups(memory)[name].spec.min_member == 5


async def test_groups_of_other_controllers_are_unchanged() -> None:
    mine = PodGroup(metadata=ObjectMeta(name="podgroup-mine", namespace="default"))
    async with running(mine) as memory:
        assert [*groups(memory)] == ["podgroup-mine"]


@pytest.mark.parametrize(("text", "members"), [("4", 4), ("0", 0), ("-1", 1), ("many", 1), ("", 1)])
async def test_min_member_annotation_of_the_pod_is_used(
    text: str, members: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(plain("a", annotations={MIN_MEMBER: text})) as memory:
        (group,) = groups(memory).values()
        assert group.spec.min_member == members
    assert ("not a number" in caplog.text) == (not text.isdigit())


@pytest.mark.parametrize(
    ("budgets", "kept"),
    [(("min", "max"), "min"), (("max",), "max")],
)
async def test_first_of_two_disruption_budgets_is_inherited(budgets: tuple[str, ...], kept: str) -> None:
    keys = {"min": "volcano.sh/jdb-min-available", "max": "volcano.sh/jdb-max-unavailable"}
    async with running(plain("a", annotations={keys[each]: "1" for each in budgets})) as memory:
        (group,) = groups(memory).values()
        assert group.metadata.annotations == {keys[kept]: "1"}
