"""Whatever messages come in whatever order: the cache is what anybody would make of the objects there are now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kframework_batch.cache import JobCache
from kframework_batch.objects import (
    KubeGang,
    KubePodGroup,
    KubePodGroupSpec,
    KubeSchedulingPolicy,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueStatus,
    SigsPodGroup,
    SigsPodGroupSpec,
)
from kframework_batch.task_status import TaskStatus
from msgspec.structs import replace

from kframework.objects import ApiObject, Node, ObjectMeta, Pod, PodSchedulingGroup, PriorityClass
from kframework.state.cluster import ClusterState
from kframework.state.waiting import ReservedPod
from kframework.testing import make_node, make_pod

T = TypeVar("T")

pick = st.integers(0, 1000)
names = st.sampled_from(["a", "b"])
#: How a pod says which group it is in, if it says so.
memberships = st.sampled_from(["", "volcano a", "volcano b", "sigs a", "kube a"])
schedulers = st.sampled_from(["volcano", "other"])
ALLOCATED = {TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}
ENDED = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED}


def member(pod: Pod, membership: str) -> Pod:
    """Return the pod as a member of a group."""
    how, _, name = membership.partition(" ")
    kube = PodSchedulingGroup(pod_group_name=name) if how == "kube" else None
    annotations = {"scheduling.k8s.io/group-name": name} if how == "volcano" else {}
    labels = {"scheduling.x-k8s.io/pod-group": name} if how == "sigs" else {}
    metadata = replace(pod.metadata, annotations=annotations, labels=labels)
    return replace(pod, metadata=metadata, spec=replace(pod.spec, scheduling_group=kube))


def group_uid(pod: Pod) -> str | None:
    """Name the job of a pod, slowly."""
    namespace = pod.metadata.namespace
    if "scheduling.k8s.io/group-name" in pod.metadata.annotations:
        return f"{namespace}/{pod.metadata.annotations['scheduling.k8s.io/group-name']}"
    if pod.spec.scheduling_group is not None:
        return f"scheduling.k8s.io/{namespace}/{pod.spec.scheduling_group.pod_group_name}"
    if "scheduling.x-k8s.io/pod-group" in pod.metadata.labels:
        return f"scheduling.x-k8s.io/{namespace}/{pod.metadata.labels['scheduling.x-k8s.io/pod-group']}"
    return None


class Cluster(RuleBasedStateMachine):
    """Objects as they are, what is assumed beside them, and a cache that heard of each change."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ClusterState()
        self.cache = JobCache(self.cluster, frozenset({"volcano"}))
        self.version = 0
        self.pods: dict[str, Pod] = {}
        #: What pods ask for in milli-CPU: one that is gone may still be on its node until its binding ends.
        self.asked: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.groups: dict[str, PodGroup | SigsPodGroup | KubePodGroup] = {}
        self.classes: dict[str, PriorityClass] = {}
        #: Where pods are assumed, and what they were then; which of them wait, and which the API has bound.
        self.assumed: dict[str, str] = {}
        self.assumed_as: dict[str, Pod] = {}
        self.waits: set[str] = set()
        self.bound: set[str] = set()
        self.evicting: set[str] = set()

    def tell(self, obj: ApiObject) -> None:
        """Tell the cache of a change, and check whether it sees what a session would see of it."""
        before = self.visible()
        answer = self.cache.apply_upsert(obj)
        self.model(obj)
        assert answer == (before != self.visible()), obj
        if not isinstance(obj, Node | Pod) or obj.metadata.uid not in self.assumed:
            assert not self.cache.apply_upsert(obj), "once more is nothing new"

    def model(self, obj: ApiObject) -> None:
        name = obj.metadata.name
        match obj:
            case Pod():
                uid = obj.metadata.uid
                known = self.pods.get(uid, obj)
                leaves = obj.metadata.deletion_timestamp and not known.metadata.deletion_timestamp
                self.pods[uid] = obj
                if obj.status.phase in ENDED:
                    self.let_go(uid)
                elif obj.spec.node_name:
                    self.assumed.pop(uid, None)
                    self.bound.discard(uid)
                elif leaves:
                    self.let_go(uid)
                if obj.status.phase in ENDED or (obj.spec.node_name and obj.metadata.deletion_timestamp):
                    self.evicting.discard(uid)
            case Node():
                self.nodes[name] = obj
            case Queue():
                self.queues[name] = obj
            case PriorityClass():
                self.classes[name] = obj
            case PodGroup():
                self.groups[f"default/{name}"] = obj
            case SigsPodGroup():
                self.groups[f"scheduling.x-k8s.io/default/{name}"] = obj
            case KubePodGroup():
                self.groups[f"scheduling.k8s.io/default/{name}"] = obj

    def let_go(self, uid: str) -> None:
        """An assumed pod is going: its binding is called back while it can be, else it is off its node."""
        self.bound.discard(uid)
        if uid in self.waits:
            self.waits.discard(uid)
        else:
            self.assumed.pop(uid, None)

    def tell_gone(self, kept: dict[str, T], key: str) -> None:
        before, obj = self.visible(), kept.pop(key)
        assert isinstance(obj, ApiObject)
        answer = self.cache.apply_deletion(obj)
        if isinstance(obj, Pod):
            self.let_go(key)
            self.evicting.discard(key)
        assert answer == (before != self.visible()), obj

    def meta(self, name: str, namespace: str = "default") -> ObjectMeta:
        self.version += 1
        return ObjectMeta(name=name, namespace=namespace, uid=f"{name}-uid", resource_version=str(self.version))

    def changed_pod(self, pod: Pod, **status: str) -> Pod:
        self.version += 1
        metadata = replace(pod.metadata, resource_version=str(self.version))
        return replace(pod, metadata=metadata, status=replace(pod.status, **status))

    @initialize()
    def begins(self) -> None:
        """Have something to begin with, so that the other rules apply soon."""
        self.put_node("a", 8, False)
        self.put_queue("a", "2", "")
        self.put_volcano("a", 1, "a", "", "")
        self.new_pod("volcano a", 1, "volcano", False)

    @rule(
        membership=memberships,
        cpu=st.integers(0, 3),
        scheduler=schedulers,
        gated=st.booleans(),
    )
    def new_pod(self, membership: str, cpu: int, scheduler: str, gated: bool) -> None:
        name = f"p{self.version}"
        gates = ["wait"] if gated else []
        pod = make_pod(name, cpu=cpu, memory=None, scheduler_name=scheduler, gates=gates)
        self.asked[pod.metadata.uid] = 1000 * cpu
        self.tell(self.changed_pod(member(pod, membership)))

    def of(self, pods: Iterable[str], at: int) -> Pod | None:
        found = sorted(pods)
        return self.pods[found[at % len(found)]] if found else None

    def live(self, *, assigned: bool) -> list[str]:
        return [
            uid
            for uid, pod in self.pods.items()
            if pod.status.phase not in ENDED and bool(pod.spec.node_name) == assigned
        ]

    @rule(at=pick, membership=memberships)
    def regroup(self, at: int, membership: str) -> None:
        if pod := self.of(self.live(assigned=False) + self.live(assigned=True), at):
            self.tell(self.changed_pod(member(pod, membership)))

    @rule(at=pick)
    def condition_written(self, at: int) -> None:
        if pod := self.of(self.pods, at):
            self.tell(self.changed_pod(pod, message=f"still {self.version}"))

    @rule(at=pick, node=st.sampled_from(["a", "b", "c"]))
    def assigned_by_others(self, at: int, node: str) -> None:
        if pod := self.of([uid for uid in self.live(assigned=False) if uid not in self.assumed], at):
            self.tell(replace(self.changed_pod(pod), spec=replace(pod.spec, node_name=node)))

    @rule(at=pick)
    def confirmed(self, at: int) -> None:
        if pod := self.of([uid for uid in self.assumed if uid in self.pods], at):
            if pod.status.phase in ENDED:
                return
            node = self.assumed[pod.metadata.uid]
            self.waits.discard(pod.metadata.uid)
            self.cluster.waiting.remove(pod.metadata.uid)
            self.tell(replace(self.changed_pod(pod), spec=replace(pod.spec, node_name=node)))

    @rule(at=pick, phase=st.sampled_from(["Running", "Unknown"]))
    def runs(self, at: int, phase: str) -> None:
        if pod := self.of(self.live(assigned=True), at):
            self.tell(self.changed_pod(pod, phase=phase))

    @rule(at=pick, phase=st.sampled_from(sorted(ENDED)))
    def ends(self, at: int, phase: str) -> None:
        if pod := self.of(self.live(assigned=True) + self.live(assigned=False), at):
            self.tell(self.changed_pod(pod, phase=phase))

    @rule(at=pick)
    def is_deleted(self, at: int) -> None:
        if pod := self.of(self.pods, at):
            changed = self.changed_pod(pod)
            self.tell(replace(changed, metadata=replace(changed.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))

    @rule(at=pick)
    def is_gone(self, at: int) -> None:
        if pod := self.of(self.pods, at):
            self.tell_gone(self.pods, pod.metadata.uid)

    @rule(at=pick, node=st.sampled_from(["a", "b"]), waits=st.booleans())
    def commits(self, at: int, node: str, waits: bool) -> None:
        pending = [uid for uid, task in self.cache.tasks.items() if task.status is TaskStatus.PENDING]
        if (pod := self.of(pending, at)) is None:
            return
        task = self.cache.tasks[pod.metadata.uid]
        waiting = self.cache.pending[task.uid]
        assert task.pod is waiting
        self.cluster.assume(waiting, node)
        task.node_name = node
        task.job.update_status(task, TaskStatus.BINDING)
        self.assumed[task.uid], self.assumed_as[task.uid] = node, pod
        if waits:
            self.cluster.waiting.add(ReservedPod(waiting, node, {"P": 1.0}, 0.0))
            self.waits.add(task.uid)

    @rule(at=pick)
    def binding_fails(self, at: int) -> None:
        if found := sorted(self.assumed):
            uid = found[at % len(found)]
            self.cluster.forget(uid)
            self.cluster.waiting.remove(uid)
            self.cache.binding_failed(uid)
            del self.assumed[uid]
            self.waits.discard(uid)
            self.bound.discard(uid)

    @rule(at=pick)
    def binding_succeeds(self, at: int) -> None:
        if found := sorted(self.assumed):
            uid = found[at % len(found)]
            self.cluster.waiting.remove(uid)
            self.cache.binding_succeeded(uid)
            self.waits.discard(uid)
            self.bound.add(uid)

    @rule(at=pick)
    def evicts(self, at: int) -> None:
        victims = [
            uid for uid, task in self.cache.tasks.items() if task.status in (TaskStatus.BOUND, TaskStatus.RUNNING)
        ]
        if pod := self.of(victims, at):
            self.evicting.add(pod.metadata.uid)
            self.cache.eviction_started(pod.metadata.uid)

    @precondition(lambda self: self.evicting)
    @rule(at=pick)
    def eviction_fails(self, at: int) -> None:
        uid = sorted(self.evicting)[at % len(self.evicting)]
        self.evicting.discard(uid)
        self.cache.eviction_failed(uid)

    @rule(name=names, cpu=st.integers(1, 4), cordoned=st.booleans())
    def put_node(self, name: str, cpu: int, cordoned: bool) -> None:
        self.tell(make_node(name, cpu=cpu, unschedulable=cordoned))

    @rule(name=names)
    def node_gone(self, name: str) -> None:
        if name in self.nodes:
            self.tell_gone(self.nodes, name)

    @rule(name=names, cpu=st.sampled_from(["1", "2", "two"]), state=st.sampled_from(["", "Open", "Closed"]))
    def put_queue(self, name: str, cpu: str, state: str) -> None:
        status = QueueStatus(state=state, pending=self.version)
        self.tell(Queue(metadata=self.meta(name, ""), spec=QueueSpec(capability={"cpu": cpu}), status=status))

    @rule(name=names)
    def queue_gone(self, name: str) -> None:
        if name in self.queues:
            self.tell_gone(self.queues, name)

    @rule(
        name=names,
        minimum=st.integers(0, 2),
        queue=st.sampled_from(["", "a"]),
        phase=st.sampled_from(["", "Inqueue"]),
        rank=st.sampled_from(["", "high", "low"]),
    )
    def put_volcano(self, name: str, minimum: int, queue: str, phase: str, rank: str) -> None:
        spec = PodGroupSpec(min_member=minimum, queue=queue, priority_class_name=rank)
        status = PodGroupStatus(phase=phase, running=self.version)
        self.tell(PodGroup(metadata=self.meta(name), spec=spec, status=status))

    @rule(name=names, minimum=st.integers(0, 2), cpu=st.sampled_from(["1", "one"]))
    def put_sigs(self, name: str, minimum: int, cpu: str) -> None:
        spec = SigsPodGroupSpec(min_member=minimum, min_resources={"cpu": cpu})
        self.tell(SigsPodGroup(metadata=self.meta(name), spec=spec))

    @rule(name=names, minimum=st.integers(1, 3))
    def put_kube(self, name: str, minimum: int) -> None:
        policy = KubeSchedulingPolicy(gang=KubeGang(min_count=minimum))
        self.tell(KubePodGroup(metadata=self.meta(name), spec=KubePodGroupSpec(scheduling_policy=policy)))

    @rule(at=pick)
    def group_gone(self, at: int) -> None:
        if found := sorted(self.groups):
            self.tell_gone(self.groups, found[at % len(found)])

    @rule(name=st.sampled_from(["high", "low"]), value=st.integers(1, 2), default=st.booleans())
    def put_class(self, name: str, value: int, default: bool) -> None:
        self.tell(PriorityClass(metadata=self.meta(name, ""), value=value, global_default=default))

    @rule(name=st.sampled_from(["high", "low"]))
    def class_gone(self, name: str) -> None:
        if name in self.classes:
            self.tell_gone(self.classes, name)

    # -- the slow recomputation --------------------------------------------------------------------------------------

    def on_nodes(self) -> dict[str, str]:
        """Return where pods take room."""
        assigned = {uid: self.pods[uid].spec.node_name for uid in self.live(assigned=True)}
        return {**assigned, **self.assumed}

    def status(self, uid: str) -> TaskStatus:
        pod = self.pods[uid]
        if pod.status.phase in ENDED:
            return ENDED[pod.status.phase]
        if uid in self.evicting:
            return TaskStatus.RELEASING
        if uid in self.assumed:
            return TaskStatus.BOUND if uid in self.bound else TaskStatus.BINDING
        if pod.status.phase == "Unknown":
            return TaskStatus.UNKNOWN
        if pod.metadata.deletion_timestamp:
            return TaskStatus.RELEASING
        if pod.status.phase == "Running":
            return TaskStatus.RUNNING
        return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING

    def members(self) -> dict[str, list[str]]:
        """Return the uids of the tasks by job; all jobs are named that there are."""
        found: dict[str, list[str]] = {uid: [] for uid in self.groups}
        for uid, pod in self.pods.items():
            job = group_uid(pod)
            if job is not None and pod.spec.scheduler_name == "volcano":
                found.setdefault(job, []).append(uid)
        return found

    def priority(self, name: str) -> int:
        if name in self.classes:
            return self.classes[name].value
        return min((known.value for known in self.classes.values() if known.global_default), default=0)

    def visible(self) -> object:
        """Return what a session can see."""
        nodes = {name: (node.spec, node.status.allocatable) for name, node in self.nodes.items()}
        places = {uid: (node, self.shape(uid)) for uid, node in self.on_nodes().items()}
        jobs = {}
        for job, tasks in self.members().items():
            if job in self.groups:
                spec, phase = self.groups[job].spec, getattr(self.groups[job].status, "phase", "")
                if isinstance(spec, PodGroupSpec):
                    rank, spec = self.priority(spec.priority_class_name), replace(spec, priority_class_name="")
                else:
                    rank = self.priority("")
                jobs[job] = (spec, phase, rank, {uid: (self.status(uid), self.place(uid)) for uid in tasks})
        queues = {
            name: (queue.spec, queue.status.state in ("", "Open"))
            for name, queue in self.queues.items()
            if queue.spec.capability["cpu"] != "two"
        }
        return nodes, places, jobs, queues

    def shape(self, uid: str) -> object:
        """Return what others see of a pod; of an assumed one what it was when it was assumed."""
        pod = self.assumed_as[uid] if uid in self.assumed else self.pods[uid]
        return pod.metadata.labels, pod.spec.scheduling_group, bool(pod.metadata.deletion_timestamp)

    def place(self, uid: str) -> object:
        """Return what its job sees of a pod."""
        node = self.on_nodes().get(uid, self.pods[uid].spec.node_name)
        return node, self.shape(uid), self.pods[uid].metadata.annotations

    @invariant()
    def nodes_hold_what_is_on_them(self) -> None:
        on_nodes = self.on_nodes()
        assert {uid: pod.node_name for uid, pod in self.cluster.pods.items()} == on_nodes
        assert self.cluster.assumed == self.assumed.keys()
        for name in self.nodes:
            node = self.cluster.nodes.find(name)
            assert node is not None
            here = [uid for uid, where in on_nodes.items() if where == name]
            assert {pod.uid for pod in node.pods} == set(here)
            assert node.requested("cpu") == sum(self.asked[uid] for uid in here)

    @invariant()
    def jobs_hold_their_tasks(self) -> None:
        members = {uid: tasks for uid, tasks in self.members().items() if uid in self.groups or tasks}
        assert self.cache.jobs.keys() == members.keys()
        for uid, tasks in members.items():
            job = self.cache.jobs[uid]
            assert job.has_group == (uid in self.groups)
            assert {task.uid: task.status for task in job.tasks.values()} == {task: self.status(task) for task in tasks}
            for status in TaskStatus:
                assert job.with_status(status).keys() == {task for task in tasks if self.status(task) is status}
            held = [self.asked[task] for task in tasks if self.status(task) in ALLOCATED]
            wanted = [self.asked[task] for task in tasks if self.pods[task].status.phase not in ENDED]
            best_effort = [task for task in tasks if self.status(task) is TaskStatus.PENDING and not self.asked[task]]
            assert job.allocated.get("cpu", 0) == sum(held)
            assert job.requested.get("cpu", 0) == sum(wanted)
            assert job.best_effort_pending == len(best_effort)

    @invariant()
    def jobs_say_what_their_groups_say(self) -> None:
        for uid, group in self.groups.items():
            job = self.cache.jobs[uid]
            match group:
                case PodGroup(spec=spec):
                    told = (spec.min_member, spec.queue or "default", self.priority(spec.priority_class_name))
                case SigsPodGroup(spec=spec):
                    told = (spec.min_member, "default", self.priority(""))
                    assert bool(job.invalid_reason) == (spec.min_resources == {"cpu": "one"})
                case KubePodGroup(spec=spec):
                    assert spec.scheduling_policy.gang is not None
                    told = (spec.scheduling_policy.gang.min_count, "default", self.priority(""))
            assert (job.min_available, job.queue, job.priority) == told
            assert job.phase == getattr(group.status, "phase", "")
            assert job.object == group

    @invariant()
    def tasks_stand_in_the_live_tables(self) -> None:
        ours = {uid for uid, pod in self.pods.items() if pod.spec.scheduler_name == "volcano"}
        assert self.cache.pending.keys() == ours & set(self.live(assigned=False))
        for uid, task in self.cache.tasks.items():
            assert task.object == self.pods[uid]
            assert self.cache.jobs[task.job.uid] is task.job and task.job.tasks[uid] is task
            if uid in self.cluster.pods:
                assert task.pod is self.cluster.pods[uid]
            elif uid in self.cache.pending:
                assert task.pod is self.cache.pending[uid]
            assert task.node_name == task.pod.node_name

    @invariant()
    def leaving_pods_are_those_that_are_deleted_or_evicted(self) -> None:
        deleted = {uid for uid in self.live(assigned=True) if self.pods[uid].metadata.deletion_timestamp}
        assert {pod.uid for pod in self.cache.terminating_pods()} == deleted | (self.evicting & self.on_nodes().keys())
        assert self.cache.evicting == self.evicting

    @invariant()
    def queues_are_those_that_can_be_read(self) -> None:
        readable = {name for name, queue in self.queues.items() if queue.spec.capability["cpu"] != "two"}
        assert self.cache.queues.keys() == readable
        assert all(self.cache.queues[name].object == self.queues[name] for name in readable)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(stateful_step_count=40, deadline=None)
