"""The policies of a job: what has happened to its pods, and what is to be done about it.

What has happened is read off what there is, so it is found again after a restart: a pod that failed is still there, one
that was evicted is missing from the number that the job's status knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kframework.objects import Pod
from kframework_batch.controllers.job_admission import events_of
from kframework_batch.controllers.job_members import Members, Tally
from kframework_batch.objects import Job, JobPolicy, JobStatus, PodGroup

_BUILT = frozenset({"PodFailed", "PodEvicted", "TaskCompleted", "Unknown"})
_OF_JOBS = frozenset({"RestartJob", "AbortJob", "TerminateJob", "CompleteJob"})
_OF_TASKS = frozenset({"RestartTask", "RestartPod"})


@dataclass(frozen=True)
class Action:
    """What is to be done, and why; `restarted` are the pods that a task's action takes away."""

    name: str
    event: str
    message: str
    restarted: tuple[Pod, ...] = ()


@dataclass(frozen=True)
class _Happening:
    event: str
    message: str
    task: str = ""
    pod: Pod | None = None


def due(job: Job, members: Members, group: PodGroup | None) -> Action | None:
    """Return the action that the first event calls for which any policy is about, or None.

    The policies of a task come before those of the job.
    """
    for happening in _happenings(job, members, group):
        name = _called_for(job, happening)
        if name in _OF_JOBS:
            return Action(name, happening.event, happening.message)
        if name == "RestartTask" and happening.task:
            return Action(name, happening.event, happening.message, tuple(members.kept[happening.task]))
        if name == "RestartPod" and happening.task:
            restarted = (happening.pod,) if happening.pod is not None else ()
            return Action(name, happening.event, happening.message, restarted)
    return None


def not_built(job: Job) -> list[str]:
    """Say which policies of a job are passed over here."""
    policies = [("spec.policies", policy) for policy in job.spec.policies]
    policies += [(f"spec.tasks[{task.name}].policies", each) for task in job.spec.tasks for each in task.policies]
    return [f"{path}: {what}" for path, policy in policies for what in _passed_over(policy)]


def _passed_over(policy: JobPolicy) -> Iterator[str]:
    if policy.exit_code is not None:
        yield f"exitCode {policy.exit_code}"
    if policy.action not in _OF_JOBS | _OF_TASKS:
        yield f"action {policy.action}"
    for event in events_of(policy):
        if event not in _BUILT and event != "*":
            yield f"event {event}"
        if event == "Unknown" and policy.action in _OF_TASKS:
            yield f"action {policy.action} for the event Unknown, which is about no task"


def _happenings(job: Job, members: Members, group: PodGroup | None) -> Iterator[_Happening]:
    for task in job.spec.tasks:
        for pod in members.kept[task.name]:
            if pod.status.phase == "Failed":
                yield _Happening("PodFailed", f"pod {pod.metadata.name} has failed", task.name, pod)
    tally = members.tally
    if _staying(tally) < _staying(job.status):
        for name in members.short_of():
            yield _Happening("PodEvicted", f"a pod of task {name} was evicted", name)
    for task in job.spec.tasks:
        if 0 < task.replicas <= tally.succeeded_of[task.name]:
            yield _Happening("TaskCompleted", f"task {task.name} is completed", task.name)
    if group is not None and group.status.phase == "Unknown":
        yield _Happening("Unknown", "some pods run and others find no place")


def _staying(counts: Tally | JobStatus) -> int:
    """Add up the pods that are not being deleted."""
    return counts.pending + counts.running + counts.succeeded + counts.failed + counts.unknown


def _called_for(job: Job, happening: _Happening) -> str:
    of_task: Iterable[JobPolicy] = ()
    if happening.task:
        of_task = next(task for task in job.spec.tasks if task.name == happening.task).policies
    for policy in (*of_task, *job.spec.policies):
        if {happening.event, "*"} & set(events_of(policy)):
            return policy.action
    return ""
