"""The statuses of tasks: the state of a pod, as a session sees it."""

from __future__ import annotations

from enum import Enum

from kframework.objects import Pod


class TaskStatus(Enum):
    """The status of a task; the first three, and Releasing of a victim, exist within a session only."""

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

#: The tasks that count for a minimum: they have room, or have succeeded.
READY: tuple[TaskStatus, ...] = (
    TaskStatus.BOUND,
    TaskStatus.BINDING,
    TaskStatus.RUNNING,
    TaskStatus.ALLOCATED,
    TaskStatus.SUCCEEDED,
)


def task_status(pod: Pod) -> TaskStatus:
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


def has_ended(pod: Pod) -> bool:
    return task_status(pod) in COMPLETED
