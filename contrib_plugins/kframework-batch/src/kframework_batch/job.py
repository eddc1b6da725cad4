"""Jobs, their parts and their tasks: the pods of one pod group, as a session sees them, and the arithmetic of gangs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import NamedTuple, Self

from kframework import PodInfo
from kframework.objects import Pod
from kframework_batch.membership import GroupObject, GroupStatus, SubGroups
from kframework_batch.objects import NetworkTopology
from kframework_batch.resource import Resource
from kframework_batch.task_status import ALLOCATED, COMPLETED, READY, TaskStatus

#: The role of a task in its job: the name of the task in the Job's spec; an annotation, or a label.
ROLE = "volcano.sh/task-spec"
#: The number of a task among those of its role.
INDEX = "volcano.sh/task-index"
#: Whether others may preempt the task; an annotation or a label. The default for pods is yes.
POD_PREEMPTABLE = "volcano.sh/preemptable"
#: The priority of a task within its job, in place of its pod's.
PRIORITY = "volcano.sh/task-priority"

#: The phases of a pod group: `Pending` (or none yet), `Inqueue`, `Running`, `Unknown`, `Completed`.
Phase = str
INQUEUE = "Inqueue"
_PENDING = frozenset({"", "Pending"})

_READY = frozenset(READY)

#: Those that have not ended.
_REQUESTING = frozenset(TaskStatus) - COMPLETED


class TaskInfo:
    """One pod of a job.

    `pod` is the core's own PendingPod or PodInfo, the identical object of the live tables; `object` the latest version
    from the API. Only `JobInfo.update_status` changes `status`, since it updates the job's sums. `request` is what the
    pod takes on a node; without any the task is best effort. `is_gated` tasks have scheduling gates and are left alone.
    """

    __slots__ = (
        "created",
        "index",
        "is_gated",
        "job",
        "name",
        "namespace",
        "node_name",
        "object",
        "pod",
        "preemptable",
        "priority",
        "request",
        "role",
        "status",
        "subjob",
        "uid",
    )

    def __init__(self, job: JobInfo, pod: PodInfo, obj: Pod, status: TaskStatus) -> None:
        metadata = obj.metadata
        annotations, labels = metadata.annotations, metadata.labels
        self.job: JobInfo = job
        #: The part of the job that it is in, where the job is divided.
        self.subjob: SubJobInfo | None = None
        self.pod: PodInfo = pod
        self.object: Pod = obj
        self.uid: str = metadata.uid
        self.name: str = metadata.name
        self.namespace: str = metadata.namespace
        #: RFC 3339.
        self.created: str = metadata.creation_timestamp or ""
        priority = _number(annotations.get(PRIORITY))
        self.priority: int = (obj.spec.priority or 0) if priority is None else priority
        self.role: str = annotations.get(ROLE) or labels.get(ROLE) or ""
        self.index: int | None = _number(labels.get(INDEX) or annotations.get(INDEX))
        self.preemptable: bool = read_flag(annotations, labels, POD_PREEMPTABLE, default=True)
        self.is_gated: bool = bool(obj.spec.scheduling_gates)
        self.request: Resource = Resource((name, amount) for name, amount in pod.on_node if amount)
        self.status: TaskStatus = status
        #: Where it is, or is to go; "" for nowhere.
        self.node_name: str = pod.node_name

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_best_effort(self) -> bool:
        return self.request.is_empty

    @property
    def gangs(self) -> tuple[GangInfo, ...]:
        return (self.job,) if self.subjob is None else (self.job, self.subjob)


def read_flag(annotations: Mapping[str, str], labels: Mapping[str, str], key: str, *, default: bool) -> bool:
    """Read yes or no from an annotation, or else from a label; what is neither is no, as Volcano has it."""
    text = annotations.get(key, labels.get(key))
    return default if text is None else text in _YES


#: What Go's strconv.ParseBool takes for yes.
_YES = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


# -- jobs -------------------------------------------------------------------------------------------------------------

_NONE: dict[str, TaskInfo] = {}


class TopologyRequirement(NamedTuple):
    """The required network closeness of a job's tasks, or the preferred one where it is not `hard`.

    They are to be in one hypernode of a tier up to `highest_tier`, which may be given by its `tier_name`; of any tier
    where neither is given.
    """

    hard: bool
    highest_tier: int | None = None
    tier_name: str = ""

    @classmethod
    def from_spec(cls, topology: NetworkTopology | None) -> Self | None:
        """Read the network topology of a group; without a mode it is hard, which is the field's default."""
        if topology is None:
            return None
        if topology.mode == "soft":
            return cls(hard=False)  # its tiers are for hard ones, as in Volcano
        return cls(hard=True, highest_tier=topology.highest_tier_allowed, tier_name=topology.highest_tier_name)


