"""The phases of a job: which one follows, with the rules of Volcano's states, and what commands order.

A command (bus.volcano.sh) is deleted after it is carried out. A crash in between does no harm: it is idempotent.
"""

from __future__ import annotations

from enum import Enum

from msgspec.structs import replace

from kframework_batch.controllers.job_pods import ENDED, ENDING, PodPhaseCounts
from kframework_batch.controllers.job_policies import JOB_ACTIONS, JobAction
from kframework_batch.objects import Command, Job, JobState, JobStatus

#: Phases in which a job has pods made and its policies followed; the first is that of a new job.
ALIVE: tuple[str, ...] = ("", "Pending", "Running")
#: The reason of a job's state when it cannot be understood.
INVALID = "InvalidJob"

_PHASE_OF_ACTION = {
    "RestartJob": "Restarting",
    "RestartTask": "Restarting",
    "RestartPod": "Restarting",
    "RestartPartition": "Restarting",
    "AbortJob": "Aborting",
    "CompleteJob": "Completing",
    "TerminateJob": "Terminating",
    "ResumeJob": "Restarting",
}
_WHOLE_JOB_ACTIONS = ("RestartJob", "AbortJob", "CompleteJob", "TerminateJob", "ResumeJob")


def status_after_action(job: Job, action: JobAction, now: str) -> JobStatus:
    """Return the status with which an action begins.

    A job that is killed as a whole gets another version, which distinguishes its old pods from its new ones. With its
    last restart it has failed instead, so that completed pods stay for inspection.
    """
    status, phase, message = job.status, _PHASE_OF_ACTION[action.name], f"{action.message}: {action.name}"
    retry_count = status.retry_count + (phase == "Restarting")
    if phase == "Restarting" and retry_count >= job.spec.max_retry:
        phase, message = "Failed", f"{message}, but maxRetry is {job.spec.max_retry}"
    return replace(
        status,
        state=JobState(phase=phase, reason=action.event, message=message, last_transition_time=now),
        version=status.version + (action.name in _WHOLE_JOB_ACTIONS),
        retry_count=retry_count,
    )


def updated_status(job: Job, tally: PodPhaseCounts, now: str) -> JobStatus:
    phase = _next_phase(job, tally)
    state = job.status.state
    if phase != state.phase:
        why = state if state.phase in ENDING else JobState()  # why it ends is still known when it has
        state = replace(why, phase=phase, last_transition_time=now)
    elif state.reason == INVALID:
        state = replace(state, reason="", message="")
    return replace(
        job.status,
        state=state,
        min_available=job.spec.min_available,
        pending=tally.pending,
        running=tally.running,
        succeeded=tally.succeeded,
        failed=tally.failed,
        unknown=tally.unknown,
        terminating=tally.terminating,
    )


def invalid_status(status: JobStatus, message: str, now: str) -> JobStatus:
    """Return the status of a job that cannot be understood: a new one has failed, any other stays where it was."""
    state = status.state
    if state.phase:
        return replace(status, state=replace(state, reason=INVALID, message=message))
    return replace(status, state=JobState(phase="Failed", reason=INVALID, message=message, last_transition_time=now))


def _next_phase(job: Job, tally: PodPhaseCounts) -> str:
    phase, spec = job.status.state.phase, job.spec
    replicas = sum(task.replicas for task in spec.tasks)
    if phase in ENDED:
        return phase
    if phase in ENDING:
        return phase if tally.terminating else ENDING[phase]
    if phase == "Restarting":
        return "Pending" if replicas - tally.terminating >= spec.min_available else phase
    if phase != "Running":
        return "Running" if spec.min_available <= tally.running + tally.succeeded + tally.failed else "Pending"
    if replicas == 0:
        return "Running"  # it was scaled to nothing, and may be scaled up again
    if spec.min_success is not None and tally.succeeded >= spec.min_success:
        return "Completed"
    if tally.succeeded + tally.failed == replicas:
        enough = tally.succeeded >= spec.min_available and spec.min_success is None
        # That each task has succeeded often enough counts where the job is to have all their minimums.
        least = {task.name: task.min_available or 0 for task in spec.tasks}
        if spec.min_available >= sum(least.values()):
            enough = enough and all(tally.succeeded_of[name] >= minimum for name, minimum in least.items())
        return "Completed" if enough else "Failed"
    return "Pending" if tally.pending > replicas - spec.min_available else "Running"


#: What a command is about, if it is a job.
_JOB = ("batch.volcano.sh/v1alpha1", "Job")


class NoAction(Enum):
    """The response of a job to a command that begins no action now."""

    LATER = "once it has restarted"
    NOTHING = "nothing"


def commanded_job(command: Command) -> str | None:
    """Name the job that a command is about, as namespace/name; None if it is about something else."""
    target = command.target
    if target is None or (target.api_version, target.kind) != _JOB:
        return None
    return f"{command.metadata.namespace}/{target.name}"


def commanded_action(job: Job, command: Command) -> JobAction | NoAction:
    """Return the action that a command has a job begin.

    Only a job that was aborted can be resumed. One that restarts does so first, where Volcano forgets the command.
    """
    phase, name = job.status.state.phase, command.action
    if command.target is not None and command.target.uid not in ("", job.metadata.uid):
        return NoAction.NOTHING  # one of the same name, before this one
    if phase == "Restarting" and name in JOB_ACTIONS - {"RestartJob"}:
        return NoAction.LATER
    if (phase in ALIVE and name in JOB_ACTIONS) or (phase in ("Aborting", "Aborted") and name == "ResumeJob"):
        return JobAction(name, "CommandIssued", command.message or f"command {command.metadata.name} was issued")
    return NoAction.NOTHING
