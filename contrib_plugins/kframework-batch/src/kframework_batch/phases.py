"""The results of sessions for pod groups and queues: phases, counts and conditions, and what queues hold.

The rules for the phase and the words of the conditions are Volcano's. A status is written only when it changes
otherwise than in times and in the session's uid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

import msgspec

from kframework.objects import ApiStruct, QuantityError, ResourceList
from kframework_batch.job import INQUEUE, JobInfo, Phase, TaskInfo
from kframework_batch.membership import GroupStatus
from kframework_batch.objects import (
    KubePodGroupStatus,
    ObjectCondition,
    PodGroupCondition,
    PodGroupStatus,
    QueueStatus,
    SigsPodGroupStatus,
)
from kframework_batch.queue import ROOT_QUEUE, QueueInfo
from kframework_batch.resource import Resource, format_quantity
from kframework_batch.task_status import ALLOCATED, COMPLETED, SCHEDULED, TaskStatus

Condition = TypeVar("Condition", PodGroupCondition, ObjectCondition)

#: The tasks that a gang has, or may still get.
_VALID = (*ALLOCATED, TaskStatus.SUCCEEDED, TaskStatus.PIPELINED, TaskStatus.PENDING)


def update_job_status(job: JobInfo, session_uid: str, now: str) -> GroupStatus | None:
    """Set the phase and status in which the session leaves a job; return the status if it is to be written.

    `now` is RFC 3339.
    """
    match job.status:
        case PodGroupStatus() as old:
            new: GroupStatus | None = group_status(job, session_uid, now, old)
        case SigsPodGroupStatus() as old:
            new = sigs_group_status(job, old)
        case KubePodGroupStatus() as old:
            new = kube_group_status(job, now, old)
        case None:
            return None
    job.phase = next_phase(job)
    job.status = job.status if new is None else new
    return new


def status_patch(status: ApiStruct) -> dict[str, object]:
    """Return the merge patch that makes a status this one: zeros too, but no text that is empty."""
    patch = {name: msgspec.to_builtins(getattr(status, field)) for field, name in _fields(type(status))}
    return {name: value for name, value in patch.items() if value != ""}


@cache  # msgspec computes this on each call, which takes 0.2 ms
def _fields(kind: type[ApiStruct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))


# -- what a session came to ------------------------------------------------------------------------------------------


class Schedulability(NamedTuple):
    """The schedulability of a job, in one word and in a sentence."""

    ready: bool
    reason: str
    message: str


def schedulability(job: JobInfo) -> Schedulability | None:
    """Return whether enough tasks of a job have room; None if there is nothing to report."""
    if job.invalid_reason:
        return Schedulability(False, "InvalidPodGroup", job.invalid_reason)
    if _is_unschedulable(job):
        return Schedulability(False, _shortage(job), _gang_message(job))
    if job.message and not job.tasks:
        return Schedulability(False, "NotEnoughResources", job.message)
    if job.tasks and job.is_ready:
        return Schedulability(True, "tasks in gang are ready to be scheduled", "")
    return None


def next_phase(job: JobInfo) -> Phase:
    """Return the phase of a job by the statuses of its tasks.

    Unlike in Volcano a job of minimum 0 is not Completed before any task of it has run.
    """
    if job.with_status(TaskStatus.RUNNING) and _is_unschedulable(job):
        return "Unknown"
    scheduled = job.count(*SCHEDULED) + _count_terminating(job)
    if scheduled and scheduled >= job.min_available:
        return "Completed" if scheduled == job.count(*COMPLETED) else "Running"
    return INQUEUE if job.phase == INQUEUE else "Pending"


def pending_reason(job: JobInfo, task: TaskInfo) -> tuple[str, str]:
    """Return the reason (one word) and message of the condition PodScheduled of a pending task.

    Schedulable are those that had a place, but waited for others of their gang.
    """
    tentative = job.tentative_nodes.get(task.uid)
    if tentative is None:
        known = job.fit_errors.get(task.uid) or job.message or job.invalid_reason
        return "Unschedulable", known or _not_tried(job, task)
    where = f"Pod {task.key} can possibly be assigned to {tentative.node_name}, once"
    if tentative.status is TaskStatus.PIPELINED:
        return "Unschedulable", f"{where} resource is released and minAvailable is satisfied"
    return "Schedulable", f"{where} minAvailable is satisfied"


def _not_tried(job: JobInfo, task: TaskInfo) -> str:
    if not job.has_group:
        return f"there is no pod group {job.uid}"
    # If one of the gang finds no node, the others are not tried.
    if error := _first_fit_error(job):
        return f"it was not tried after {error}"
    return (
        "no action tried it: only backfill places pods without requests"
        if task.is_best_effort
        else "no action tried it"
    )


def _is_unschedulable(job: JobInfo) -> bool:
    if job.invalid_reason or not job.tasks or job.is_ready:
        return bool(job.invalid_reason)
    # It may have less than its minimum only because pods of it are going, without replacements.
    waiting, leaving = job.count(TaskStatus.PENDING, TaskStatus.PIPELINED), _count_terminating(job)
    return waiting > 0 or not leaving or job.count(*SCHEDULED) + leaving < job.min_available


def _count_terminating(job: JobInfo) -> int:
    """Count the tasks that are going, and are on a node still."""
    return sum(bool(task.node_name) for task in job.with_status(TaskStatus.RELEASING).values())


def _shortage(job: JobInfo) -> str:
    if job.valid_num < job.min_available:
        return "NotEnoughTasks"
    valid = job.count_roles(*_VALID)
    few = job.has_role_minimums and any(valid.get(role, 0) < minimum for role, minimum in job.role_minimums.items())
    if few or job.missing_subgroups(lambda subjob: True):
        return "NotEnoughPodsOfTask"
    return "NotEnoughResources"


def _gang_message(job: JobInfo) -> str:
    pending = job.with_status(TaskStatus.PENDING)
    placed = sum(tentative.status in ALLOCATED for uid, tentative in job.tentative_nodes.items() if uid in pending)
    missing = max(job.min_available - job.ready_num - placed, 0)
    counts = Counter({status.value: job.count(status) for status in TaskStatus})
    counts["minAvailable"] = job.min_available
    message = f"{missing}/{len(job.tasks)} tasks in gang unschedulable: pod group is not ready, {_histogram(counts)}"
    if pending:
        message += f"; Pending: {_histogram(Counter(Schedulable=placed, Unschedulable=len(pending) - placed))}"
    if job.message:
        return f"{message}. Origin reason is: {job.message}"
    error = _first_fit_error(job)
    return f"{message}. Origin reason is {error}" if error else message


def _histogram(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {what}" for what, count in counts.items() if count or what == "minAvailable"))


def _first_fit_error(job: JobInfo) -> str:
    """Return the first task that found no node, and why; "" if there is none."""
    errors = ((job.tasks[uid].name, error) for uid, error in job.fit_errors.items() if uid in job.tasks)
    return next((f"{name}: {error}" for name, error in errors), "")


# -- the same in the words of each kind ------------------------------------------------------------------------------


def group_status(job: JobInfo, session_uid: str, now: str, old: PodGroupStatus) -> PodGroupStatus | None:
    """Return the status of a pod group of Volcano's kind, None if it is unchanged; `now` is RFC 3339."""
    conditions, answer = old.conditions, schedulability(job)
    if answer is not None:
        condition = PodGroupCondition(
            type="Scheduled" if answer.ready else "Unschedulable",
            status="True",
            transition_id=session_uid,
            last_transition_time=now,
            reason=answer.reason,
            message=answer.message,
        )
        conditions = _set_condition(conditions, condition)
    new = PodGroupStatus(
        phase=next_phase(job),
        conditions=conditions,
        running=job.count(TaskStatus.RUNNING),
        succeeded=job.count(TaskStatus.SUCCEEDED),
        failed=job.count(TaskStatus.FAILED),
    )
    return None if _without_times(old) == _without_times(new) else new


