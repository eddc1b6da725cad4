"""A job: the tasks of one pod group, and the arithmetic of gangs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kframework_batch.membership import GroupObject, GroupStatus
from kframework_batch.resource import Resource
from kframework_batch.task import ALLOCATED, COMPLETED, TaskInfo, TaskStatus

#: The phases of a pod group: `Pending` (or none yet), `Inqueue`, `Running`, `Unknown`, `Completed`.
Phase = str
INQUEUE = "Inqueue"
_PENDING = frozenset({"", "Pending"})

#: The tasks that count for a minimum: they have room, or have succeeded.
READY: tuple[TaskStatus, ...] = (
    TaskStatus.BOUND,
    TaskStatus.BINDING,
    TaskStatus.RUNNING,
    TaskStatus.ALLOCATED,
    TaskStatus.SUCCEEDED,
)

_NONE: dict[str, TaskInfo] = {}

#: Those that have not ended.
_REQUESTING = frozenset(TaskStatus) - COMPLETED


class Place(NamedTuple):
    """Where a task would have gone, had its job been given enough: Allocated or Pipelined, on this node."""

    status: TaskStatus
    node_name: str


class JobInfo:
    """The tasks of one pod group, of whatever kind it is.

    Sums follow the status of the tasks, which `move` alone changes: `allocated` is what those take that hold room,
    `requested` what all take that have not ended. A session's uid stands in conditions and says which wrote them.
    """

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace: str = namespace
        self.name: str = name
        #: What a session knows it by: namespace/name, with the API group before it where that is not Volcano's.
        self.uid: str = f"{namespace}/{name}"
        #: The pod group as the API last said it is, and its status as it will be once what was written is there.
        self.object: GroupObject | None = None
        self.status: GroupStatus | None = None
        #: The uid of the pod group, and when it was created (RFC 3339).
        self.group_uid: str = ""
        self.created: str = ""
        self.queue: str = ""
        #: The value of the pod group's PriorityClass, or of the default one.
        self.priority: int = 0
        self.min_available: int = 0
        self.role_minimums: Mapping[str, int] = {}
        #: What must be free before pods are made; None if the group does not say.
        self.min_resources: Resource | None = None
        #: Whether the group says that others may push it out: Volcano's default for groups is no.
        self.preemptable: bool = False
        self.annotations: Mapping[str, str] = {}
        self.labels: Mapping[str, str] = {}
        self.phase: Phase = ""
        #: Whether there is a group that says all this; tasks may be seen before it.
        self.known: bool = False
        #: Why it cannot be scheduled at all, whoever asks; "" if it can.
        self.refused: str = ""
        self.tasks: dict[str, TaskInfo] = {}
        self.allocated: Resource = Resource()
        self.requested: Resource = Resource()
        self._by_status: dict[TaskStatus, dict[str, TaskInfo]] = {}
        self._best_effort_pending = 0
        #: Why tasks found no node in this session, by uid; and why the job as a whole was passed over, "" if not.
        self.fit_errors: dict[str, str] = {}
        self.message: str = ""
        #: Where tasks had their place in this session before it was taken back, by uid.
        self.places: dict[str, Place] = {}

    @property
    def is_pending(self) -> bool:
        """Whether it has not been let in yet: see the action `enqueue`."""
        return self.phase in _PENDING

    # -- tasks -----------------------------------------------------------------------------------------------------

    def with_status(self, status: TaskStatus) -> Mapping[str, TaskInfo]:
        """Return the tasks of this status by uid, in the order in which they came to it; do not change it."""
        return self._by_status.get(status, _NONE)

    def add(self, task: TaskInfo) -> None:
        """Take in a task."""
        self.tasks[task.uid] = task
        self._enter(task)
        self._sum(task, None, task.status)

    def remove(self, uid: str) -> TaskInfo | None:
        """Take a task out; None if there is none of this uid."""
        task = self.tasks.pop(uid, None)
        if task is not None:
            self._leave(task)
            self._sum(task, task.status, None)
        return task

    def move(self, task: TaskInfo, status: TaskStatus) -> None:
        """Give a task another status."""
        self._leave(task)
        before, task.status = task.status, status
        self._enter(task)
        self._sum(task, before, status)

    def _enter(self, task: TaskInfo) -> None:
        self._by_status.setdefault(task.status, {})[task.uid] = task
        if task.status is TaskStatus.PENDING and task.best_effort:
            self._best_effort_pending += 1

    def _leave(self, task: TaskInfo) -> None:
        del self._by_status[task.status][task.uid]
        if task.status is TaskStatus.PENDING and task.best_effort:
            self._best_effort_pending -= 1

    def _sum(self, task: TaskInfo, before: TaskStatus | None, after: TaskStatus | None) -> None:
        """Keep the sums, of which most moves change none."""
        for total, before_in, after_in in (
            (self.allocated, before in ALLOCATED, after in ALLOCATED),
            (self.requested, before in _REQUESTING, after in _REQUESTING),
        ):
            if after_in and not before_in:
                total.add(task.request)
            elif before_in and not after_in:
                total.sub(task.request)

    @property
    def held(self) -> Resource:
        """What the tasks take that are bound or being bound; what is set aside until the session ends is not in it."""
        held = Resource(self.allocated)
        for task in self.with_status(TaskStatus.ALLOCATED).values():
            held.sub(task.request)
        return held

    # -- the arithmetic of gangs (Volcano's job_info.go) --------------------------------------------------------------

    def count(self, *statuses: TaskStatus) -> int:
        """Return the number of tasks of these statuses."""
        return sum(len(self.with_status(status)) for status in statuses)

    @property
    def ready_num(self) -> int:
        """The number of tasks that have room, or have succeeded."""
        return self.count(*READY)

    @property
    def waiting_num(self) -> int:
        """The number of tasks that are promised room."""
        return self.count(TaskStatus.PIPELINED)

    @property
    def best_effort_pending(self) -> int:
        """The number of pending tasks that ask for nothing: they need no room to be counted on."""
        return self._best_effort_pending

    @property
    def valid_num(self) -> int:
        """The number of tasks that have room, are promised it, or may still get it."""
        return self.ready_num + self.count(TaskStatus.PIPELINED, TaskStatus.PENDING)

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have room for the job to run."""
        return self.ready_num + self.best_effort_pending >= self.min_available and self._roles_have(*READY)

    @property
    def is_broken(self) -> bool:
        """Whether it holds room without being ready, as a gang that has lost members."""
        return not self.allocated.empty and not self.is_ready

    @property
    def is_pipelined(self) -> bool:
        """Whether enough tasks have room or are promised it."""
        enough = self.waiting_num + self.ready_num + self.best_effort_pending >= self.min_available
        return enough and self._roles_have(*READY, TaskStatus.PIPELINED)

    @property
    def is_starving(self) -> bool:
        """Whether it has less than the minimum, promises included."""
        return self.waiting_num + self.ready_num < self.min_available

    def roles(self, *statuses: TaskStatus) -> dict[str, int]:
        """Count the tasks of these statuses by role."""
        counts: dict[str, int] = {}
        for status in statuses:
            for task in self.with_status(status).values():
                counts[task.role] = counts.get(task.role, 0) + 1
        return counts

    @property
    def minds_roles(self) -> bool:
        """Whether minimums per role count: only where the gang is to have them all."""
        return bool(self.role_minimums) and self.min_available >= sum(self.role_minimums.values())

    def _roles_have(self, *statuses: TaskStatus) -> bool:
        """Return whether every role has its minimum of tasks of these statuses; best effort ones may be pending."""
        if not self.minds_roles:
            return True
        counts = self.roles(*statuses)
        for task in self.with_status(TaskStatus.PENDING).values():
            if task.best_effort:
                counts[task.role] = counts.get(task.role, 0) + 1
        return all(counts.get(role, 0) >= minimum for role, minimum in self.role_minimums.items())

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(tasks)} {status.value}" for status, tasks in self._by_status.items() if tasks)
        return f"<JobInfo {self.uid} of {self.queue}, min {self.min_available}: {counts or 'no tasks'}>"
