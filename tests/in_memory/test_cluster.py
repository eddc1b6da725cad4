"""The cluster in memory, seen by a client and from its own side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.client.transitions import has_ended
from kframework.clock import LoopClock, VirtualTimeLoop, run_virtual
from kframework.errors import ClusterError
from kframework.in_memory.admission import generate_name
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    Container,
    Event,
    Lease,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PriorityClass,
)
from kframework.state.inbox import Deleted, Message, StatusChanged, Synced, Upserted
from tests.support.declared_kinds import Quota, Team, team
from tests.support.event_records import failed_scheduling

START = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def pod(name: str, *, namespace: str = "default", node: str = "", phase: str = "", priority_class: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodSpec(node_name=node, priority_class_name=priority_class),
        status=PodStatus(phase=phase),
    )


def node(name: str, cpu: str = "4") -> Node:
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity={"cpu": cpu}))


def cluster(*objects: ApiObject) -> MemoryCluster:
    return MemoryCluster(LoopClock(asyncio.get_running_loop()), objects)


@asynccontextmanager
async def watching(source: Cluster, *kinds: type[ApiObject]) -> AsyncIterator[list[Message]]:
    """Follow these kinds; what is there already has arrived when the block begins."""
    messages: list[Message] = []
    watch = asyncio.ensure_future(source.watch(kinds, messages.append))
    await asyncio.sleep(0)
    yield messages
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


def result(messages: list[Message]) -> list[str]:
    """Write messages short: `+name` for Changed, `-name` for Gone."""
    words = []
    for message in messages:
        match message:
            case Upserted(obj) | Deleted(obj):
                assert isinstance(obj, ApiObject)
                words.append(("+" if isinstance(message, Upserted) else "-") + obj.metadata.name)
            case Synced():
                words.append("synced")
    return words


async def refusal(call: Awaitable[object]) -> ClusterError:
    with pytest.raises(ClusterError) as caught:
        await call
    return caught.value


# --- create, get, list ------------------------------------------------------------------------------------------------


async def test_created_object_can_be_read() -> None:
    memory = cluster()
    created = await memory.create(pod("a"))
    assert created.metadata.resource_version == str(memory.version)
    assert created.metadata.creation_timestamp == START
    assert await memory.get(Pod, "a", "default") is created
    assert await memory.list(Pod) == await memory.list(Pod, "default") == [created]
    assert await memory.list(Pod, "elsewhere") == []


async def test_list_may_select_by_labels() -> None:
    memory = cluster()
    for name, labels in (("a", {"app": "web"}), ("b", {"app": "web", "tier": "front"}), ("c", {})):
        await memory.create(replace(pod(name), metadata=ObjectMeta(name=name, namespace="default", labels=labels)))
    assert [each.metadata.name for each in await memory.list(Pod, labels={"app": "web"})] == ["a", "b"]
    assert [each.metadata.name for each in await memory.list(Pod, labels={"app": "web", "tier": "front"})] == ["b"]


class Runs(Container, frozen=True, kw_only=True):
    """A container with fields that a scheduler does not read."""

    command: str = ""


async def test_created_object_keeps_only_the_fields_of_its_kind() -> None:
    memory = cluster()
    result = pod("a")
    more = Runs(name="c", image="x", command="true")
    created = await memory.create(replace(result, spec=replace(result.spec, containers=(more,))))
    assert created.spec.containers == (Container(name="c", image="x"),)


async def test_created_pod_is_pending() -> None:
    created = await cluster().create(replace(pod("a", phase="Running"), metadata=ObjectMeta(name="a", uid="forged")))
    assert (created.status.phase, created.metadata.namespace) == ("Pending", "default")
    assert created.metadata.uid != "forged"


async def test_recreated_object_has_another_uid() -> None:
    memory = cluster()
    first = await memory.create(pod("a"))
    await memory.delete(Pod, "a", "default")
    second = await memory.create(pod("a"))
    assert first.metadata.uid != second.metadata.uid


async def test_two_clusters_with_the_same_story_are_equal() -> None:
    async def story() -> list[Pod]:
        memory = cluster(pod("a"))
        await memory.create(Pod(metadata=ObjectMeta(generate_name="web-")))
        await memory.bind("default", "a", "", "n1")
        return memory.objects(Pod)

    assert await story() == await story()


async def test_generated_name_is_not_taken() -> None:
    memory = cluster()
    first, second = (generate_name("web-", memory.version + later) for later in (2, 3))
    memory.add(pod(first))
    created = await memory.create(Pod(metadata=ObjectMeta(generate_name="web-")))
    assert created.metadata.name == second


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        (lambda memory: memory.get(Pod, "b", "default"), 404, 'pods "b" not found'),
        (lambda memory: memory.get(PriorityClass, "b"), 404, 'priorityclasses.scheduling.k8s.io "b" not found'),
        (lambda memory: memory.list(ApiObject), 404, "the server could not find the requested resource"),
        (lambda memory: memory.watch([ApiObject], print), 404, "the server could not find the requested resource"),
        (lambda memory: memory.create(pod("a")), 409, 'pods "a" already exists'),
        (lambda memory: memory.create(pod("b", namespace="team")), 404, 'namespaces "team" not found'),
        (lambda memory: memory.update(pod("b")), 404, 'pods "b" not found'),
        (lambda memory: memory.patch(Pod, "b", {}, "default"), 404, 'pods "b" not found'),
        (lambda memory: memory.patch_status(Pod, "b", {}, "default"), 404, 'pods "b" not found'),
        (lambda memory: memory.patch_status(Lease, "b", {}), 404, "the server could not find the requested resource"),
        (lambda memory: memory.delete(Pod, "b", "default"), 404, 'pods "b" not found'),
        (lambda memory: memory.bind("default", "b", "", "n1"), 404, 'pods "b" not found'),
        (lambda memory: memory.patch_pod_status("default", "b", ""), 404, 'pods "b" not found'),
    ],
)
async def test_invalid_calls_are_rejected(
    call: Callable[[MemoryCluster], Awaitable[object]], status: int, message: str
) -> None:
    memory = cluster(pod("a"))
    version = memory.version
    error = await refusal(call(memory))
    assert (error.status, str(error)) == (status, message)
    assert memory.version == version


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.bind("default", "a", "other", "n1"),
        lambda memory: memory.patch_pod_status("default", "a", "other", nominated_node_name="n1"),
        lambda memory: memory.patch_status(Pod, "a", {"phase": "Failed"}, "default", uid="other"),
        lambda memory: memory.update(Pod(metadata=ObjectMeta(name="a", namespace="default", uid="other"))),
    ],
)
async def test_wrong_uid_is_a_conflict(call: Callable[[MemoryCluster], Awaitable[object]]) -> None:
    error = await refusal(call(cluster(pod("a"))))
    assert (error.status, error.reason) == (409, "Conflict")
    assert "UID in precondition: other" in str(error)


async def test_deletion_with_a_wrong_uid_is_a_conflict() -> None:
    error = await refusal(cluster(pod("a")).delete(Pod, "a", "default", uid="other"))
    assert (error.status, error.reason) == (409, "Conflict")
    assert "the UID in the precondition (other) does not match the UID in record" in str(error)


@pytest.mark.parametrize("name", ["default", "kube-public", "kube-system"])
async def test_system_namespaces_cannot_be_deleted(name: str) -> None:
    memory = cluster(pod("a"))
    error = await refusal(memory.delete(Namespace, name))
    assert (error.status, error.reason) == (403, "Forbidden")
    assert str(error) == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert memory.find(Pod, "a", "default") is not None


# --- update and patch -------------------------------------------------------------------------------------------------


async def test_update_requires_the_last_version() -> None:
    memory = cluster(node("n1"))
    first = memory.read(Node, "n1")
    second = await memory.update(replace(first, spec=NodeSpec(unschedulable=True)))
    assert int(second.metadata.resource_version) > int(first.metadata.resource_version)
    error = await refusal(memory.update(first))
    assert (error.status, error.reason) == (409, "Conflict")
    assert "the object has been modified" in str(error)
    without_version = replace(first, metadata=replace(first.metadata, resource_version=""))
    assert (await memory.update(without_version)).spec == NodeSpec()


async def test_unchanged_object_is_not_written() -> None:
    memory = cluster(node("n1"), pod("a"))
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    await memory.patch_pod_status("default", "a", "", condition=condition, nominated_node_name="n1")
    version = memory.version
    async with watching(memory, Node, Pod) as messages:
        await asyncio.sleep(60)
        await memory.update(memory.read(Node, "n1"))
        await memory.patch(Node, "n1", {"metadata": {"labels": {"absent": None}}})
        await memory.patch_pod_status("default", "a", "", condition=condition)
        await memory.patch_pod_status("default", "a", "", nominated_node_name="n1")
        await memory.patch_pod_status("default", "a", "")
    assert memory.version == version
    assert result(messages) == ["+a", "+n1", "synced"]


@pytest.mark.parametrize(
    ("patch", "labels"),
    [
        ({"metadata": {"labels": {"b": "3"}}}, {"a": "1", "b": "3"}),
        ({"metadata": {"labels": {"a": None, "c": "4"}}}, {"b": "2", "c": "4"}),
        ({"metadata": {"labels": None}}, {}),
        ({}, {"a": "1", "b": "2"}),
    ],
)
async def test_merge_patches_are_applied(patch: dict[str, object], labels: dict[str, str]) -> None:
    memory = cluster(Node(metadata=ObjectMeta(name="n1", labels={"a": "1", "b": "2"}), status=node("n1").status))
    patched = await memory.patch(Node, "n1", patch)
    assert patched.metadata.labels == labels
    assert patched.status.allocatable == {"cpu": "4"}
    assert memory.read(Node, "n1") is patched


async def test_store_merges_a_status_too() -> None:
    memory = cluster(node("n1"))
    merged = memory.merge(Node, "n1", {"status": {"allocatable": {"cpu": "2"}}, "spec": {"unschedulable": True}})
    assert (merged.status.allocatable, merged.status.capacity) == ({"cpu": "2"}, {"cpu": "4"})
    assert merged.spec.unschedulable
    assert memory.read(Node, "n1") is merged
    with pytest.raises(ClusterError, match=r"spec\.unschedulable"):
        memory.merge(Node, "n1", {"spec": {"unschedulable": "perhaps"}})


async def test_invalid_patch_is_a_bad_request() -> None:
    error = await refusal(cluster(node("n1")).patch(Node, "n1", {"spec": {"unschedulable": "perhaps"}}))
    assert (error.status, error.reason) == (400, "BadRequest")
    assert "spec.unschedulable" in str(error)


async def test_put_creates_or_replaces_an_object() -> None:
    memory = cluster()
    first = memory.put(node("n1", "4"))
    second = memory.put(replace(node("n1", "8"), metadata=ObjectMeta(name="n1", uid="new", resource_version="1")))
    assert second.metadata.uid == first.metadata.uid
    assert memory.read(Node, "n1").status.capacity == {"cpu": "8"}


# --- a pod's life -----------------------------------------------------------------------------------------------------


async def test_pod_is_bound_once() -> None:
    labels = {"topology.kubernetes.io/zone": "z"}
    memory = cluster(pod("a"), replace(node("n1"), metadata=ObjectMeta(name="n1", labels=labels)))
    await memory.bind("default", "a", "", "n1")
    stored = memory.read(Pod, "a", "default")
    assert (stored.spec.node_name, stored.metadata.labels) == ("n1", labels)
    error = await refusal(memory.bind("default", "a", stored.metadata.uid, "n2"))
    assert (error.status, str(error)) == (
        409,
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"',
    )


async def test_pod_status_is_patched() -> None:
    memory = cluster(pod("a"))
    uid = memory.read(Pod, "a", "default").metadata.uid
    failed = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="first")
    await memory.patch_pod_status("default", "a", uid, condition=failed, nominated_node_name="n1")
    await asyncio.sleep(60)
    await memory.patch_pod_status("default", "a", uid, condition=replace(failed, message="second"))
    status = memory.read(Pod, "a", "default").status
    assert status.conditions == (replace(failed, message="second", last_transition_time=START),)
    assert status.nominated_node_name == "n1"
    await memory.patch_pod_status("default", "a", uid, nominated_node_name="")
    assert memory.read(Pod, "a", "default").status.nominated_node_name == ""


async def test_pending_pod_is_deleted_at_once() -> None:
    memory = cluster(pod("a"))
    await memory.delete(Pod, "a", "default")
    assert memory.objects(Pod) == []


async def test_assigned_pod_gets_its_grace_period() -> None:
    memory = cluster(pod("a", node="n1", phase="Running"))
    await memory.delete(Pod, "a", "default")
    version = memory.version
    dying = memory.read(Pod, "a", "default").metadata
    assert (dying.deletion_timestamp, dying.deletion_grace_period_seconds) == ("2026-01-01T00:00:30Z", 30)
    await memory.delete(Pod, "a", "default")
    assert memory.version == version
    memory.remove(Pod, "a", "default", grace=5)
    assert memory.read(Pod, "a", "default").metadata.deletion_grace_period_seconds == 5
    memory.remove(Pod, "a", "default", grace=0)
    assert memory.objects(Pod) == []


async def test_event_series_grows() -> None:
    memory = cluster()
    await memory.record_event(failed_scheduling())
    await memory.record_event(failed_scheduling(count=2))
    (stored,) = memory.objects(Event)
    assert (stored.reason, stored.series) == ("FailedScheduling", failed_scheduling(count=2).event().series)


async def test_buffered_event_is_stored_as_it_was_when_recorded() -> None:
    memory = cluster()
    record = failed_scheduling()
    await memory.record_event(record)
    version, told_at = memory.version, memory.timestamp()
    record.count = 7
    memory.add(pod("later"))
    (stored,) = memory.objects(Event)
    assert (stored.metadata.resource_version, stored.metadata.creation_timestamp) == (str(version), told_at)
    assert stored.series is None, "what is told later is not written yet"


async def test_event_watcher_receives_events_at_once() -> None:
    memory = cluster()
    changes: list[Change] = []
    await memory.record_event(failed_scheduling("before"))
    stop = memory.subscribe([Event], changes.append)
    await memory.record_event(failed_scheduling("web"))
    await memory.record_event(failed_scheduling("web", count=2))
    stop()
    await memory.record_event(failed_scheduling("after"))
    recorded = [(change.old is None, change.subject.metadata.name.partition(".")[0]) for change in changes]
    assert recorded == [(True, "web"), (False, "web")]
    assert len(memory.objects(Event)) == 3


async def test_buffered_events_are_deleted_with_their_namespace() -> None:
    memory = cluster(Namespace(metadata=ObjectMeta(name="shop")))
    await memory.record_event(failed_scheduling(namespace="shop"))
    await memory.record_event(failed_scheduling())
    await memory.delete(Namespace, "shop")
    assert [event.metadata.namespace for event in memory.objects(Event)] == ["default"]


# --- watching ---------------------------------------------------------------------------------------------------------


async def test_declared_kind_is_stored() -> None:
    memory = cluster(team("red", 3), Quota(metadata=ObjectMeta(name="all")))
    assert [each.spec.max_pods for each in await memory.list(Team)] == [3]
    assert memory.objects(Quota)[0].metadata.namespace == ""
    async with watching(memory, Quota, Team, Node) as messages:
        await memory.create(team("blue"))
        await memory.patch(Team, "blue", {"spec": {"maxPods": 2}}, "default")
        await memory.delete(Team, "red", "default")
    assert result(messages) == ["+all", "+red", "synced", "+blue", "+blue", "-red"]
    assert (await memory.get(Team, "blue", "default")).spec.max_pods == 2


async def test_watch_lists_and_then_follows() -> None:
    memory = cluster(node("n1"), pod("a"))
    async with watching(memory, Node, Pod) as messages:
        await memory.create(pod("b"))
        assert result(messages) == ["+a", "+n1", "synced", "+b"]  # at the time of the write
        await memory.delete(Node, "n1")
        await memory.create(Event(metadata=ObjectMeta(name="unwatched")))
    await memory.create(pod("late"))
    assert result(messages) == ["+a", "+n1", "synced", "+b", "-n1"]


async def test_terminated_pods_leave_the_watch() -> None:
    memory = cluster(pod("ended", phase="Failed"), pod("a", phase="Running"))
    async with watching(memory, Pod) as messages:
        running = memory.read(Pod, "a", "default")
        ended = memory.set_status(running, PodStatus(phase="Succeeded"))
        memory.put(replace(ended, metadata=replace(ended.metadata, labels={"x": "y"})))
        await memory.delete(Pod, "a", "default")
        await memory.delete(Pod, "ended", "default")
    assert result(messages) == ["+a", "synced", "-a"]
    assert messages[-1] == Deleted(running)


# --- faults -----------------------------------------------------------------------------------------------------------

DOWN = ClusterError("the server is down", status=503, retryable=True)


@pytest.mark.parametrize(
    ("fault", "bound_to", "raised", "seconds"),
    [
        (Fault(error=DOWN), "", True, 0),
        (Fault(delay=3), "n1", False, 3),
        (Fault(error=DOWN, delay=3), "", True, 3),
        (Fault(error=DOWN, done=True, delay=3), "n1", True, 3),
    ],
)
async def test_faults_apply_to_client_calls(fault: Fault, bound_to: str, raised: bool, seconds: float) -> None:
    memory = cluster(pod("a"), pod("b"))
    requested: list[tuple[str, str, str, str]] = []

    def breaks_bindings_of_a(method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        requested.append((method, kind.__name__, namespace, name))
        return fault if (method, name) == ("bind", "a") else None

    memory.faults.append(breaks_bindings_of_a)
    await memory.bind("default", "b", "", "n2")
    begin = asyncio.get_running_loop().time()
    try:
        await memory.bind("default", "a", "", "n1")
    except ClusterError as error:
        assert raised
        assert error is DOWN
    else:
        assert not raised
    assert asyncio.get_running_loop().time() - begin == seconds
    assert memory.read(Pod, "a", "default").spec.node_name == bound_to
    assert requested == [("bind", "Pod", "default", "b"), ("bind", "Pod", "default", "a")]


@pytest.mark.parametrize("done", [False, True])
async def test_status_update_can_have_a_fault(done: bool) -> None:
    memory = cluster(pod("a"))
    memory.faults.append(lambda *requested: Fault(error=DOWN, done=done) if requested == STATUS_OF_A else None)
    assert await refusal(memory.patch_status(Pod, "a", {"phase": "Failed"}, "default")) is DOWN
    assert memory.read(Pod, "a", "default").status.phase == ("Failed" if done else "Pending")


STATUS_OF_A = ("patch_status", Pod, "default", "a")


async def test_fault_of_an_event_receives_its_name() -> None:
    memory, record = cluster(), failed_scheduling()
    memory.faults.append(lambda *requested: Fault(error=DOWN) if requested == of_record else None)
    of_record = ("record_event", Event, "default", record.name)
    assert await refusal(memory.record_event(record)) is DOWN
    assert memory.objects(Event) == []


async def test_first_fault_applies() -> None:
    memory = cluster()
    memory.faults += [lambda *_: None, lambda *_: Fault(error=DOWN), lambda *_: pytest.fail("asked too far")]
    assert await refusal(memory.list(Pod)) is DOWN
    assert await refusal(memory.watch([Pod], print)) is DOWN


async def test_store_has_no_faults() -> None:
    memory = cluster()
    memory.faults.append(lambda *_: Fault(error=DOWN))
    memory.add(pod("a"))
    assert [each.metadata.name for each in memory.objects(Pod)] == ["a"]


# --- any sequence -----------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c"])
verbs = st.one_of(
    st.tuples(st.just("create"), names, st.just("")),
    st.tuples(st.just("bind"), names, st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("label"), names, st.sampled_from(["x", "y"])),
    st.tuples(st.just("nominate"), names, st.sampled_from(["", "n1"])),
    st.tuples(st.just("phase"), names, st.sampled_from(["Running", "Succeeded", "Failed"])),
    st.tuples(st.just("delete"), names, st.just("")),
    st.tuples(st.just("kill"), names, st.just("")),
)


async def do(memory: MemoryCluster, verb: str, name: str, value: str) -> None:
    match verb:
        case "create":
            await memory.create(pod(name))
        case "bind":
            await memory.bind("default", name, "", value)
        case "label":
            await memory.patch(Pod, name, {"metadata": {"labels": {"l": value}}}, "default")
        case "nominate":
            await memory.patch_pod_status("default", name, "", nominated_node_name=value)
        case "phase":
            memory.set_status(memory.read(Pod, name, "default"), PodStatus(phase=value))
        case "delete":
            await memory.delete(Pod, name, "default")
        case "kill":
            memory.remove(Pod, name, "default", grace=0)


@given(st.lists(verbs, max_size=40), st.integers(0, 40))
def test_watch_and_subscription_reproduce_the_list(story: list[tuple[str, str, str]], pause: int) -> None:
    async def main() -> None:
        memory = cluster(pod("a"))
        changes: list[Change] = []
        async with watching(memory, Pod) as messages:
            await follow(memory, story[:pause])
            before = by_name(memory)
            memory.subscribe([Pod], changes.append)
            await follow(memory, story[pause:])
        now = by_name(memory)
        assert replayed(messages) == {name: each for name, each in now.items() if not has_ended(each)}
        assert resumed(before, changes) == now

    run_virtual(main)


async def follow(memory: MemoryCluster, story: list[tuple[str, str, str]]) -> None:
    """Do what the story says; a step that is refused must write nothing, and versions never go back."""
    for step in story:
        version = memory.version
        try:
            await do(memory, *step)
        except ClusterError as error:
            assert error.status in (404, 409)
            assert memory.version == version
        assert memory.version >= version


def by_name(memory: MemoryCluster) -> dict[str, Pod]:
    return {each.metadata.name: each for each in memory.objects(Pod)}


def replayed(messages: list[Message]) -> dict[str, Pod]:
    pods: dict[str, Pod] = {}
    for message in messages:
        match message:
            case Upserted(Pod() as changed):
                pods[changed.metadata.name] = changed
            case Deleted(Pod() as deleted):
                assert pods.pop(deleted.metadata.name) == deleted
    return pods


def resumed(pods: dict[str, Pod], changes: list[Change]) -> dict[str, Pod]:
    pods = dict(pods)
    for change in changes:
        if isinstance(change.old, Pod):
            assert pods.pop(change.old.metadata.name) == change.old
        if isinstance(change.new, Pod):
            pods[change.new.metadata.name] = change.new
    return pods


async def test_admitted_object_is_what_would_be_stored() -> None:
    memory = cluster(pod("there"))
    version = memory.version
    admitted = memory.admit(pod("web"))
    assert (admitted.status.phase, admitted.metadata.resource_version) == ("Pending", "")
    there = memory.read(Pod, "there", "default")
    labelled = replace(there, metadata=replace(there.metadata, labels={"a": "b"}))
    amended = memory.admit_update(labelled, there)
    with pytest.raises(ClusterError, match='pods "there" already exists'):
        memory.admit(pod("there"))
    unstored = replace(there, metadata=replace(there.metadata, name="nobody", uid="u"))
    assert memory.admit_update(pod("nobody"), unstored).metadata.uid == "u"
    for field, value in (("uid", "other"), ("resource_version", "1")):
        with pytest.raises(ClusterError) as refused:
            memory.admit_update(replace(unstored, metadata=replace(unstored.metadata, **{field: value})), unstored)
        assert refused.value.status == 409
    assert memory.version == version
    assert memory.find(Pod, "web", "default") is None
    assert memory.write(admitted) == memory.read(Pod, "web", "default")
    assert memory.write(amended).metadata.labels == {"a": "b"}
    again = memory.write(memory.read(Pod, "there", "default"))
    assert again.metadata.resource_version == str(memory.version) == str(version + 3)


async def test_watch_reports_a_status_change_of_an_assigned_pod_alone() -> None:
    memory = cluster(pod("web", node="a"), pod("waits"))
    async with watching(memory, Pod) as messages:
        messages.clear()
        for name in ("web", "waits"):
            old = memory.read(Pod, name)
            memory.set_statuses([(old, replace(old.status, phase="Running"))])
        memory.merge(Pod, "web", {"metadata": {"labels": {"a": "b"}}})
        old = memory.read(Pod, "web")
        memory.set_statuses([(old, replace(old.status, phase="Succeeded"))])
        assert [type(each) for each in messages] == [StatusChanged, Upserted, Upserted, Deleted]