class TentativeNode(NamedTuple):
    """The node that a task would have got, had its job been given enough, and whether Allocated or Pipelined."""

    status: TaskStatus
    node_name: str


class GangInfo:
    """Tasks that are to have room together: those of a job, or of a part of one.

    Counts follow the status of the tasks, which `JobInfo.update_status` alone changes.
    """

    def __init__(self) -> None:
        self.min_available: int = 0
        #: The required closeness of its tasks; None if there is none.
        self.topology: TopologyRequirement | None = None
        self.tasks: dict[str, TaskInfo] = {}
        #: The number of tasks that have room, or have succeeded.
        self.ready_num: int = 0
        self._by_status: dict[TaskStatus, dict[str, TaskInfo]] = {}
        #: The number of pending tasks that ask for nothing: they need no room to be counted on.
        self.best_effort_pending: int = 0

    def with_status(self, status: TaskStatus) -> Mapping[str, TaskInfo]:
        """Return the tasks of this status by uid, in the order in which they came to it; do not change it."""
        return self._by_status.get(status, _NONE)

    @property
    def order(self) -> dict[TaskStatus, dict[str, TaskInfo]]:
        """The tasks by status, each in the order in which they came to it; it is set again where all have returned."""
        return {status: dict(tasks) for status, tasks in self._by_status.items()}

    @order.setter
    def order(self, order: dict[TaskStatus, dict[str, TaskInfo]]) -> None:
        self._by_status = order

    def _recount(self, task: TaskInfo, before: TaskStatus | None, after: TaskStatus | None) -> None:
        """Count a task in another status than before; None is that of one that is not in it."""
        if before is not None:
            del self._by_status[before][task.uid]
        if after is not None:
            with_status = self._by_status.get(after)
            if with_status is None:
                with_status = self._by_status[after] = {}
            with_status[task.uid] = task
        self.ready_num += (after in _READY) - (before in _READY)
        pending = (after is TaskStatus.PENDING) - (before is TaskStatus.PENDING)
        if pending and task.is_best_effort:
            self.best_effort_pending += pending

    # -- the arithmetic of gangs (Volcano's job_info.go and sub_job_info.go) -------------------------------------------

    def count(self, *statuses: TaskStatus) -> int:
        return sum(len(self.with_status(status)) for status in statuses)

    @property
    def waiting_num(self) -> int:
        return self.count(TaskStatus.PIPELINED)

    @property
    def allocated_num(self) -> int:
        """The number of tasks that have room, are promised it, or need none: a turn is over when they are enough."""
        return self.ready_num + self.waiting_num + self.best_effort_pending

    @property
    def valid_num(self) -> int:
        """The number of tasks that have room, are promised it, or may still get it."""
        return self.ready_num + self.count(TaskStatus.PIPELINED, TaskStatus.PENDING)

    @property
    def is_ready(self) -> bool:
        return self.ready_num + self.best_effort_pending >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        return self.allocated_num >= self.min_available


