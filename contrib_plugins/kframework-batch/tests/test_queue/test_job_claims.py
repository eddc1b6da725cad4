"""What jobs count for beside what their tasks hold."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.queue import elastic_resources, inqueue_resources, min_resources_of, remaining_inqueue_resources
from kframework_batch.resource import Resource
from kframework_batch.task_status import TaskStatus

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

RUNNING, PENDING, SUCCEEDED = TaskStatus.RUNNING, TaskStatus.PENDING, TaskStatus.SUCCEEDED
GATED = "gated"


def job_of(
    *tasks: TaskStatus | str, phase: str = "Inqueue", least: Mapping[str, int] | None = None, minimum: int = 0
) -> JobInfo:
    """Make a job whose tasks ask for 1000 milli-CPU each."""
    job = JobInfo("default", "j")
    job.phase, job.min_available = phase, minimum
    job.min_resources = None if least is None else Resource(least)
    for at, status in enumerate(tasks):
        gates = ["wait"] if status == GATED else []
        pod = make_pod(f"p{at}", cpu=1, memory=None, gates=gates)
        job.add(
            TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, status if isinstance(status, TaskStatus) else PENDING)
        )
    return job


def test_min_resources_are_those_of_the_group() -> None:
    assert min_resources_of(job_of(least={"cpu": 1, "nvidia.com/gpu": 2})) == {"cpu": 1, "nvidia.com/gpu": 2}
    assert min_resources_of(job_of()) == {}


@pytest.mark.parametrize(
    ("job", "claim"),
    [
        (job_of(least={"cpu": 3000}), {"cpu": 3000}),
        (job_of(), {}),
        (job_of(PENDING, GATED, least={"cpu": 3000}), {"cpu": 2000}),
        (job_of(GATED, GATED, least={"cpu": 1000, "memory": 5}), {"cpu": 0, "memory": 5}),
    ],
)
def test_inqueue_resources_exclude_gated_pods(job: JobInfo, claim: dict[str, int]) -> None:
    assert inqueue_resources(job) == claim


@pytest.mark.parametrize(
    ("job", "claim"),
    [
        (job_of(least={"cpu": 3000}), {"cpu": 3000}),
        (job_of(phase="Pending", least={"cpu": 3000}), {}),
        (job_of(phase="Unknown", least={"cpu": 3000}), {}),
        (job_of(RUNNING, PENDING, least={"cpu": 3000, "memory": 7}), {"cpu": 2000, "memory": 7}),
        (job_of(RUNNING, RUNNING, least={"cpu": 1500}), {}),
        (job_of(RUNNING, GATED, least={"cpu": 3000}), {"cpu": 1000}),
        (job_of(RUNNING, phase="Running", least={"cpu": 3000}, minimum=1), {"cpu": 2000}),
        (job_of(RUNNING, SUCCEEDED, phase="Running", least={"cpu": 3000}, minimum=2), {}),  # the driver has ended
    ],
)
def test_remaining_inqueue_resources_are_what_the_job_lacks(job: JobInfo, claim: dict[str, int]) -> None:
    assert remaining_inqueue_resources(job) == claim


def test_elastic_resources_are_those_beyond_the_minimum() -> None:
    assert elastic_resources(job_of(RUNNING, RUNNING, PENDING, least={"cpu": 500, "memory": 9})) == {
        "cpu": 1500,
        "memory": 0,
    }
    assert elastic_resources(job_of(RUNNING)) == {"cpu": 1000}
