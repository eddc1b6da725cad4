"""What commands are about, and what they do where."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.job_phases import NoAction, commanded_action, commanded_job
from kframework_batch.controllers.job_policies import JobAction
from kframework_batch.controllers.queues import QueueController
from kframework_batch.objects import Command, Job, JobState, JobStatus
from msgspec.structs import replace

from kframework.clock import SystemClock
from kframework.engine import MemoryCluster
from kframework.objects import ObjectMeta, OwnerReference

JOB, QUEUE = "batch.volcano.sh/v1alpha1 Job", "scheduling.volcano.sh/v1beta1 Queue"


def command(action: str, target: str = JOB, name: str = "j", uid: str = "") -> Command:
    api_version, kind = target.split()
    owner = OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid)
    return Command(metadata=ObjectMeta(name="c", namespace="ns"), action=action, target=owner)


@pytest.mark.parametrize(
    ("issued", "job", "queue"),
    [
        (command("AbortJob"), "ns/j", None),
        (command("CloseQueue", QUEUE, "q"), None, "q"),
        (command("AbortJob", "batch/v1 Job"), None, None),
        (command("AbortJob", "v1 Pod"), None, None),
        (replace(command("AbortJob"), target=None), None, None),
    ],
)
def test_command_targets_a_job_or_a_queue(issued: Command, job: str | None, queue: str | None) -> None:
    clock = SystemClock()
    queues = QueueController(MemoryCluster(clock), clock).subjects(issued)
    assert (commanded_job(issued), next(iter(queues), None)) == (job, queue)


@pytest.mark.parametrize(
    ("phase", "action", "expected"),
    [
        ("", "AbortJob", "AbortJob"),
        ("Pending", "TerminateJob", "TerminateJob"),
        ("Running", "RestartJob", "RestartJob"),
        ("Running", "CompleteJob", "CompleteJob"),
        ("Running", "ResumeJob", "nothing"),
        ("Running", "SyncJob", "nothing"),
        ("Running", "RestartTask", "nothing"),  # of which task, no command can say
        ("Running", "Nonsense", "nothing"),
        ("Restarting", "AbortJob", "later"),
        ("Restarting", "RestartJob", "nothing"),
        ("Restarting", "ResumeJob", "nothing"),
        ("Aborting", "AbortJob", "nothing"),
        ("Aborting", "ResumeJob", "ResumeJob"),
        ("Aborted", "ResumeJob", "ResumeJob"),
        ("Aborted", "RestartJob", "nothing"),
        ("Terminated", "ResumeJob", "nothing"),
        ("Completed", "RestartJob", "nothing"),
        ("Failed", "ResumeJob", "nothing"),
    ],
)
def test_action_of_a_command_depends_on_the_phase(phase: str, action: str, expected: str) -> None:
    job = Job(metadata=ObjectMeta(name="j", uid="u"), status=JobStatus(state=JobState(phase=phase)))
    found = commanded_action(job, command(action))
    names = {NoAction.LATER: "later", NoAction.NOTHING: "nothing"}
    assert (found.name if isinstance(found, JobAction) else names[found]) == expected


def test_command_for_earlier_job_of_the_same_name_is_ignored() -> None:
    job = Job(metadata=ObjectMeta(name="j", uid="u"), status=JobStatus(state=JobState(phase="Running")))
    assert commanded_action(job, command("AbortJob", uid="before")) is NoAction.NOTHING
    assert commanded_action(job, command("AbortJob", uid="u")) == JobAction(
        "AbortJob", "CommandIssued", "command c was issued"
    )
    why = replace(command("AbortJob"), message="night")
    assert commanded_action(job, why) == JobAction("AbortJob", "CommandIssued", "night")