class SubJobInfo(GangInfo):
    """A part of a job: the tasks of one subgroup of `policy`, or all tasks in none, with a minimum of one.

    `name` is its policy's, with its distinguishing label values; "" for the tasks in none. Of equals the lower `index`
    goes first.
    """

    def __init__(self, groups: SubGroups | None, values: tuple[str, ...]) -> None:
        super().__init__()
        self.policy: str | None = None if groups is None else groups.name
        self.name: str = "" if groups is None else "-".join((groups.name, *values))
        self.index: int = (_number(values[0]) if values else None) or 0
        self.min_available = 1 if groups is None else groups.size
        self.topology = None if groups is None else TopologyRequirement.from_spec(groups.policy.network_topology)

    @property
    def priority(self) -> int:
        return max((task.priority for task in self.tasks.values()), default=0)


class JobInfo(GangInfo):
    """The tasks of one pod group of any kind.

    Sums follow the status of the tasks, which only `update_status` changes: `allocated` is what tasks with room
    take, `requested` what all tasks take that have not ended. Conditions have the uid of the session that wrote them.
    """

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self.namespace: str = namespace
        self.name: str = name
        #: What a session knows it by: namespace/name, with the API group before it where that is not Volcano's.
        self.uid: str = f"{namespace}/{name}"
        #: The latest version of the pod group, and its status after all pending writes.
        self.object: GroupObject | None = None
        self.status: GroupStatus | None = None
        #: The uid of the pod group, and when it was created (RFC 3339).
        self.group_uid: str = ""
        self.created: str = ""
        self.queue: str = ""
        #: The value of the pod group's PriorityClass, or of the default one.
        self.priority: int = 0
        self.role_minimums: Mapping[str, int] = {}
        #: What must be free before pods are made, but for the number of pods; None if the group has no such field.
        self.min_resources: Resource | None = None
        #: Whether others may preempt it, by its group: Volcano's default for groups is no.
        self.preemptable: bool = False
        self.annotations: dict[str, str] = {}
        self.labels: Mapping[str, str] = {}
        self.phase: Phase = ""
        #: Whether its pod group exists; tasks may be seen before it.
        self.has_group: bool = False
        #: Why it cannot be scheduled at all, in any action; "" if it can.
        self.invalid_reason: str = ""
        #: What divides it, and its parts by their names; none where nothing does.
        self.subgroups: tuple[SubGroups, ...] = ()
        self.subjobs: dict[str, SubJobInfo] = {}
        self.allocated: Resource = Resource()
        self.requested: Resource = Resource()
        #: The number of tasks that have scheduling gates.
        self.gated_num: int = 0
        #: Why tasks found no node in this session, by uid; and why the job as a whole was passed over, "" if not.
        self.fit_errors: dict[str, str] = {}
        self.message: str = ""
        #: Where tasks had their place in this session before it was taken back, by uid.
        self.tentative_nodes: dict[str, TentativeNode] = {}

    def set_fit_error(self, task: TaskInfo, message: str) -> None:
        """Note why a task found no node; where it had its place earlier in the session counts no more."""
        self.fit_errors[task.uid] = message
        self.tentative_nodes.pop(task.uid, None)

    @property
    def is_pending(self) -> bool:
        """Whether it has not been let in yet: see the action `enqueue`."""
        return self.phase in _PENDING

    # -- tasks -----------------------------------------------------------------------------------------------------

    def add(self, task: TaskInfo) -> None:
        self.tasks[task.uid] = task
        self.gated_num += task.is_gated
        self._recount(task, None, task.status)
        if self.subgroups:
            self._join_subgroup(task)

    def remove(self, uid: str) -> TaskInfo | None:
        task = self.tasks.pop(uid, None)
        if task is not None:
            self.gated_num -= task.is_gated
            self._recount(task, task.status, None)
            self._leave_subgroup(task)
        return task

    def update_status(self, task: TaskInfo, status: TaskStatus) -> None:
        before, task.status = task.status, status
        self._recount(task, before, status)
        if task.subjob is not None:
            task.subjob._recount(task, before, status)

    def _recount(self, task: TaskInfo, before: TaskStatus | None, after: TaskStatus | None) -> None:
        super()._recount(task, before, after)
        # Most moves change none of the sums.
        held, holds = before in ALLOCATED, after in ALLOCATED
        if held is not holds:
            (self.allocated.add if holds else self.allocated.sub)(task.request)
        requested, requests = before in _REQUESTING, after in _REQUESTING
        if requested is not requests:
            (self.requested.add if requests else self.requested.sub)(task.request)

    @property
    def bound_resources(self) -> Resource:
        """What the tasks take that are bound or being bound; what is set aside until the session ends is not in it."""
        held = Resource(self.allocated)
        for task in self.with_status(TaskStatus.ALLOCATED).values():
            held.sub(task.request)
        return held

    @property
    def gangs(self) -> tuple[GangInfo, ...]:
        return (self, *self.subjobs.values())

    # -- its parts -----------------------------------------------------------------------------------------------------

    def set_subgroups(self, subgroups: tuple[SubGroups, ...]) -> None:
        """Divide it into these subgroups, and what is in none of them; into nothing if there are none."""
        if subgroups == self.subgroups:
            return
        for task in self.tasks.values():
            self._leave_subgroup(task)
        self.subgroups = subgroups
        for task in self.tasks.values() if subgroups else ():
            self._join_subgroup(task)

    def _join_subgroup(self, task: TaskInfo) -> None:
        labels = task.object.metadata.labels
        found = ((groups, values) for groups in self.subgroups if (values := groups.values(labels)))
        new = SubJobInfo(*next(found, (None, ())))
        task.subjob = self.subjobs.setdefault(new.name, new)
        task.subjob.tasks[task.uid] = task
        task.subjob._recount(task, None, task.status)

    def _leave_subgroup(self, task: TaskInfo) -> None:
        subjob, task.subjob = task.subjob, None
        if subjob is not None:
            del subjob.tasks[task.uid]
            subjob._recount(task, task.status, None)
            if not subjob.tasks:
                del self.subjobs[subjob.name]

    def missing_subgroups(self, has_enough: Callable[[SubJobInfo], bool]) -> str:
        """Return how many subgroups are ready, for the first policy with too few; "" if there is none."""
        for groups in self.subgroups:
            having = sum(subjob.policy == groups.name and has_enough(subjob) for subjob in self.subjobs.values())
            if having < groups.minimum:
                return f"{having} of the {groups.minimum} subgroups of {groups.name} that it needs have enough"
        return ""

    # -- whether it has enough (Volcano's job_info.go) -----------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return super().is_ready and self._has_role_minimum_of(*READY) and not self.missing_subgroups(_is_ready)

    @property
    def is_broken(self) -> bool:
        return not self.allocated.is_empty and not self.is_ready

    @property
    def is_pipelined(self) -> bool:
        return (
            super().is_pipelined
            and self._has_role_minimum_of(*READY, TaskStatus.PIPELINED)
            and not self.missing_subgroups(_is_pipelined)
        )

    @property
    def is_starving(self) -> bool:
        return self.waiting_num + self.ready_num < self.min_available

    def count_roles(self, *statuses: TaskStatus) -> dict[str, int]:
        counts: dict[str, int] = {}
        for status in statuses:
            for task in self.with_status(status).values():
                counts[task.role] = counts.get(task.role, 0) + 1
        return counts

    @property
    def has_role_minimums(self) -> bool:
        """Whether minimums per role count: only where the gang is to have them all."""
        return bool(self.role_minimums) and self.min_available >= sum(self.role_minimums.values())

    def _has_role_minimum_of(self, *statuses: TaskStatus) -> bool:
        """Return whether every role has its minimum of tasks of these statuses; best effort ones may be pending."""
        if not self.has_role_minimums:
            return True
        counts = self.count_roles(*statuses)
        for task in self.with_status(TaskStatus.PENDING).values():
            if task.is_best_effort:
                counts[task.role] = counts.get(task.role, 0) + 1
        return all(counts.get(role, 0) >= minimum for role, minimum in self.role_minimums.items())


_is_ready: Callable[[SubJobInfo], bool] = attrgetter("is_ready")
_is_pipelined: Callable[[SubJobInfo], bool] = attrgetter("is_pipelined")
