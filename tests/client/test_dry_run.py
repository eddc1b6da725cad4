"""A dry run changes nothing, and shows the scheduler the effects of its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.client.dry_run import DryRunCluster
from kframework.clock import LoopClock, run_virtual
from kframework.config.load import default_configuration
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Event, Namespace, Node, ObjectMeta, Pod, PodCondition
from kframework.scheduler.scheduler import Scheduler
from kframework.state.inbox import Deleted, Message, Upserted
from kframework.testing import make_node, make_pod
from tests.support.event_records import failed_scheduling


def reported(*objects: ApiObject) -> list[tuple[str, str]]:
    """Schedule these objects dry for ten minutes; return what was reported. Nothing may have been written."""
    events: list[tuple[str, str]] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, objects)
        before = cluster.version
        dry = DryRunCluster(cluster, clock, lambda event: events.append((event.reason, event.note)))
        scheduler = Scheduler(default_configuration(), dry, clock, slice=0.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.run)
            await asyncio.sleep(600.0)
            tasks.cancel_scope.cancel()
        assert cluster.version == before

    run_virtual(main)
    return list(dict.fromkeys(events))


def test_bound_pods_use_resources_of_their_nodes() -> None:
    pods = [make_pod(name, cpu=2) for name in ("first", "second", "third")]
    full = "0/1 nodes are available: 1 Insufficient cpu. preemption: "
    assert reported(make_node("a", cpu=4), *pods) == [
        ("Scheduled", "Successfully assigned default/first to a"),
        ("Scheduled", "Successfully assigned default/second to a"),
        ("FailedScheduling", f"{full}0/1 nodes are available: 1 No preemption victims found for incoming pod."),
    ]


def test_each_pod_is_bound_once() -> None:
    events: list[Event] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        dry = DryRunCluster(MemoryCluster(clock, [make_node("a"), make_pod()]), clock, events.append)
        with anyio.move_on_after(86_400.0):
            await Scheduler(default_configuration(), dry, clock, slice=0.0).run()

    run_virtual(main)
    assert [event.reason for event in events] == ["Scheduled"]


def test_victims_free_resources_but_are_not_deleted() -> None:
    victim, urgent = make_pod("victim", node_name="a", cpu=4), make_pod("urgent", cpu=4, priority=9)
    (_, failed), (preempted, _), scheduled = reported(make_node("a", cpu=4), victim, urgent)
    assert failed.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert preempted == "Preempted"
    assert scheduled == ("Scheduled", "Successfully assigned default/urgent to a")


KINDS: list[type[ApiObject]] = [Node, Pod]

Work = Callable[[DryRunCluster, MemoryCluster], Awaitable[None]]


def seen(work: Work, *objects: ApiObject, ended_pods: bool = False) -> list[str]:
    """Do the work while the pods and nodes are watched; return what was seen meanwhile."""
    messages: list[Message] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, objects or [make_pod()])
        dry = DryRunCluster(cluster, clock, lambda event: None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(dry.watch, ended_pods=ended_pods), KINDS, messages.append)
            await asyncio.sleep(1.0)
            messages.clear()
            await work(dry, cluster)
            tasks.cancel_scope.cancel()

    run_virtual(main)
    return [shown(message) for message in messages]


def shown(message: Message) -> str:
    assert isinstance(message, Upserted | Deleted)
    obj, labels = message.obj, message.obj.metadata.labels
    place = f" on {obj.spec.node_name or 'nothing'}" if isinstance(obj, Pod) else ""
    labelled = f" {labels}" if labels else ""
    return f"{type(message).__name__} {obj.metadata.name}{place}{labelled}"


async def bound(dry: DryRunCluster, cluster: MemoryCluster, node_name: str = "a") -> Pod:
    pod = cluster.read(Pod, "pod", "default")
    await dry.bind("default", "pod", pod.metadata.uid, node_name)
    return pod


def test_bound_pod_stays_where_it_is() -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        pod = await bound(dry, cluster)
        cluster.replace(replace(pod, metadata=replace(pod.metadata, labels={"a": "b"})))
        cluster.add(Node(metadata=ObjectMeta(name="a")))

    assert seen(work) == ["Upserted pod on a", "Upserted pod on a {'a': 'b'}", "Upserted a"]


@pytest.mark.parametrize(
    ("node_name", "messages"),
    [("a", ["Upserted pod on a"]), ("b", ["Deleted pod on a", "Upserted pod on b"])],
)
def test_binding_of_the_real_scheduler_takes_precedence(node_name: str, messages: list[str]) -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        pod = await bound(dry, cluster)
        pod = cluster.assign("default", "pod", pod.metadata.uid, node_name)
        cluster.replace(replace(pod, metadata=replace(pod.metadata, labels={"a": "b"})))

    assert seen(work) == ["Upserted pod on a", *messages, f"Upserted pod on {node_name} {{'a': 'b'}}"]


@pytest.mark.parametrize("choose", [True, False])
def test_deleted_pod_is_gone_from_the_node_it_was_shown_on(choose: bool) -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        if choose:
            await bound(dry, cluster)
        cluster.remove(Pod, "pod", "default")

    assert seen(work)[-1] == f"Deleted pod on {'a' if choose else 'nothing'}"


def test_deleted_object_is_not_written() -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        cluster.add(Node(metadata=ObjectMeta(name="a")))
        assert (await dry.patch(Node, "a", {})).metadata.name == "a"
        cluster.remove(Node, "a")
        with pytest.raises(ClusterError, match="not found"):
            await dry.patch(Node, "a", {})

    assert seen(work) == ["Upserted a", "Deleted a"]


def test_deleted_pod_is_gone_once() -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        for _ in range(2):
            await dry.delete(Pod, "pod", "default")
        cluster.assign("default", "pod", "", "b")
        cluster.remove(Pod, "pod", "default", grace=0)
        cluster.add(make_pod())

    assert seen(work) == ["Deleted pod on nothing", "Upserted pod on nothing"]


@pytest.mark.parametrize(("ended_pods", "message"), [(False, "Deleted pod on a"), (True, "Upserted pod on a")])
def test_ended_pod_is_gone_or_changed_as_requested(ended_pods: bool, message: str) -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        pod = await bound(dry, cluster)
        cluster.set_status(pod, replace(pod.status, phase="Failed"))

    assert seen(work, ended_pods=ended_pods)[-1] == message


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (lambda cluster: cluster.bind("default", "other", "no such uid", "a"), 404),
        (lambda cluster: cluster.bind("default", "gated", "gated", "a"), 409),
        (lambda cluster: cluster.bind("default", "pod", "pod", "a"), 0),
        (lambda cluster: twice(cluster), 409),
        (lambda cluster: cluster.delete(Pod, "other", "default"), 404),
        (lambda cluster: cluster.delete(Pod, "pod", "default", uid="another"), 409),
        (lambda cluster: cluster.delete(Pod, "pod", "default", uid="pod"), 0),
        (lambda cluster: cluster.delete(Node, "a"), 0),
        (lambda cluster: cluster.delete(Node, "other"), 404),
        (lambda cluster: cluster.patch(Node, "a", {}), 0),
        (lambda cluster: cluster.patch(Namespace, "other", {}), 404),
        (lambda cluster: cluster.get(Pod, "other", "default"), 404),
        (lambda cluster: cluster.patch(Pod, "other", {}, "default"), 404),
        (lambda cluster: cluster.patch_status(Pod, "other", {}, "default"), 404),
        (lambda cluster: cluster.patch_status(Pod, "pod", {}, "default", uid="another"), 409),
        (lambda cluster: cluster.patch_status(Pod, "pod", {"phase": "Failed"}, "default", uid="pod"), 0),
    ],
)
def test_dry_run_raises_the_apis_errors(call: Callable[[Cluster], Awaitable[object]], status: int) -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        before = cluster.version
        try:
            await call(dry)
            assert status == 0
        except ClusterError as error:
            assert error.status == status
        assert cluster.version == before

    pods = [make_pod(), make_pod("gated", gates=["wait"])]
    seen(work, make_node("a"), *(replace(pod, metadata=replace(pod.metadata, uid=pod.metadata.name)) for pod in pods))


async def twice(cluster: Cluster) -> None:
    for node_name in "ab":
        await cluster.bind("default", "pod", "pod", node_name)


def test_writes_return_objects_without_writing() -> None:
    async def work(dry: DryRunCluster, cluster: MemoryCluster) -> None:
        before, pod, team = (
            cluster.version,
            cluster.read(Pod, "pod", "default"),
            Namespace(metadata=ObjectMeta(name="n")),
        )
        await dry.patch_pod_status("default", "pod", "", condition=PodCondition(type="A"), nominated_node_name="a")
        await dry.record_event(failed_scheduling("e"))
        assert await dry.create(team) == team
        assert await dry.update(pod) == pod
        assert await dry.patch(Pod, "pod", {"metadata": {"labels": {"a": "b"}}}, "default") == pod
        assert await dry.patch_status(Pod, "pod", {"phase": "Failed"}, "default") == pod
        assert (await dry.get(Pod, "pod", "default"), await dry.list(Pod)) == (pod, [pod])
        assert cluster.version == before

    assert seen(work) == []
