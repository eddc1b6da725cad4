"""Tests of actions and session plugins: nodes, queues and jobs in; binds, evictions and phases out.

    stage = Stage(nodes=[make_node("n1", cpu=4)], gangs=[make_gang("train", 4, minimum=4, cpu=2)])
    stage.session()
    assert stage.bound == {}
    assert stage.phase("train") == "Pending"

A Stage is a BatchEngine on a stopped clock, with a cluster that executes writes at once: bound pods run, a victim is
gone after `finish_evictions`. For runs over time there is `kframework_batch.scenario`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kframework import ClusterError, Code, PendingPod, PodInfo, Status
from kframework.clock import VIRTUAL_EPOCH, rfc3339
from kframework.engine import (
    BindingEnded,
    Decision,
    Deleted,
    Host,
    PodEvent,
    Reservation,
    Synced,
    Upserted,
    profiles_factory,
)
from kframework.objects import ApiObject, Event, Node, ObjectMeta, Pod, PodCondition, RawQuantity, convert, kind_of
from kframework.testing import make_node, make_pod
from kframework_batch.account import SessionAccount
from kframework_batch.config import BatchConfiguration, default_configuration, parse
from kframework_batch.engine import SCHEDULER_NAME, BatchEngine
from kframework_batch.job import ROLE, JobInfo, TaskInfo
from kframework_batch.membership import GROUP_NAME
from kframework_batch.objects import (
    ExactMatch,
    Guarantee,
    HyperNode,
    HyperNodeSpec,
    Member,
    MemberSelector,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
)
from kframework_batch.program import BatchRegistry, compile_program, core_configuration, core_registry
from kframework_batch.task_status import TaskStatus

__all__ = ["Stage", "make_gang", "make_group", "make_hypernode", "make_node", "make_queue", "make_task"]

T = TypeVar("T", bound=ApiObject)

#: A gang: its pod group and its pods.
Gang = tuple[PodGroup, list[Pod]]


def make_queue(
    name: str,
    *,
    weight: int = 1,
    parent: str = "",
    priority: int = 0,
    capability: Mapping[str, RawQuantity] | None = None,
    deserved: Mapping[str, RawQuantity] | None = None,
    guarantee: Mapping[str, RawQuantity] | None = None,
    reclaimable: bool | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Queue:
    """Make a queue; what is not given is not limited."""
    spec = QueueSpec(
        weight=weight,
        parent=parent,
        priority=priority,
        capability=dict(capability or {}),
        deserved=dict(deserved or {}),
        guarantee=Guarantee(resource=dict(guarantee or {})),
        reclaimable=reclaimable,
    )
    return Queue(metadata=ObjectMeta(name=name, uid=f"queue/{name}", annotations=dict(annotations or {})), spec=spec)


def make_group(
    name: str,
    *,
    minimum: int = 1,
    queue: str = "default",
    phase: str = "Inqueue",
    roles: Mapping[str, int] | None = None,
    resources: Mapping[str, RawQuantity] | None = None,
    priority_class: str = "",
    age: float = 0.0,
    annotations: Mapping[str, str] | None = None,
) -> PodGroup:
    """Make a pod group that was created `age` seconds before the stage is set."""
    metadata = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"group/{name}",
        creation_timestamp=rfc3339(VIRTUAL_EPOCH - age),
        annotations=dict(annotations or {}),
    )
    spec = PodGroupSpec(
        min_member=minimum,
        min_task_member=dict(roles or {}),
        queue=queue,
        priority_class_name=priority_class,
        min_resources=None if resources is None else dict(resources),
    )
    return PodGroup(metadata=metadata, spec=spec, status=PodGroupStatus(phase=phase))


def make_task(
    name: str,
    group: str,
    *,
    cpu: RawQuantity | None = 1,
    memory: RawQuantity | None = None,
    requests: Mapping[str, RawQuantity] | None = None,
    role: str = "",
    node: str = "",
    priority: int | None = None,
    annotations: Mapping[str, str] | None = None,
    **more: object,
) -> Pod:
    """Make a pod of a group, running if it is on a node; `more` is for `make_pod`."""
    own_annotations = {GROUP_NAME: group, **({ROLE: role} if role else {}), **(annotations or {})}
    pod = make_pod(
        name,
        cpu=cpu,
        memory=memory,
        requests=dict(requests or {}),
        annotations=own_annotations,
        priority=priority,
        node_name=node,
        scheduler_name=SCHEDULER_NAME,
        **more,  # type: ignore[arg-type]  # whatever make_pod takes
    )
    return replace(pod, status=replace(pod.status, phase="Running")) if node else pod


def make_gang(
    name: str,
    size: int,
    *,
    minimum: int | None = None,
    cpu: RawQuantity | None = 1,
    queue: str = "default",
    on: Sequence[str] = (),
    priority: int | None = None,
    age: float = 0.0,
    role: str = "",
    **group: object,
) -> Gang:
    """Make a group of `size` equal pods `name-0`, `name-1`, ...; the first of them run `on` these nodes."""
    group.setdefault("phase", "Running" if on else "Inqueue")
    made = make_group(name, minimum=size if minimum is None else minimum, queue=queue, age=age, **group)  # type: ignore[arg-type]  # whatever make_group takes
    nodes = [*on, *[""] * (size - len(on))]
    pods = [make_task(f"{name}-{n}", name, cpu=cpu, node=nodes[n], priority=priority, role=role) for n in range(size)]
    return made, pods


def make_hypernode(name: str, tier: int, *members: str, kind: str = "Node", tier_name: str = "") -> HyperNode:
    """Make a hypernode of nodes, or of hypernodes, by their names."""
    named = tuple(Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=member))) for member in members)
    return HyperNode(metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=named))


class Stage(Host):
    """An engine, and a cluster that executes writes at once.

    `bound` maps pods that were bound to their nodes, `evicted` victims to why, both by name, since the stage was set.
    A bind of a pod in `unbindable` fails with its error; with `refuses_evictions` no victim can be deleted. `classes`
    are actions and plugins that are added to the installed ones.
    """

    def __init__(
        self,
        configuration: str | BatchConfiguration | None = None,
        *,
        nodes: Iterable[Node] = (),
        queues: Iterable[Queue] = (),
        gangs: Iterable[Gang] = (),
        objects: Iterable[ApiObject] = (),
        classes: Sequence[type] = (),
        seed: int = 0,
        gang_timeout: float = 60.0,
    ) -> None:
        read = default_configuration() if configuration is None else configuration
        program = compile_program(parse(read) if isinstance(read, str) else read, BatchRegistry.with_classes(*classes))
        self.time: float = VIRTUAL_EPOCH
        self.bound: dict[str, str] = {}
        self.evicted: dict[str, str] = {}
        self.decisions: list[Decision] = []
        self.accounts: list[SessionAccount] = []
        self.events: list[tuple[str, str]] = []
        self.conditions: dict[str, PodCondition] = {}
        self.unbindable: dict[str, str] = {}
        self.refuses_evictions: bool = False
        self.objects: dict[tuple[type[ApiObject], str], ApiObject] = {}
        core = core_configuration(program, [SCHEDULER_NAME], seed)
        profiles = profiles_factory(core, core_registry(), self)
        self.engine: BatchEngine = BatchEngine(core, self, self, profiles, program, gang_timeout=gang_timeout)
        default = [] if any(queue.metadata.name == "default" for queue in queues) else [make_queue("default")]
        pods = [each for group, members in gangs for each in (group, *members)]
        for obj in (*nodes, *default, *queues, *pods, *objects):
            self.put(obj)
        self.engine.offer(Synced())

    # -- what happens ------------------------------------------------------------------------------------------------

    def put(self, obj: ApiObject) -> None:
        metadata = obj.metadata
        if not metadata.uid:
            obj = replace(obj, metadata=replace(metadata, uid=f"{type(obj).__name__}/{metadata.name}"))
        self.objects[type(obj), metadata.name] = obj
        self.engine.offer(Upserted(obj))

    def delete(self, name: str, kind: type[ApiObject] = Pod) -> None:
        self.engine.offer(Deleted(self.objects.pop((kind, name))))

    def finish_evictions(self, *names: str) -> None:
        """Delete victims, all of them if none is named."""
        for name in names or [name for name in self.evicted if (Pod, name) in self.objects]:
            self.delete(name)

    def session(self, count: int = 1) -> Stage:
        """Run sessions, a period apart, whether there is anything to do or not."""
        for _ in range(count):
            self.time += 1.0
            self.engine.offer(Upserted(self._touched_queue()))
            while self.engine.step():
                pass
            if self.engine.failure is not None:
                raise self.engine.failure
        self.engine.apply_messages()
        return self

    def _touched_queue(self) -> Queue:
        """Return the default queue with another word in it, so that there is something new."""
        queue = self.objects[Queue, "default"]
        assert isinstance(queue, Queue)
        labels = {**queue.metadata.labels, "session": str(self.engine.sessions)}
        return replace(queue, metadata=replace(queue.metadata, labels=labels))

    # -- what came of it ---------------------------------------------------------------------------------------------

    def job(self, name: str) -> JobInfo:
        return self.engine.cache.jobs[f"default/{name}"]

    def task(self, name: str) -> TaskInfo:
        return next(task for task in self.engine.cache.tasks.values() if task.name == name)

    def phase(self, name: str) -> str:
        """Return the phase of a pod group as the cluster has it."""
        group = self.objects[PodGroup, name]
        assert isinstance(group, PodGroup)
        return group.status.phase

    def message(self, name: str) -> str:
        """Return why a pod waits, from its condition."""
        return self.conditions[name].message

    def check(self) -> None:
        """Check that statuses, nodes and tables agree, without anything half done; AssertionError otherwise."""
        self.engine.apply_messages()
        cluster, tasks = self.engine.cluster, list(self.engine.cache.tasks.values())
        held = [
            task for task in tasks if task.node_name and task.status not in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
        ]
        assert (cluster.statements, cluster.assumed) == ([], set())
        assert not {task.status for task in tasks} & {TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING}
        assert all((task.status is TaskStatus.PENDING) == (not task.node_name) for task in tasks)
        for row in cluster.nodes.order.tolist():
            taken = sum(task.request.get("cpu", 0) for task in held if task.node_name == cluster.nodes[row].name)
            assert cluster.nodes[row].requested("cpu") == taken

    # -- the outside -------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.time

    def bind(self, reservation: Reservation) -> None:
        status = self.assign(reservation.pod, reservation.node_name)
        self.engine.offer(BindingEnded(reservation.pod.uid, reservation.attempt, status))

    def assign(self, pod: PendingPod, node_name: str) -> Status | None:
        """Run a pod on a node; a Status if it is unbindable."""
        if pod.name in self.unbindable:
            return Status(Code.ERROR, (self.unbindable[pod.name],))
        self.bound[pod.name] = node_name
        spec, status = replace(pod.object.spec, node_name=node_name), replace(pod.object.status, phase="Running")
        self.put(replace(pod.object, spec=spec, status=status))
        return None

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        if condition is not None:
            self.conditions[pod.name] = condition

    def record(self, event: PodEvent) -> None:
        self.events.append((event.reason, event.note))
        if event.reason == "Evict":
            self.evicted[event.pod.name] = event.note.removeprefix("Evicted because of ")

    def evict(self, eviction: object) -> None:
        raise AssertionError(eviction)

    def report_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def report_account(self, account: msgspec.Struct) -> None:
        assert isinstance(account, SessionAccount)
        self.accounts.append(account)

    def write(self, key: str, call: Callable[[], Awaitable[object]], refused: Callable[[ClusterError], None]) -> None:
        try:
            next(iter(call().__await__()))
        except StopIteration:
            return
        except ClusterError as error:
            refused(error)
            return
        raise AssertionError("a write waits for something")

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        raise AssertionError(coroutine)

    @property
    def api(self) -> _Api:
        return _Api(self)


class _Api:
    """The API of a stage: statuses are stored, victims start to go."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def bind(self, pod: PendingPod, node_name: str) -> None:
        """Refuse: binding cycles do not run on a stage."""
        raise AssertionError(pod)

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        found = self._stage.objects.get((kind, name))
        if not isinstance(found, kind):
            raise ClusterError(f"{name} not found", status=404)
        return found

    async def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str]) -> Sequence[T]:
        raise AssertionError(kind)

    async def create(self, obj: T) -> T:
        assert isinstance(obj, Event)
        self._stage.events.append((obj.reason, obj.note))
        return obj

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        raise AssertionError(patch)

    async def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        """Store a status, as far as the patch names it."""
        old = msgspec.to_builtins(await self.get(kind, name))
        new = convert({**old, "status": {**old.get("status", {}), **patch}}, kind_of(kind))
        self._stage.put(new)
        return new

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        if self._stage.refuses_evictions:
            raise ClusterError("not today", status=403)
        pod = self._stage.objects[kind, name]
        metadata = replace(pod.metadata, deletion_timestamp=rfc3339(self._stage.time))
        self._stage.put(replace(pod, metadata=metadata))
