"""Jobs are filled in and refused as Volcano's admission does it."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.job_admission import events_of, find_problems, with_defaults
from kframework_batch.controllers.job_pods import pod_name
from kframework_batch.objects import DependsOn, Job, JobPolicy, JobSpec, NetworkTopology, PartitionPolicy, TaskSpec
from kframework_batch.pod_templates import PodTemplateSpec, template_spec
from msgspec.structs import replace

from kframework.objects import ObjectMeta
from kframework.testing import make_pod


def task(name: str = "", replicas: int = 1, least: int | None = None, *policies: JobPolicy) -> TaskSpec:
    return TaskSpec(name=name, replicas=replicas, min_available=least, policies=policies)


def job(*tasks: TaskSpec, **spec: object) -> Job:
    return Job(metadata=ObjectMeta(name="j", namespace="default"), spec=replace(JobSpec(tasks=tasks), **spec))


def divided(subject: TaskSpec, total: int, size: int, least: int = 0) -> Job:
    policy = PartitionPolicy(total_partitions=total, partition_size=size, min_partitions=least)
    return job(replace(subject, partition_policy=policy))


@pytest.mark.parametrize(("least", "filled"), [(0, 6), (2, 4)])
def test_default_min_available_of_task_follows_its_partitions(least: int, filled: int) -> None:
    subject = with_defaults(divided(task("a", 6), 3, 2, least), "volcano")
    assert (subject.spec.tasks[0].min_available, subject.spec.min_available) == (filled, filled)
    assert find_problems(subject) == ""


def test_missing_fields_have_defaults() -> None:
    spec = with_defaults(job(task(replicas=3), task("b", 2, 1), max_retry=0), "volcano").spec
    assert [(each.name, each.min_available) for each in spec.tasks] == [("default0", 3), ("b", 1)]
    assert (spec.min_available, spec.max_retry, spec.queue, spec.scheduler_name) == (4, 3, "default", "volcano")


def test_minimum_has_one_value_besides_the_default() -> None:
    metadata = ObjectMeta(name="j", namespace="default", annotations={"kframework.dev/minimum": "least"})
    subject = replace(job(task("a")), metadata=metadata)
    assert find_problems(subject) == "annotation kframework.dev/minimum is 'least', valid is smallest"


def test_default_queue_can_be_changed() -> None:
    assert with_defaults(job(task()), "volcano", "q").spec.queue == "q"
    assert with_defaults(job(task(), queue="r"), "volcano", "q").spec.queue == "r"


def test_given_fields_are_unchanged() -> None:
    said = job(task("a", 3, 2), queue="q", min_available=1, max_retry=9, scheduler_name="s")
    assert with_defaults(said, "volcano") == said


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        (job(), "No task specified in job spec"),
        (job(task("a", -1)), "'replicas' must be >= 0 in task: a"),
        (job(task("a", 1, -1)), "'minAvailable' must be >= 0 in task: a"),
        (job(task("a", 1, 2)), "'minAvailable' is greater than 'replicas' in task: a"),
        (job(task("a"), task("b"), task("a")), "duplicated task name a"),
        (job(task(), task("default0")), "duplicated task name default0"),
        (job(task("a", 2), min_available=3), "job 'minAvailable' should not be greater than total replicas in tasks"),
        (job(task("a"), min_available=-1), "job 'minAvailable' must be >= 0"),
        (job(task("a"), min_success=0), "job 'minSuccess' must be >= 1"),
        (job(task("a"), ttl_seconds_after_finished=-5), "job 'ttlSecondsAfterFinished' must be >= 0"),
        (job(task("a"), max_retry=-1), "job 'maxRetry' must be >= 0"),
        (divided(task("a", 4), 0, 2), "'TotalPartitions' must be greater than 0 in task: a"),
        (divided(task("a", 4), 2, 0), "'PartitionSize' must be greater than 0 in task: a"),
        (divided(task("a", 4), 3, 2), "'Replicas' are not equal to TotalPartitions*PartitionSize in task: a"),
        (divided(task("a", 4, 3), 2, 2, 1), "'MinAvailable' is not equal to MinPartitions*PartitionSize in task: a"),
        (
            job(task("a"), network_topology=NetworkTopology(highest_tier_allowed=1, highest_tier_name="rack")),
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        ),
        (job(task("A")), "'j-A-0' is no name for a pod"),
        (job(task("a" * 60)), "is no name for a pod"),
        (job(task("a" * 59, 11)), "is no name for a pod"),
        (job(task("a", 1, None, JobPolicy(action="RestartJob"))), "spec.tasks[a].policies: either event or exitCode"),
        (
            job(task("a"), policies=(JobPolicy(event="PodFailed", action="Dance"),)),
            "spec.policies: invalid policy action 'Dance'",
        ),
        (job(task("a"), policies=(JobPolicy(event="Rain", action="AbortJob"),)), "invalid policy event 'Rain'"),
        (job(task("a"), policies=(JobPolicy(event="PodRunning", action="AbortJob"),)), "invalid policy event"),
        (
            job(task("a"), policies=(JobPolicy(event="PodFailed", exit_code=3, action="AbortJob"),)),
            "must not specify event and exitCode simultaneously",
        ),
        (
            job(
                task("a"),
                policies=(
                    JobPolicy(event="PodFailed", action="AbortJob"),
                    JobPolicy(events=("Unknown", "PodFailed"), action="RestartJob"),
                ),
            ),
            "duplicate event PodFailed across different policies",
        ),
        (
            job(task("a"), policies=(JobPolicy(events=("*", "PodFailed"), action="AbortJob"),)),
            "beside the event * there can be no other",
        ),
        (
            job(task("a"), policies=(JobPolicy(exit_code=0, action="AbortJob"),)),
            "0 is not a valid error code",
        ),
        (
            job(task("a"), policies=tuple(JobPolicy(exit_code=3, action=each) for each in ("AbortJob", "RestartJob"))),
            "duplicate exitCode 3",
        ),
        (
            job(task("a"), policies=(JobPolicy(event="PodFailed", action="AbortJob", timeout="soon"),)),
            "spec.policies: timeout:",
        ),
        (
            job(
                replace(task("a"), depends_on=DependsOn(name=("b",))),
                replace(task("b"), depends_on=DependsOn(name=("a",))),
            ),
            "doesn't form a directed acyclic graph(DAG)",
        ),
        (job(task("a"), plugins={"svc": (), "svcs": ()}), "unable to find job plugin: svcs"),
        (
            job(replace(task("a"), template=PodTemplateSpec(spec=template_spec(make_pod(memory="lots").spec)))),
            "'lots' is not a quantity",
        ),
    ],
)
def test_invalid_job_is_rejected_with_its_problem(subject: Job, complaint: str) -> None:
    assert complaint in find_problems(with_defaults(subject, "volcano"))


@pytest.mark.parametrize(
    "subject",
    [
        job(task("a", 0)),
        job(task("a", 2, 0), task("b")),
        job(task("a" * 59, 10), task("b", 11)),
        job(task("a"), policies=(JobPolicy(event="*", action="RestartJob"), JobPolicy(exit_code=3, action="AbortJob"))),
        job(task("a", 1, None, JobPolicy(event="PodFailed", action="RestartPod")), task("b")),
    ],
)
def test_valid_job_is_accepted(subject: Job) -> None:
    assert find_problems(with_defaults(subject, "volcano")) == ""


def test_all_problems_are_reported_at_once() -> None:
    wrong = find_problems(with_defaults(job(task("a", 1, 2), min_available=5), "volcano"))
    assert wrong == (
        "'minAvailable' is greater than 'replicas' in task: a; "
        "job 'minAvailable' should not be greater than total replicas in tasks"
    )


def test_event_may_be_repeated_within_one_policy() -> None:
    assert events_of(JobPolicy(event="PodFailed", events=("Unknown", "PodFailed"))) == ["Unknown", "PodFailed"]
    assert events_of(JobPolicy(exit_code=3)) == []


def test_pod_name_has_job_task_and_index() -> None:
    assert pod_name(job(), task("worker"), 7) == "j-worker-7"