def sigs_group_status(job: JobInfo, old: SigsPodGroupStatus) -> SigsPodGroupStatus | None:
    """Return the status of a pod group of kubernetes-sigs, None if it is unchanged.

    The phases are those of its own controller; Finished and Failed are final.
    """
    if old.phase in ("Finished", "Failed"):
        return None
    running, succeeded, failed = (
        job.count(status) for status in (TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)
    )
    minimum = max(job.min_available, 1)
    if succeeded >= minimum:
        phase = "Finished"
    elif failed and failed + running + succeeded >= minimum:
        phase = "Failed"
    elif running + succeeded >= minimum:
        phase = "Running"
    elif len(job.tasks) >= minimum and next_phase(job) != "Pending":
        phase = "Scheduling"
    else:
        phase = "Pending"
    scheduled = job.count(*SCHEDULED) + _count_terminating(job)
    new = SigsPodGroupStatus(phase=phase, scheduled=scheduled, running=running, succeeded=succeeded, failed=failed)
    return None if old == new else new


def kube_group_status(job: JobInfo, now: str, old: KubePodGroupStatus) -> KubePodGroupStatus | None:
    """Return the status of a pod group of Kubernetes, None if it is unchanged; `now` is RFC 3339.

    Its condition PodGroupScheduled, once True, stays so. Tasks that only could be placed do not make it so.
    """
    done = any(seen.type == "PodGroupScheduled" and seen.status == "True" for seen in old.conditions)
    answer = schedulability(job)
    scheduled = job.ready_num > 0 and job.ready_num >= job.min_available
    if done or answer is None or (answer.ready and not scheduled):
        return None
    condition = ObjectCondition(
        type="PodGroupScheduled",
        status="True" if answer.ready else "False",
        observed_generation=job.object.metadata.generation if job.object is not None else 0,
        last_transition_time=now,
        reason="Scheduled" if answer.ready else "Unschedulable",
        message=answer.message,
    )
    new = KubePodGroupStatus(conditions=_set_condition(old.conditions, condition))
    return None if _without_times(old) == _without_times(new) else new


