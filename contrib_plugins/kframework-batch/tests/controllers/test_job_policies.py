"""What has happened is read off what there is, and policies say what is done about it."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.job_admission import with_defaults
from kframework_batch.controllers.job_pods import RESTARTED_BY, VERSION, VolcanoJobPods
from kframework_batch.controllers.job_policies import Timeouts, next_action, unsupported_policies
from kframework_batch.objects import (
    DependsOn,
    Job,
    JobPolicy,
    JobSpec,
    JobStatus,
    PartitionPolicy,
    PodGroup,
    PodGroupStatus,
    TaskSpec,
)
from msgspec.structs import replace

from kframework.objects import ContainerState, ContainerStateTerminated, ContainerStatus, ObjectMeta, Pod
from kframework.testing import make_pod

#: 2026-01-01T00:00:00Z.
NOW = 1767225600.0

A = TaskSpec(name="a", replicas=2)
B = TaskSpec(name="b", replicas=1)


def policy(action: str, *events: str) -> JobPolicy:
    return JobPolicy(events=events, action=action)


def job(*policies: JobPolicy, a: TaskSpec = A, **status: int) -> Job:
    spec = JobSpec(tasks=(a, B), policies=policies)
    return with_defaults(
        Job(metadata=ObjectMeta(name="j"), spec=spec, status=replace(JobStatus(), **status)), "volcano"
    )


def pod(name: str, phase: str = "Running", *, version: int = 0, mark: int | None = None, going: bool = False) -> Pod:
    annotations = {VERSION: str(version)} | ({} if mark is None else {RESTARTED_BY: str(mark)})
    made = make_pod(name, annotations=annotations, deletion_timestamp="2026-01-01T00:00:30Z" if going else None)
    return replace(made, status=replace(made.status, phase=phase))


ALL = (pod("j-a-0"), pod("j-a-1"), pod("j-b-0"))


def action(subject: Job, *pods: Pod, group: str = "Running") -> str:
    found = next_action(
        subject, VolcanoJobPods(subject, pods), PodGroup(status=PodGroupStatus(phase=group)), Timeouts(), NOW
    )
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
def test_action_of_an_event_follows_from_its_policy(subject: Job, pods: tuple[Pod, ...], expected: str) -> None:
    assert action(subject, *pods) == expected


def test_task_that_waits_for_dependencies_has_no_evicted_pods() -> None:
    waits = replace(B, depends_on=DependsOn(name=("a",)), policies=(policy("AbortJob", "PodEvicted"),))
    subject = job(running=2)
    subject = replace(subject, spec=replace(subject.spec, tasks=(subject.spec.tasks[0], waits)))
    assert action(subject, ALL[0]) == ""
    begun = replace(subject, status=replace(subject.status, running=3))
    assert action(begun, *ALL[:2]) == "AbortJob PodEvicted"


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (job(policy("RestartJob", "Unknown")), "RestartJob Unknown"),
        (job(policy("RestartJob", "*")), "RestartJob Unknown"),
        (job(policy("RestartTask", "Unknown")), ""),
        (job(a=replace(A, policies=(policy("AbortJob", "Unknown"),))), ""),
    ],
)
def test_broken_gang_is_an_event_of_the_job(subject: Job, expected: str) -> None:
    assert action(subject, *ALL, group="Unknown") == expected
    assert next_action(subject, VolcanoJobPods(subject, ALL), None, Timeouts(), NOW) is None


def test_unsupported_policies_are_named() -> None:
    subject = job(
        policy("ResumeJob", "PodFailed"),
        JobPolicy(exit_code=3, action="AbortJob"),
        policy("RestartTask", "Unknown"),
        policy("AbortJob", "PodPending", "PodEvicted"),
        a=replace(A, policies=(policy("RestartJob", "JobUpdated"), policy("RestartPod", "*"))),
    )
    assert unsupported_policies(subject) == [
        "spec.policies: action ResumeJob",
        "spec.policies: action RestartTask for the event Unknown, which is about no task",
        "spec.policies: event PodPending without a timeout",
        "spec.tasks[a].policies: event JobUpdated",
    ]


def ended(name: str, *codes: int | None) -> Pod:
    """Make a pod that has failed, whose containers ended with these codes."""
    states = (
        None if code is None else ContainerState(terminated=ContainerStateTerminated(exit_code=code)) for code in codes
    )
    failed = pod(name, "Failed")
    return replace(
        failed, status=replace(failed.status, container_statuses=tuple(ContainerStatus(state=each) for each in states))
    )


def on_code(code: int, action: str, timeout: str = "") -> JobPolicy:
    return JobPolicy(exit_code=code, action=action, timeout=timeout)


@pytest.mark.parametrize(
    ("policies", "codes", "expected"),
    [
        ((on_code(3, "RestartJob"),), (3,), "RestartJob PodFailed"),
        ((on_code(3, "RestartJob"),), (4,), ""),
        ((on_code(3, "RestartJob"),), (), ""),
        ((on_code(3, "RestartJob"),), (None,), ""),
        ((on_code(3, "RestartJob"),), (4, 3), ""),  # the first container counts
        ((on_code(3, "RestartPod"),), (3,), "RestartPod PodFailed j-a-0"),
        ((on_code(3, "RestartTask"),), (3,), "RestartTask PodFailed j-a-0 j-a-1"),
        ((on_code(3, "AbortJob"), on_code(4, "RestartJob")), (4,), "RestartJob PodFailed"),
        # The first that is about it decides, be it by the event or by the code.
        ((on_code(3, "AbortJob"), policy("RestartJob", "PodFailed")), (3,), "AbortJob PodFailed"),
        ((policy("RestartJob", "PodFailed"), on_code(3, "AbortJob")), (3,), "RestartJob PodFailed"),
    ],
)
def test_policy_matches_its_exit_code(
    policies: tuple[JobPolicy, ...], codes: tuple[int | None, ...], expected: str
) -> None:
    assert action(job(*policies), ended("j-a-0", *codes), *ALL[1:]) == expected
    of_task = replace(A, policies=policies)
    assert action(job(policy("TerminateJob", "PodEvicted"), a=of_task), ended("j-a-0", *codes), *ALL[1:]) == expected


def test_message_has_the_exit_code() -> None:
    subject = job(policy("AbortJob", "PodFailed"))
    for failed, message in ((ended("j-a-0", 3), " with exit code 3"), (ended("j-a-0"), "")):
        found = next_action(subject, VolcanoJobPods(subject, [failed]), None, Timeouts(), NOW)
        assert found is not None and found.message == f"pod j-a-0 has failed{message}"


def restarted(name: str, *counts: int, phase: str = "Running") -> Pod:
    made = pod(name, phase)
    statuses = tuple(ContainerStatus(restart_count=count) for count in counts)
    status = replace(made.status, container_statuses=statuses[:1], init_container_statuses=statuses[1:])
    return replace(made, status=status)


@pytest.mark.parametrize(
    ("most", "pods", "expected"),
    [
        (0, (restarted("j-a-0", 1), restarted("j-a-1", 1)), ""),
        (0, (restarted("j-a-0", 1), restarted("j-a-1", 2)), "RestartPod TaskFailed j-a-1"),
        (0, (restarted("j-a-0", 1, 2),), "RestartPod TaskFailed j-a-0"),
        (2, (restarted("j-a-0", 2, phase="Pending"),), "RestartPod TaskFailed j-a-0"),
        (2, (restarted("j-a-0", 2, phase="Succeeded"),), ""),
        (-1, (restarted("j-a-0", 99),), ""),
        (1, (restarted("j-b-0", 1),), ""),  # b is another task, with a limit of its own
    ],
)
def test_task_fails_when_containers_restart_too_often(most: int, pods: tuple[Pod, ...], expected: str) -> None:
    subject = job(policy("RestartPod", "TaskFailed"), a=replace(A, max_retry=most))
    assert action(subject, *pods) == expected


def timed(event: str, action: str = "RestartJob", timeout: str = "10s") -> JobPolicy:
    return JobPolicy(event=event, action=action, timeout=timeout)


def actions(subject: Job, *looks: tuple[float, tuple[Pod, ...]], running: int = 0) -> list[str]:
    """Look at a job some seconds after the start, with these pods; `running` were counted before the first look."""
    timeouts, found = Timeouts(), []
    subject = replace(subject, status=replace(subject.status, running=running))
    for second, pods in looks:
        members = VolcanoJobPods(subject, pods)
        action = next_action(subject, members, None, timeouts, NOW + second)
        found.append(f"in {timeouts.next_in:g}" if timeouts.next_in is not None else action.event if action else "")
        tally = members.counts
        counted = {"pending": tally.pending, "running": tally.running, "failed": tally.failed}
        subject = replace(subject, status=replace(subject.status, **counted))
    return found


def waiting(name: str, since: str = "2026-01-01T00:00:00Z") -> Pod:
    made = pod(name, "Pending")
    return replace(made, metadata=replace(made.metadata, creation_timestamp=since, uid=f"{name} {since}"))


FAILED = (pod("j-a-0", "Failed"), *ALL[1:])
AGAIN = "2026-01-01T00:00:05Z"


@pytest.mark.parametrize(
    ("subject", "looks", "running", "expected"),
    [
        # What failed is still so when the time is up, or is not.
        (job(timed("PodFailed")), ((3, FAILED), (12, FAILED), (13, FAILED)), 0, ["in 10", "in 1", "PodFailed"]),
        (job(timed("PodFailed")), ((3, FAILED), (9, ALL), (13, ALL)), 0, ["in 10", "", ""]),
        (job(timed("PodFailed")), ((3, FAILED), (9, ALL), (14, FAILED)), 0, ["in 10", "", "in 10"]),
        (job(timed("PodFailed", timeout="1m30s")), ((0, FAILED), (90, FAILED)), 0, ["in 90", "PodFailed"]),
        # A pod that was evicted counts until another runs in its place.
        (
            job(timed("PodEvicted")),
            ((0, ALL[1:]), (5, (waiting("j-a-0"), *ALL[1:])), (10, (waiting("j-a-0"), *ALL[1:]))),
            3,
            ["in 10", "in 5", "PodEvicted"],
        ),
        (job(timed("PodEvicted")), ((0, ALL[1:]), (5, ALL), (10, ALL)), 3, ["in 10", "", ""]),
        # Pending is what a pod has been since it was made.
        (
            job(timed("PodPending")),
            ((4, (waiting("j-a-0"),)), (10, (waiting("j-a-0"),))),
            0,
            ["in 6", "PodPending"],
        ),
        (
            job(timed("PodPending")),
            ((4, (waiting("j-a-0"),)), (8, (waiting("j-a-0", AGAIN),)), (15, (waiting("j-a-0", AGAIN),))),
            0,
            ["in 6", "in 7", "PodPending"],
        ),
        (job(timed("PodPending")), ((4, (waiting("j-a-0"),)), (10, ALL)), 0, ["in 6", ""]),
        (job(policy("RestartJob", "PodPending")), ((99, (waiting("j-a-0"),)),), 0, [""]),
        (job(policy("RestartJob", "*")), ((99, (waiting("j-a-0"),)),), 0, [""]),
        (job(timed("*")), ((10, (waiting("j-a-0"),)),), 0, ["PodPending"]),
        # One that has a timeout keeps none back that has not.
        (
            job(timed("PodFailed"), policy("CompleteJob", "TaskCompleted")),
            ((0, (*FAILED[:2], pod("j-b-0", "Succeeded"))),),
            0,
            ["TaskCompleted"],
        ),
        # The next to be up is waited for.
        (
            job(timed("PodFailed"), timed("PodPending", timeout="6s")),
            ((2, (FAILED[0], waiting("j-a-1"))), (6, (FAILED[0], waiting("j-a-1")))),
            0,
            ["in 4", "PodPending"],
        ),
    ],
)
def test_action_with_timeout_runs_if_its_event_still_holds(
    subject: Job, looks: tuple[tuple[float, tuple[Pod, ...]], ...], running: int, expected: list[str]
) -> None:
    assert actions(subject, *looks, running=running) == expected


def test_action_restarts_all_timeouts() -> None:
    subject = job(timed("PodFailed"))
    assert actions(subject, (0, FAILED), (10, FAILED), (11, FAILED)) == ["in 10", "PodFailed", "in 10"]


def in_partition(made: Pod, number: int) -> Pod:
    labels = {"volcano.sh/partition-id": str(number)}
    return replace(made, metadata=replace(made.metadata, labels=labels))


#: Two partitions of two pods.
PARTITIONS = tuple(in_partition(pod(f"j-a-{number}"), number // 2) for number in range(4))
ONE_FAILED = (*PARTITIONS[:3], in_partition(pod("j-a-3", "Failed"), 1), pod("j-b-0"))


@pytest.mark.parametrize(
    ("event", "pods", "divided", "expected"),
    [
        ("PodFailed", ONE_FAILED, True, "RestartPartition PodFailed j-a-2 j-a-3"),
        ("PodEvicted", (*PARTITIONS[:3], pod("j-b-0")), True, "RestartPartition PodEvicted j-a-2"),
        ("PodFailed", (*PARTITIONS, pod("j-b-0", "Failed")), True, "RestartPartition PodFailed"),
        ("PodFailed", ONE_FAILED, False, "RestartPartition PodFailed"),
    ],
)
def test_partition_is_restarted_as_a_whole(event: str, pods: tuple[Pod, ...], divided: bool, expected: str) -> None:
    partitions = PartitionPolicy(total_partitions=2, partition_size=2) if divided else None
    a = TaskSpec(name="a", replicas=4, partition_policy=partitions)
    subject = job(policy("RestartPartition", event), a=a, running=5)
    assert action(subject, *pods) == expected
    assert unsupported_policies(subject) == []
