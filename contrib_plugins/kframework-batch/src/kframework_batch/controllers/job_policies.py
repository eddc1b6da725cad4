"""The policies of a job: which events happened to its pods, and which action follows.

Events are derived from the current objects, so a restart finds them again: a pod that failed is still there, one
that was evicted is missing from the number that the job's status knows. An action with a timeout runs if its event
still holds then; the start of the timeout is kept in memory, as by Volcano's controller, so a restart begins it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kframework.clock import seconds_of
from kframework.engine import Duration
from kframework.objects import Pod
from kframework_batch.controllers.job_admission import events_of
from kframework_batch.controllers.job_pods import (
    PARTITION,
    PodPhaseCounts,
    VolcanoJobPods,
    dependencies_met,
    is_staying,
)
from kframework_batch.objects import Job, JobPolicy, JobStatus, PodGroup, TaskSpec

_SUPPORTED_EVENTS = frozenset({"PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown"})
#: What ends or restarts the job as a whole.
JOB_ACTIONS: frozenset[str] = frozenset({"RestartJob", "AbortJob", "TerminateJob", "CompleteJob"})
_TASK_ACTIONS = frozenset({"RestartTask", "RestartPod", "RestartPartition"})

#: The default number of restarts of a task's containers until it has failed; -1 is without limit.
_MAX_RETRY, _UNLIMITED = 3, -1


@dataclass(frozen=True)
class JobAction:
    """An action on a job, and its reason; `restarted` are the pods that a task's action deletes."""

    name: str
    event: str
    message: str
    restarted: tuple[Pod, ...] = ()


@dataclass(frozen=True)
class _JobEvent:
    """An event: `subject` is what it happened to, `since` when that was if there is a record of it."""

    event: str
    message: str
    subject: str = ""
    task: str = ""
    pod: Pod | None = None
    exit_code: int = 0
    since: float | None = None


@dataclass
class Timeouts:
    """The timeouts of a job's actions: the start of each, by event and subject, and the seconds until the next."""

    started: dict[tuple[str, str], float] = field(default_factory=dict)
    next_in: float | None = None


def next_action(
    job: Job, members: VolcanoJobPods, group: PodGroup | None, timeouts: Timeouts, now: float
) -> JobAction | None:
    """Return the action that the first event calls for which any policy is about, or None.

    The policies of a task come before those of the job. An action with a timeout is due when that is up.
    """
    met: dict[tuple[str, str], float] = {}
    left: list[float] = []
    for happening in _job_events(job, members, group, timeouts):
        policy = _matching_policy(job, happening)
        action = None if policy is None else _action(policy.action, happening, job, members)
        if policy is None or action is None:
            continue
        key = happening.event, happening.subject
        met[key] = timeouts.started.get(key, now) if happening.since is None else happening.since
        remaining = met[key] + Duration.parse(policy.timeout or "0") - now
        if not policy.timeout or remaining <= 0:
            timeouts.started, timeouts.next_in = {}, None
            return action
        left.append(remaining)
    # What is not so any more is forgotten.
    timeouts.started, timeouts.next_in = met, min(left, default=None)
    return None


def _action(name: str, happening: _JobEvent, job: Job, members: VolcanoJobPods) -> JobAction | None:
    """Return an event's action; None if it is not supported, or is about tasks where the event is not."""
    task = next((task for task in job.spec.tasks if task.name == happening.task), None)
    if name in JOB_ACTIONS:
        return JobAction(name, happening.event, happening.message)
    if task is None or name not in _TASK_ACTIONS:
        return None
    match name:
        case "RestartTask":
            restarted = members.current[task.name]
        case "RestartPartition":
            policy, partitions = task.partition_policy, members.partitions(task.name)
            if policy is None:
                restarted = []
            elif happening.pod is not None:
                restarted = partitions[happening.pod.metadata.labels.get(PARTITION, "")]
            else:  # without a pod of the event: those that are short of pods
                short = (pods for pods in partitions.values() if sum(map(is_staying, pods)) < policy.partition_size)
                restarted = [pod for pods in short for pod in pods]
        case _:
            restarted = [] if happening.pod is None else [happening.pod]
    return JobAction(name, happening.event, happening.message, tuple(restarted))


def _matching_policy(job: Job, happening: _JobEvent) -> JobPolicy | None:
    of_task: Iterable[JobPolicy] = ()
    if happening.task:
        of_task = next(task for task in job.spec.tasks if task.name == happening.task).policies
    for policy in (*of_task, *job.spec.policies):
        # That a pod is pending is nothing unless it is so for some time.
        counts = happening.event != "PodPending" or bool(policy.timeout)
        if counts and {happening.event, "*"} & set(events_of(policy)):
            return policy
        if policy.exit_code is not None and policy.exit_code == happening.exit_code:
            return policy
    return None


