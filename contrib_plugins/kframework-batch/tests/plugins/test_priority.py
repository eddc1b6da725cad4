"""priority: who is more important, and who starves."""

from __future__ import annotations

from typing import cast

import pytest
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import compile_subgroups
from kframework_batch.objects import SubGroupPolicy
from kframework_batch.plugin import BatchArguments
from kframework_batch.plugins.priority import Priority
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

PLUGIN = Priority(BatchArguments())
SESSION = cast("Session", None)


def job(name: str, priority: int, *priorities: int, queue: str = "default") -> JobInfo:
    """Make a job with a running task of each of these priorities."""
    made = JobInfo("default", name)
    made.priority, made.queue = priority, queue
    for n, each in enumerate(priorities):
        pod = make_pod(f"{name}-{n}", priority=each, node_name="n1")
        made.add(TaskInfo(made, PodInfo(pod, TemplateInterner()), pod, TaskStatus.RUNNING))
    return made


def tasks(*jobs: JobInfo) -> list[TaskInfo]:
    return [task for each in jobs for task in each.tasks.values()]


def test_job_and_task_of_higher_priority_go_first() -> None:
    low, high = job("low", 1, 0, 5), job("high", 2)
    assert PLUGIN.job_order(SESSION, high) < PLUGIN.job_order(SESSION, low)  # type: ignore[operator]  # keys of one hook compare
    less, more = tasks(low)
    assert PLUGIN.task_order(SESSION, more) < PLUGIN.task_order(SESSION, less)  # type: ignore[operator]  # as above


def test_subgroup_with_task_of_highest_priority_goes_first() -> None:
    made = job("j", 0)
    made.set_subgroups(compile_subgroups((SubGroupPolicy(name="w", match_label_keys=("part",)),)))
    for n, (part, priority) in enumerate((("x", 1), ("y", 0), ("y", 7))):
        pod = make_pod(f"j-{n}", labels={"part": part}, priority=priority)
        made.add(TaskInfo(made, PodInfo(pod, TemplateInterner()), pod, TaskStatus.PENDING))
    x, y = made.subjobs.values()
    assert PLUGIN.subjob_order(SESSION, y) < PLUGIN.subjob_order(SESSION, x)  # type: ignore[operator]  # as above


def test_job_priority_decides_between_jobs() -> None:
    preemptor = tasks(job("mine", 5, 0))[0]
    jobs = [job("lower", 4, 9), job("equal", 5, -9), job("higher", 6, -9)]
    named = PLUGIN.preemptable(SESSION, preemptor, tasks(*jobs))
    assert named is not None
    assert [task.name for task in named] == ["lower-0"]


def test_task_priority_decides_within_a_job() -> None:
    mine = job("mine", 5, 1, 2, 3)
    named = PLUGIN.preemptable(SESSION, tasks(mine)[1], tasks(mine))
    assert named is not None
    assert [task.name for task in named] == ["mine-0"]


def test_priority_does_not_affect_other_queues() -> None:
    assert not hasattr(PLUGIN, "reclaimable")


@pytest.mark.parametrize(
    ("statuses", "starving"),
    [
        ([TaskStatus.RUNNING, TaskStatus.BINDING, TaskStatus.SUCCEEDED], False),
        ([TaskStatus.RUNNING, TaskStatus.PIPELINED], False),
        ([TaskStatus.RUNNING, TaskStatus.PENDING], True),
        ([TaskStatus.RUNNING, TaskStatus.RELEASING], True),
        ([], False),
    ],
)
def test_job_is_starving_while_a_task_has_no_room(statuses: list[TaskStatus], starving: bool) -> None:
    made = job("a", 0, *[0] * len(statuses))
    for task, status in zip(tasks(made), statuses, strict=True):
        made.update_status(task, status)
    assert PLUGIN.job_starving(SESSION, made) is starving
