"""What has happened is read off what there is, and policies say what is done about it."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.job_admission import admitted
from kframework_batch.controllers.job_members import RESTARTED_BY, VERSION, Members
from kframework_batch.controllers.job_policies import due, not_built
from kframework_batch.objects import Job, JobPolicy, JobSpec, JobStatus, PodGroup, PodGroupStatus, TaskSpec
from msgspec.structs import replace

from kframework.objects import ObjectMeta, Pod
from kframework.testing import make_pod

A = TaskSpec(name="a", replicas=2)
B = TaskSpec(name="b", replicas=1)


def policy(action: str, *events: str) -> JobPolicy:
    return JobPolicy(events=events, action=action)


def job(*policies: JobPolicy, a: TaskSpec = A, **status: int) -> Job:
    spec = JobSpec(tasks=(a, B), policies=policies)
    return admitted(Job(metadata=ObjectMeta(name="j"), spec=spec, status=replace(JobStatus(), **status)), "volcano")


def pod(name: str, phase: str = "Running", *, version: int = 0, mark: int | None = None, going: bool = False) -> Pod:
    annotations = {VERSION: str(version)} | ({} if mark is None else {RESTARTED_BY: str(mark)})
    made = make_pod(name, annotations=annotations, deletion_timestamp="2026-01-01T00:00:30Z" if going else None)
    return replace(made, status=replace(made.status, phase=phase))


ALL = (pod("j-a-0"), pod("j-a-1"), pod("j-b-0"))


def action(subject: Job, *pods: Pod, group: str = "Running") -> str:
    found = due(subject, Members(subject, pods), PodGroup(status=PodGroupStatus(phase=group)))
    if found is None:
        return ""
    return " ".join([found.name, found.event, *(each.metadata.name for each in found.restarted)])


@pytest.mark.parametrize(
    ("subject", "pods", "expected"),
    [
        (job(), ALL, ""),
        (job(policy("RestartJob", "*"), running=3), ALL, ""),
        (job(policy("RestartJob", "PodFailed")), (pod("j-a-0", "Failed"),), "RestartJob PodFailed"),
        (job(policy("RestartJob", "PodEvicted")), (pod("j-a-0", "Failed"),), ""),
        (job(policy("RestartJob", "*")), (pod("j-a-0", "Failed"),), "RestartJob PodFailed"),
        (job(policy("AbortJob", "PodFailed")), (pod("j-x-0", "Failed"),), ""),
        # Pods of a version before, or of a restart that is counted, have had their effect.
        (job(policy("AbortJob", "PodFailed"), version=1), (pod("j-a-0", "Failed"),), ""),
        (job(policy("AbortJob", "PodFailed"), retry_count=1), (pod("j-a-0", "Failed", mark=1),), ""),
        (job(policy("AbortJob", "PodFailed")), (pod("j-a-0", "Failed", mark=1),), "AbortJob PodFailed"),
        # One is evicted if there are fewer than were counted, unless the job wants no more.
        (job(policy("TerminateJob", "PodEvicted"), running=3), ALL[:2], "TerminateJob PodEvicted"),
        (job(policy("TerminateJob", "PodEvicted"), running=2), ALL[:2], ""),
        (job(policy("TerminateJob", "PodEvicted"), running=2, pending=1), ALL[1:], "TerminateJob PodEvicted"),
        (
            job(policy("TerminateJob", "PodEvicted"), running=3),
            (pod("j-a-0", going=True), *ALL[1:]),
            "TerminateJob PodEvicted",
        ),
        (job(policy("TerminateJob", "PodEvicted"), a=replace(A, replicas=1), running=3), (ALL[0], ALL[2]), ""),
        (job(policy("TerminateJob", "PodEvicted"), a=replace(A, replicas=5), running=3), ALL, ""),
        (job(policy("CompleteJob", "TaskCompleted")), (pod("j-a-0", "Succeeded"), ALL[1]), ""),
        (
            job(policy("CompleteJob", "TaskCompleted")),
            (pod("j-a-0", "Succeeded"), pod("j-a-1", "Succeeded")),
            "CompleteJob TaskCompleted",
        ),
        (job(policy("CompleteJob", "TaskCompleted"), a=replace(A, replicas=0)), ALL[2:], ""),
        # A task's own policies come first, and are about its own pods only.
        (
            job(policy("AbortJob", "PodFailed"), a=replace(A, policies=(policy("RestartPod", "PodFailed"),))),
            (ALL[0], pod("j-a-1", "Failed")),
            "RestartPod PodFailed j-a-1",
        ),
        (
            job(policy("AbortJob", "PodFailed"), a=replace(A, policies=(policy("RestartPod", "PodFailed"),))),
            (*ALL[:2], pod("j-b-0", "Failed")),
            "AbortJob PodFailed",
        ),
        (
            job(policy("RestartTask", "PodFailed")),
            (ALL[0], pod("j-a-1", "Failed"), ALL[2]),
            "RestartTask PodFailed j-a-0 j-a-1",
        ),
        (job(policy("RestartTask", "PodEvicted"), running=3), ALL[1:], "RestartTask PodEvicted j-a-1"),
        (job(policy("RestartPod", "PodEvicted"), running=3), ALL[1:], "RestartPod PodEvicted"),
        # What is not built is passed over, and the next event is asked about.
        (
            job(policy("ResumeJob", "PodFailed"), policy("AbortJob", "TaskCompleted")),
            (pod("j-a-0", "Failed"), pod("j-b-0", "Succeeded")),
            "AbortJob TaskCompleted",
        ),
    ],
)
def test_what_is_to_be_done(subject: Job, pods: tuple[Pod, ...], expected: str) -> None:
    assert action(subject, *pods) == expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (job(policy("RestartJob", "Unknown")), "RestartJob Unknown"),
        (job(policy("RestartJob", "*")), "RestartJob Unknown"),
        (job(policy("RestartTask", "Unknown")), ""),
        (job(a=replace(A, policies=(policy("AbortJob", "Unknown"),))), ""),
    ],
)
def test_a_gang_that_is_broken_is_an_event_of_the_job(subject: Job, expected: str) -> None:
    assert action(subject, *ALL, group="Unknown") == expected
    assert due(subject, Members(subject, ALL), None) is None


def test_what_is_not_built_is_named() -> None:
    subject = job(
        policy("RestartPartition", "PodFailed"),
        JobPolicy(exit_code=3, action="AbortJob"),
        policy("RestartTask", "Unknown"),
        policy("AbortJob", "PodPending", "PodEvicted"),
        a=replace(A, policies=(policy("RestartJob", "TaskFailed"), policy("RestartPod", "*"))),
    )
    assert not_built(subject) == [
        "spec.policies: action RestartPartition",
        "spec.policies: exitCode 3",
        "spec.policies: action RestartTask for the event Unknown, which is about no task",
        "spec.policies: event PodPending",
        "spec.tasks[a].policies: event TaskFailed",
    ]