# -- what has happened ---------------------------------------------------------------------------------------------


def _job_events(job: Job, members: VolcanoJobPods, group: PodGroup | None, timeouts: Timeouts) -> Iterator[_JobEvent]:
    for task in job.spec.tasks:
        for pod in members.current[task.name]:
            if pod.status.phase == "Failed":
                # The code is that of its first container.
                states = (status.state for status in pod.status.container_statuses[:1])
                ends = (state.terminated for state in states if state is not None)
                code = next((end.exit_code for end in ends if end is not None), 0)
                message = f"pod {pod.metadata.name} has failed{f' with exit code {code}' if code else ''}"
                yield _JobEvent("PodFailed", message, pod.metadata.uid, task.name, pod, code)
    for name in _short_of(job, members, timeouts):
        yield _JobEvent("PodEvicted", f"a pod of task {name} was evicted", name, name)
    for task in job.spec.tasks:
        if 0 < task.replicas <= members.counts.succeeded_of[task.name]:
            yield _JobEvent("TaskCompleted", f"task {task.name} is completed", task.name, task.name)
        yield from _task_failed(task, members.current[task.name])
        for pod in members.current[task.name]:
            metadata = pod.metadata
            if pod.status.phase in ("", "Pending") and metadata.deletion_timestamp is None:
                since = seconds_of(metadata.creation_timestamp) if metadata.creation_timestamp else None
                message = f"pod {metadata.name} is pending"
                yield _JobEvent("PodPending", message, metadata.uid, task.name, pod, since=since)
    if group is not None and group.status.phase == "Unknown":
        yield _JobEvent("Unknown", "some pods run and others find no place")


def _short_of(job: Job, members: VolcanoJobPods, timeouts: Timeouts) -> list[str]:
    """Return the tasks with an evicted pod: just now, or some time ago without a running replacement.

    A task that waits for others has no pods yet that could have been evicted.
    """
    waits = {
        task.name
        for task in job.spec.tasks
        if not members.current[task.name] and not dependencies_met(job, task, members)
    }
    evicted = members.tasks_short_of(is_staying) if _count_staying(members.counts) < _count_staying(job.status) else []
    evicted = [name for name in evicted if name not in waits]
    in_progress = ("Running", "Succeeded", "Failed")
    few = members.tasks_short_of(lambda pod: is_staying(pod) and pod.status.phase in in_progress)
    waiting = [name for event, name in timeouts.started if event == "PodEvicted" and name in few]
    return list(dict.fromkeys((*evicted, *waiting)))


def _task_failed(task: TaskSpec, pods: Iterable[Pod]) -> Iterator[_JobEvent]:
    """Report that the containers of a task were restarted too often, by its pod with most restarts."""
    most = task.max_retry or _MAX_RETRY
    restarts: list[tuple[int, Pod]] = []
    for pod in pods:
        if pod.status.phase in ("Pending", "Running"):
            containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
            restarts.append((sum(each.restart_count for each in containers), pod))
    total = sum(count for count, _ in restarts)
    if most != _UNLIMITED and restarts and total >= most:
        _, worst = max(restarts, key=lambda each: each[0])
        yield _JobEvent("TaskFailed", f"task {task.name} was restarted {total} times", task.name, task.name, worst)


def _count_staying(counts: PodPhaseCounts | JobStatus) -> int:
    return counts.pending + counts.running + counts.succeeded + counts.failed + counts.unknown


# -- what is passed over -------------------------------------------------------------------------------------------


def unsupported_policies(job: Job) -> list[str]:
    policies = [("spec.policies", policy) for policy in job.spec.policies]
    policies += [(f"spec.tasks[{task.name}].policies", each) for task in job.spec.tasks for each in task.policies]
    found = []
    for path, policy in policies:
        if policy.action not in JOB_ACTIONS | _TASK_ACTIONS:
            found.append(f"{path}: action {policy.action}")
        for event in events_of(policy):
            if event not in _SUPPORTED_EVENTS and event != "*":
                found.append(f"{path}: event {event}")
            if event == "PodPending" and not policy.timeout:
                found.append(f"{path}: event PodPending without a timeout")
            if event == "Unknown" and policy.action in _TASK_ACTIONS:
                found.append(f"{path}: action {policy.action} for the event Unknown, which is about no task")
    return found