def _set_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """Replace the condition of the same type, or append this one."""
    by_type = {condition.type: condition for condition in conditions}
    return tuple({**by_type, new.type: new}.values())


def _without_times(status: PodGroupStatus | KubePodGroupStatus) -> PodGroupStatus | KubePodGroupStatus:
    """Return a status without when its conditions came about, and in which session."""
    conditions = tuple(_without_time(seen) for seen in status.conditions)
    return msgspec.structs.replace(status, conditions=conditions)


def _without_time(condition: PodGroupCondition | ObjectCondition) -> PodGroupCondition | ObjectCondition:
    if isinstance(condition, PodGroupCondition):
        return msgspec.structs.replace(condition, last_transition_time=None, transition_id="")
    return msgspec.structs.replace(condition, last_transition_time=None)


# -- queues ------------------------------------------------------------------------------------------------------------


def queue_statuses(queues: Mapping[str, QueueInfo], jobs: Iterable[JobInfo]) -> dict[str, QueueStatus]:
    inside: dict[str, list[JobInfo]] = {name: [] for name in queues}
    allocated = {name: Resource() for name in queues}
    for job in jobs:
        if job.queue in queues:
            inside[job.queue].append(job)
            name, above = job.queue, list[str]()
            while name in queues and name not in above:  # each once, even if they form a circle
                above.append(name)
                allocated[name].add(job.bound_resources)
                name = queues[name].parent or ROOT_QUEUE
    found = {name: queue_status(queue, inside[name], allocated[name]) for name, queue in queues.items()}
    return {name: status for name, status in found.items() if status is not None}


def queue_status(queue: QueueInfo, jobs: Sequence[JobInfo], allocated: Resource) -> QueueStatus | None:
    """Return the status of a queue with these jobs in it, None if it is unchanged.

    `allocated` is what they hold, with all that is held below. The state of the queue is not the scheduler's to set: it
    is left empty.
    """
    phases = Counter(job.phase for job in jobs)
    counts = (phases["Pending"], phases["Running"], phases["Unknown"], phases["Inqueue"], phases["Completed"])
    old = queue.status
    same = counts == (old.pending, old.running, old.unknown, old.inqueue, old.completed)
    if same and _equals(old.allocated, allocated):
        return None
    pending, running, unknown, inqueue, completed = counts
    # A merge patch leaves what it does not name: what is held no more must be named.
    held = {name: allocated.get(name, 0) for name in sorted({"cpu", "memory", *old.allocated, *allocated})}
    return QueueStatus(
        pending=pending,
        running=running,
        unknown=unknown,
        inqueue=inqueue,
        completed=completed,
        allocated={name: format_quantity(name, amount) for name, amount in held.items()},
    )


def _equals(quantities: ResourceList, allocated: Resource) -> bool:
    """Return whether these quantities are these amounts; what is not named is nothing."""
    try:
        amounts = Resource.parse(quantities)
    except QuantityError:
        return False
    return all(amounts.get(name, 0) == allocated.get(name, 0) for name in {**amounts, **allocated})
