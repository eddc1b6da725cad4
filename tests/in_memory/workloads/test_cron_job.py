"""A cron job makes jobs when they are due, beside each other or not, and keeps some of the past."""

from __future__ import annotations

import asyncio
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import CronJob, CronJobSpec, Job, JobTemplate, ObjectMeta, Pod
from tests.in_memory.workloads.workload_cluster import run_controllers, template

#: Read once, and here: to read the file of a zone for the first time blocks.
ZONES = [ZoneInfo(name) for name in ("Asia/Tokyo", "Europe/Berlin")]


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def cron_job(runs: float, code: int = 0, **spec: Any) -> CronJob:
    annotations = {"kframework.dev/run-seconds": str(runs), "kframework.dev/exit-code": str(code)}
    pod = {"metadata": {"annotations": annotations}, "spec": template().spec | {"restartPolicy": "Never"}}
    job = JobTemplate(metadata=ObjectMeta(labels={"a": "b"}), spec={"backoffLimit": 0, "template": pod})
    made = CronJobSpec(**{"schedule": "*/5 * * * *", "job_template": job, **spec})
    return CronJob(metadata=ObjectMeta(name="tick", namespace="default"), spec=made)


def minutes(memory: MemoryCluster) -> list[int]:
    """List the minutes for which there are jobs."""
    return sorted(int(job.metadata.name.rpartition("-")[2]) - 1767225600 // 60 for job in memory.objects(Job))


@pytest.mark.parametrize(
    ("runs", "spec", "at", "active"),
    [
        pytest.param(30, {}, [5, 10], 1, id="one after the other"),
        pytest.param(400, {}, [5, 10], 2, id="beside each other"),
        pytest.param(400, {"concurrency_policy": "Forbid"}, [5], 1, id="not beside each other"),
        pytest.param(400, {"concurrency_policy": "Replace"}, [10], 1, id="in the place of each other"),
        pytest.param(30, {"suspend": True}, [], 0, id="suspended"),
        pytest.param(30, {"schedule": "every now and then"}, [], 0, id="no schedule"),
        pytest.param(30, {"schedule": "6 1 * * *", "time_zone": "Europe/Berlin"}, [6], 0, id="in a time zone"),
        pytest.param(30, {"schedule": "* * * * *", "successful_jobs_history_limit": 1}, [9, 10], 1, id="short history"),
    ],
)
async def test_jobs_are_created_when_due(runs: float, spec: dict[str, Any], at: list[int], active: int) -> None:
    async with run_controllers(cron_job(runs, **spec)) as memory:
        await asyncio.sleep(10 * 60 + 5)
        assert minutes(memory) == at
        assert len(memory.read(CronJob, "tick").status.active) == active


async def test_job_has_its_scheduled_time_and_owner() -> None:
    async with run_controllers(cron_job(30, schedule="7 9 * * *", time_zone="Asia/Tokyo")) as memory:
        await asyncio.sleep(8 * 60)
        (job,) = memory.objects(Job)
        due = {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T09:07:00+09:00"}
        assert (job.metadata.labels, job.metadata.annotations) == ({"a": "b"}, due)
        assert [each.kind for each in job.metadata.owner_references] == ["CronJob"]
        status = memory.read(CronJob, "tick").status
        assert status.last_schedule_time == "2026-01-01T00:07:00Z"
        assert status.last_successful_time == job.status.completion_time is not None
        assert status.active == ()


async def test_failed_jobs_have_their_own_history() -> None:
    async with run_controllers(cron_job(1, code=1, schedule="* * * * *", failed_jobs_history_limit=2)) as memory:
        await asyncio.sleep(6 * 60 + 30)
        assert minutes(memory) == [5, 6]
        assert memory.read(CronJob, "tick").status.last_successful_time is None


@pytest.mark.parametrize(("deadline", "made"), [(None, [5]), (600, [5]), (60, [])])
async def test_missed_job_is_created_before_its_deadline(deadline: int | None, made: list[int]) -> None:
    async with run_controllers(cron_job(30, suspend=True, starting_deadline_seconds=deadline)) as memory:
        await asyncio.sleep(8 * 60)
        memory.merge(CronJob, "tick", {"spec": {"suspend": False}})
        await asyncio.sleep(5)
        assert minutes(memory) == made


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 1)])
async def test_jobs_and_pods_are_deleted_with_their_owner_unless_orphaned(policy: str, left: int) -> None:
    async with run_controllers(cron_job(1000)) as memory:
        await asyncio.sleep(6 * 60)
        memory.remove(CronJob, "tick", policy=policy)
        await asyncio.sleep(40)
        actual = [len(memory.objects(kind)) for kind in (CronJob, Job, Pod)]
        assert actual == [0, left, left]


async def test_controller_can_be_disabled() -> None:
    async with run_controllers(cron_job(1), controllers=["*", "-cronjob"]) as memory:
        await asyncio.sleep(10 * 60)
        assert memory.objects(Job) == []
