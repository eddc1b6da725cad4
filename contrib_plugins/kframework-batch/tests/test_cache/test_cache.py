"""What single messages do; whole histories are played in test_cache_machine.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kframework_batch.cache import JobCache
from kframework_batch.job import TaskInfo
from kframework_batch.objects import PodGroup, PodGroupSpec
from kframework_batch.task_status import TaskStatus
from msgspec.structs import replace

from kframework.objects import ApiObject, Node, NodeCondition, ObjectMeta, Pod
from kframework.state.cluster import ClusterState
from kframework.state.waiting import ReservedPod
from kframework.testing import make_node, make_pod

IN_GROUP = {"scheduling.k8s.io/group-name": "g"}
NODE = make_node("a")
GROUP = PodGroup(metadata=ObjectMeta(namespace="default", name="g"), spec=PodGroupSpec(min_member=1))
PENDING = make_pod("p", annotations=IN_GROUP, scheduler_name="volcano")
UID = PENDING.metadata.uid
RUNNING = make_pod("p", annotations=IN_GROUP, scheduler_name="volcano", node_name="a")
FOREIGN = make_pod("f", annotations=IN_GROUP)
FOREIGN_RUNNING = make_pod("f", annotations=IN_GROUP, node_name="a")


def with_phase(pod: Pod, phase: str) -> Pod:
    return replace(pod, status=replace(pod.status, phase=phase))


def deleted(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z", resource_version="9"))


def in_group(pod: Pod, name: str) -> Pod:
    annotations = {"scheduling.k8s.io/group-name": name} if name else {}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


BOUND = with_phase(RUNNING, "Pending")
Deleted = tuple[str, ApiObject]


class Stage:
    """A cache over tables of its own."""

    def __init__(self, *history: ApiObject | Deleted) -> None:
        self.cluster = ClusterState()
        self.cache = JobCache(self.cluster, frozenset({"volcano"}))
        self.answers = [self.tell(message) for message in history]

    def tell(self, message: ApiObject | Deleted) -> bool:
        return self.cache.apply_deletion(message[1]) if isinstance(message, tuple) else self.cache.apply_upsert(message)

    @property
    def task(self) -> TaskInfo:
        return self.cache.tasks[UID]

    def assume(self, *, waits: bool = False) -> ReservedPod:
        """Do what a session does that commits the task."""
        task, pod = self.task, self.cache.pending[UID]
        self.cluster.assume(pod, "a")
        task.node_name = "a"
        task.job.update_status(task, TaskStatus.BINDING)
        reserved = ReservedPod(pod, "a", {"P": 1.0} if waits else {}, 0.0)
        self.cluster.waiting.add(reserved)
        return reserved

    def fail_binding(self) -> None:
        """Do what the engine does when a binding has failed."""
        self.cluster.waiting.remove(UID)
        self.cluster.forget(UID)
        self.cache.binding_failed(UID)


@pytest.mark.parametrize(
    ("history", "answer"),
    [
        ([NODE], True),
        ([NODE, replace(NODE, metadata=replace(NODE.metadata, resource_version="7"))], False),
        ([NODE, make_node("a", unschedulable=True)], True),
        ([NODE, ("gone", NODE)], True),
        ([("gone", NODE)], False),
        # Pods that wait: they count once their group is there.
        ([PENDING], False),
        ([GROUP, PENDING], True),
        ([PENDING, GROUP], True),
        ([GROUP, PENDING, PENDING], False),
        ([GROUP, PENDING, replace(PENDING, status=replace(PENDING.status, message="no room"))], False),
        ([GROUP, PENDING, replace(PENDING, status=replace(PENDING.status, nominated_node_name="a"))], False),
        ([GROUP, PENDING, make_pod("p", annotations=IN_GROUP, scheduler_name="volcano", gates=["wait"])], True),
        ([GROUP, PENDING, make_pod("p", annotations={**IN_GROUP, "a": "b"}, scheduler_name="volcano")], True),
        ([GROUP, in_group(PENDING, "")], False),
        ([GROUP, in_group(PENDING, ""), PENDING], True),
        ([GROUP, PENDING, in_group(PENDING, "")], True),
        ([GROUP, PENDING, ("gone", PENDING)], True),
        ([PENDING, ("gone", PENDING)], False),
        ([GROUP, PENDING, deleted(PENDING)], True),
        ([GROUP, FOREIGN], False),
        # Pods on nodes: they take room, whosever they are.
        ([RUNNING], True),
        ([GROUP, RUNNING, RUNNING], False),
        ([FOREIGN_RUNNING], True),
        ([FOREIGN_RUNNING, replace(FOREIGN_RUNNING, status=replace(FOREIGN_RUNNING.status, message="m"))], False),
        ([FOREIGN_RUNNING, make_pod("f", annotations=IN_GROUP, node_name="a", labels={"a": "b"})], True),
        ([FOREIGN_RUNNING, deleted(FOREIGN_RUNNING)], True),
        ([FOREIGN_RUNNING, ("gone", FOREIGN_RUNNING)], True),
        ([FOREIGN_RUNNING, with_phase(FOREIGN_RUNNING, "Succeeded")], True),
        ([with_phase(FOREIGN_RUNNING, "Succeeded")], False),
        ([with_phase(FOREIGN_RUNNING, "Succeeded"), ("gone", FOREIGN_RUNNING)], False),
        ([GROUP, BOUND, RUNNING], True),
        ([GROUP, RUNNING, with_phase(RUNNING, "Failed")], True),
        ([GROUP, with_phase(RUNNING, "Failed"), ("gone", RUNNING)], True),
        ([with_phase(RUNNING, "Failed"), ("gone", RUNNING)], False),
        # Groups.
        ([GROUP, GROUP], False),
        ([GROUP, replace(GROUP, spec=PodGroupSpec(min_member=2))], True),
        ([GROUP, ("gone", GROUP)], True),
    ],
)
def test_only_changes_visible_to_a_session_count(history: Sequence[ApiObject | Deleted], answer: bool) -> None:
    assert Stage(*history).answers[-1] is answer


@pytest.mark.parametrize(
    ("pod", "status", "taken"),
    [
        (PENDING, TaskStatus.PENDING, 0),
        (BOUND, TaskStatus.BOUND, 100),
        (RUNNING, TaskStatus.RUNNING, 100),
        (deleted(RUNNING), TaskStatus.RELEASING, 100),
        (deleted(PENDING), TaskStatus.RELEASING, 0),
        (with_phase(RUNNING, "Succeeded"), TaskStatus.SUCCEEDED, 0),
        (with_phase(RUNNING, "Failed"), TaskStatus.FAILED, 0),
        (with_phase(PENDING, "Failed"), TaskStatus.FAILED, 0),
        (with_phase(RUNNING, "Unknown"), TaskStatus.UNKNOWN, 100),
    ],
)
def test_task_status_follows_the_pod(pod: Pod, status: TaskStatus, taken: int) -> None:
    stage = Stage(NODE, GROUP, pod)
    node = stage.cluster.nodes.find("a")
    assert node is not None
    assert (stage.task.status, node.requested("cpu")) == (status, taken)
    assert stage.task.job is stage.cache.jobs["default/g"]


def test_pods_of_other_schedulers_are_not_tasks() -> None:
    stage = Stage(NODE, GROUP, FOREIGN, replace(FOREIGN_RUNNING, metadata=replace(FOREIGN.metadata, uid="u")))
    assert stage.cache.tasks == {} and stage.cache.pending == {}
    assert stage.cluster.pods.keys() == {"u"}


def test_pod_without_group_is_pending_without_task() -> None:
    stage = Stage(GROUP, in_group(PENDING, ""))
    assert not stage.cache.tasks
    assert stage.cache.pending.keys() == {UID}


def test_pod_can_change_its_group() -> None:
    stage = Stage(GROUP, in_group(PENDING, "other"))
    assert stage.cache.jobs.keys() == {"default/g", "default/other"}
    stage.tell(PENDING)
    assert stage.cache.jobs.keys() == {"default/g"}
    assert stage.cache.jobs["default/g"].tasks.keys() == {UID}


def test_tasks_stay_when_their_group_is_deleted() -> None:
    stage = Stage(GROUP, PENDING, ("gone", GROUP))
    job = stage.cache.jobs["default/g"]
    assert not job.has_group
    assert job.tasks.keys() == {UID}
    stage.tell(GROUP)
    assert stage.cache.jobs["default/g"] is job and job.has_group
    stage.tell(("gone", GROUP))
    stage.tell(("gone", PENDING))
    assert stage.cache.jobs == {}


def test_pod_on_unknown_node_is_counted_once_the_node_appears() -> None:
    stage = Stage(GROUP, RUNNING)
    assert stage.task.pod.row == -1
    stage.tell(NODE)
    node = stage.cluster.nodes.find("a")
    assert node is not None and list(node.pods) == [stage.task.pod]


def test_deleted_pod_is_identified_by_uid() -> None:
    stage = Stage(NODE, GROUP, RUNNING)
    assert stage.tell(("gone", Pod(metadata=ObjectMeta(name="p", namespace="default", uid=UID))))
    assert (stage.cluster.pods, stage.cache.tasks) == ({}, {})


def test_updates_do_not_affect_a_binding() -> None:
    stage = Stage(NODE, GROUP, PENDING)
    stage.assume()
    labelled = replace(PENDING, metadata=replace(PENDING.metadata, labels={"a": "b"}, resource_version="2"))
    assert not stage.tell(labelled)
    assert (stage.task.status, stage.task.node_name) == (TaskStatus.BINDING, "a")
    assert stage.task.pod is stage.cluster.pods[UID]
    assert stage.cache.pending[UID].object == labelled
    assert stage.task.job.allocated == {"cpu": 100, "memory": 128 << 20}


def test_binding_success_is_recorded_before_the_watch_confirms() -> None:
    stage = Stage(NODE, GROUP, PENDING)
    stage.assume()
    assert stage.cache.binding_succeeded(UID)
    assert stage.task.status is TaskStatus.BOUND
    assert not stage.cache.binding_succeeded(UID)
    stage.tell(replace(PENDING, metadata=replace(PENDING.metadata, resource_version="2")))
    assert stage.task.status is TaskStatus.BOUND, "an update that was made before"
    assert not stage.tell(BOUND), "the pod only says what is known"
    assert stage.cluster.assumed == set() and stage.cache.pending == {}
    assert stage.task.pod is stage.cluster.pods[UID]


def test_watch_may_confirm_binding_first() -> None:
    stage = Stage(NODE, GROUP, PENDING)
    stage.assume()
    assert stage.tell(RUNNING)
    assert not stage.cache.binding_succeeded(UID)
    assert stage.task.status is TaskStatus.RUNNING


def test_task_is_pending_in_its_latest_version_after_failed_binding() -> None:
    stage = Stage(NODE, GROUP, PENDING)
    stage.assume()
    newer = replace(PENDING, metadata=replace(PENDING.metadata, resource_version="2"))
    stage.tell(newer)
    stage.fail_binding()
    assert (stage.task.status, stage.task.node_name, stage.task.object) == (TaskStatus.PENDING, "", newer)
    assert stage.task.pod is stage.cache.pending[UID]
    assert stage.task.job.allocated == {"cpu": 0, "memory": 0}


def test_pod_bound_by_another_scheduler_is_bound() -> None:
    stage = Stage(NODE, GROUP, PENDING)
    stage.assume()
    stage.tell(RUNNING)
    stage.fail_binding()
    assert (stage.task.status, stage.task.node_name) == (TaskStatus.RUNNING, "a")


@pytest.mark.parametrize("message", [deleted(PENDING), with_phase(PENDING, "Failed"), ("gone", PENDING)])
def test_deleted_waiting_pod_is_rejected(message: ApiObject | Deleted) -> None:
    stage = Stage(NODE, GROUP, PENDING)
    reserved = stage.assume(waits=True)
    stage.tell(message)
    assert reserved.verdict is not None and reserved.verdict.message == "removed"
    assert UID in stage.cluster.assumed, "it leaves its node when its binding ends"
    stage.fail_binding()
    assert stage.cluster.pods == {}
    left = {task.status for task in stage.cache.tasks.values()}
    assert left <= {TaskStatus.RELEASING, TaskStatus.FAILED}


@pytest.mark.parametrize("message", [deleted(PENDING), with_phase(PENDING, "Failed"), ("gone", PENDING)])
def test_deleted_assumed_pod_leaves_its_node(message: ApiObject | Deleted) -> None:
    stage = Stage(NODE, GROUP, PENDING)
    stage.assume()
    assert stage.tell(message)
    assert (stage.cluster.pods, stage.cluster.assumed) == ({}, set())
    stage.fail_binding()
    stage.cache.binding_succeeded(UID)
    left = {task.status for task in stage.cache.tasks.values()}
    assert left <= {TaskStatus.RELEASING, TaskStatus.FAILED}


def test_messages_about_deleted_pods_are_ignored() -> None:
    stage = Stage()
    stage.cache.binding_succeeded("x")
    stage.cache.binding_failed("x")
    stage.cache.eviction_failed("x")
    assert stage.cache.tasks == {}


def test_victim_is_releasing_until_it_is_deleted() -> None:
    stage = Stage(NODE, GROUP, RUNNING)
    stage.cache.eviction_started(UID)
    assert (stage.task.status, stage.cache.evicting) == (TaskStatus.RELEASING, {UID})
    assert list(stage.cache.terminating_pods()) == [stage.task.pod]
    assert not stage.tell(replace(RUNNING, metadata=replace(RUNNING.metadata, resource_version="2")))
    assert stage.task.status is TaskStatus.RELEASING
    assert stage.tell(deleted(RUNNING)), "it shows on the node"
    assert (stage.task.status, stage.cache.evicting) == (TaskStatus.RELEASING, set())
    assert list(stage.cache.terminating_pods()) == [stage.task.pod]
    stage.tell(("gone", RUNNING))
    assert list(stage.cache.terminating_pods()) == []


def test_victim_whose_eviction_failed_is_running() -> None:
    stage = Stage(NODE, GROUP, RUNNING)
    stage.cache.eviction_started(UID)
    stage.cache.eviction_failed(UID)
    assert (stage.task.status, stage.cache.evicting) == (TaskStatus.RUNNING, set())
    assert list(stage.cache.terminating_pods()) == []


@pytest.mark.parametrize("message", [with_phase(RUNNING, "Failed"), ("gone", RUNNING)])
def test_deleted_victim_leaves_no_eviction_state(message: ApiObject | Deleted) -> None:
    stage = Stage(NODE, GROUP, RUNNING)
    stage.cache.eviction_started(UID)
    assert stage.tell(message)
    assert stage.cache.evicting == set()
    assert list(stage.cache.terminating_pods()) == []


def test_terminating_pods_include_those_of_other_schedulers() -> None:
    stage = Stage(NODE, deleted(FOREIGN_RUNNING))
    assert [pod.key for pod in stage.cache.terminating_pods()] == ["default/f"]


def test_node_update_with_changed_condition_is_no_heartbeat() -> None:
    def ready(status: str, time: str) -> Node:
        condition = NodeCondition(type="Ready", status=status, last_heartbeat_time=time)
        return replace(NODE, status=replace(NODE.status, conditions=(condition,)))

    stage = Stage(ready("True", "1"), ready("True", "2"), ready("False", "3"))
    assert stage.answers == [True, False, True]
