"""A task: one pod of a job, as a session sees it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from kframework import PodInfo
from kframework.objects import Pod
from kframework_batch.resource import Resource

if TYPE_CHECKING:
    from kframework_batch.job import JobInfo

#: The role of a task in its job: the name of the task in the Job's spec; an annotation, or a label.
ROLE = "volcano.sh/task-spec"
#: The number of a task among those of its role.
INDEX = "volcano.sh/task-index"
#: Whether others may push the task out; an annotation or a label. Pods may be, unless they say otherwise.
MAY_BE_PREEMPTED = "volcano.sh/preemptable"
#: The priority of a task within its job, in place of its pod's.
PRIORITY = "volcano.sh/task-priority"


class TaskStatus(Enum):
    """Where a task stands. The first three and Releasing of a victim are true within a session only."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"  # put on a node in this session; bound once its job is ready
    PIPELINED = "Pipelined"  # promised room that others are still to leave
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    # An enumeration hashes its members by name, in Python: by identity it takes a tenth of the time.
    __hash__ = object.__hash__


#: Those that hold room on a node and are to keep it.
ALLOCATED = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})
#: Those that were put on a node some time.
SCHEDULED = frozenset({TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.FAILED, TaskStatus.SUCCEEDED})
#: Those that may be victims.
PREEMPTABLE = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
#: Those that have ended.
COMPLETED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class TaskInfo:
    """One pod of a job.

    `pod` is the core's own PendingPod or PodInfo, by identity the one that stands in the live tables; `object` what the
    API last said. `status` is changed by `JobInfo.move` alone, which keeps the job's sums. `request` is what the pod
    takes on a node; without any the task is best effort. `gated` tasks have scheduling gates and are left alone.
    """

    __slots__ = (
        "created",
        "gated",
        "index",
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
        "uid",
    )

    def __init__(self, job: JobInfo, pod: PodInfo, obj: Pod, status: TaskStatus) -> None:
        metadata = obj.metadata
        annotations, labels = metadata.annotations, metadata.labels
        self.job: JobInfo = job
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
        self.preemptable: bool = flag(annotations, labels, MAY_BE_PREEMPTED, default=True)
        self.gated: bool = bool(obj.spec.scheduling_gates)
        self.request: Resource = Resource.of(pod.on_node)
        self.status: TaskStatus = status
        #: Where it is, or is to go; "" for nowhere.
        self.node_name: str = pod.node_name

    @property
    def key(self) -> str:
        """The pod's namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def best_effort(self) -> bool:
        """Whether it asks for nothing."""
        return self.request.empty

    def __repr__(self) -> str:
        where = f" on {self.node_name}" if self.node_name else ""
        return f"<TaskInfo {self.key} {self.status.value}{where}>"


def status_of(pod: Pod) -> TaskStatus:
    """Tell where a pod stands by its object alone."""
    match pod.status.phase:
        case "Succeeded":
            return TaskStatus.SUCCEEDED
        case "Failed":
            return TaskStatus.FAILED
        case "" | "Pending" | "Running" as phase:
            if pod.metadata.deletion_timestamp is not None:
                return TaskStatus.RELEASING
            if phase == "Running":
                return TaskStatus.RUNNING
            return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING
        case _:
            return TaskStatus.UNKNOWN


def flag(annotations: Mapping[str, str], labels: Mapping[str, str], key: str, *, default: bool) -> bool:
    """Read yes or no from an annotation, or else from a label; what is neither is no, as Volcano has it."""
    text = annotations.get(key, labels.get(key))
    return default if text is None else text in _YES


#: What Go's strconv.ParseBool takes for yes.
_YES = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def _number(text: str | None) -> int | None:
    """Read a whole number; None where there is none."""
    try:
        return int(text) if text else None
    except ValueError:
        return None
