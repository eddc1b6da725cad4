"""Commands (bus.volcano.sh): what they are about, and what they have jobs and queues do.

A command is deleted once it is carried out. Carried out again, as after a crash between the two, it would change
nothing: the job is in the phase into which it was ordered, the queue in the state.
"""

from __future__ import annotations

from enum import Enum

from kframework_batch.controllers.job_phases import ALIVE
from kframework_batch.controllers.job_policies import OF_JOBS, Action
from kframework_batch.objects import Command, Job

_JOB = ("batch.volcano.sh/v1alpha1", "Job")
_QUEUE = ("scheduling.volcano.sh/v1beta1", "Queue")

#: The state that each command about a queue brings it into.
_STATES = {"OpenQueue": "Open", "CloseQueue": "Closing"}


class Answer(Enum):
    """What a job has to a command that begins no action now."""

    LATER = "once it has restarted"
    NOTHING = "nothing"


def job_of(command: Command) -> str | None:
    """Name the job that a command is about, as namespace/name; None if it is about something else."""
    target = command.target
    if target is None or (target.api_version, target.kind) != _JOB:
        return None
    return f"{command.metadata.namespace}/{target.name}"


def queue_of(command: Command) -> str | None:
    """Name the queue that a command is about; None if it is about something else."""
    target = command.target
    return target.name if target is not None and (target.api_version, target.kind) == _QUEUE else None


def ordered(job: Job, command: Command) -> Action | Answer:
    """Return the action that a command has a job begin.

    Only a job that was aborted can be resumed. One that restarts does so first, where Volcano forgets the command.
    """
    phase, name = job.status.state.phase, command.action
    if command.target is not None and command.target.uid not in ("", job.metadata.uid):
        return Answer.NOTHING  # one of the same name, before this one
    if phase == "Restarting" and name in OF_JOBS - {"RestartJob"}:
        return Answer.LATER
    if (phase in ALIVE and name in OF_JOBS) or (phase in ("Aborting", "Aborted") and name == "ResumeJob"):
        return Action(name, "CommandIssued", command.message or f"command {command.metadata.name} was issued")
    return Answer.NOTHING


def state_ordered(command: Command) -> str:
    """Return the state into which a command brings a queue, "" if it does nothing."""
    return _STATES.get(command.action, "")
