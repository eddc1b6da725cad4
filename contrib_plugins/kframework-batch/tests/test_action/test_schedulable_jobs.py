"""Candidates: the jobs that were let in and are valid, their tasks in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kframework_batch.action import Action, pending_tasks, schedulable_jobs, starving_jobs
from kframework_batch.session import Session
from kframework_batch.testing import Stage, make_gang, make_node, make_queue, make_task

CONFIGURATION = """
actions: ask
tiers:
- plugins:
  - name: priority
  - name: gang
"""


class Ask(Action):
    """Records its calls."""

    name = "ask"
    jobs: list[str]
    hungry: dict[str, list[str]]
    tasks: list[str]

    def run(self, session: Session) -> Iterator[None]:
        Ask.jobs = [job.name for job in schedulable_jobs(session)]
        found = yield from starving_jobs(session)
        Ask.hungry = {queue: [job.name for job in jobs] for queue, jobs in found.items()}
        Ask.tasks = [task.name for job in session.jobs.values() for task in pending_tasks(session, job)]


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_jobs_that_are_not_pending_are_schedulable(phase: str) -> None:
    Stage(CONFIGURATION, gangs=[make_gang("a", 1, phase=phase)], classes=[Ask]).session()
    assert Ask.jobs == ["a"]


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_pending_jobs_are_not_schedulable(phase: str) -> None:
    stage = Stage(CONFIGURATION, gangs=[make_gang("a", 1, phase=phase)], classes=[Ask]).session()
    assert Ask.jobs == []
    assert stage.job("a").is_pending


def test_invalid_job_is_not_schedulable_and_has_a_message() -> None:
    stage = Stage(CONFIGURATION, gangs=[make_gang("a", 2, minimum=3)], classes=[Ask]).session()
    assert Ask.jobs == []
    assert stage.job("a").message == "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"


def test_jobs_below_their_minimum_are_starving() -> None:
    gangs = [
        make_gang("fed", 2, minimum=1, on=["n1"]),
        make_gang("hungry", 2, minimum=2, on=["n1"]),
        make_gang("elsewhere", 1, queue="other"),
    ]
    Stage(CONFIGURATION, nodes=[make_node("n1")], queues=[make_queue("other")], gangs=gangs, classes=[Ask]).session()
    assert Ask.hungry == {"default": ["hungry"], "other": ["elsewhere"]}


def test_pending_tasks_are_ordered_and_ungated() -> None:
    group, _ = make_gang("a", 0, minimum=1)
    pods = [
        make_task("late", "a", annotations={"volcano.sh/task-index": "9"}),
        make_task("gated", "a", gates=["wait"]),
        make_task("early", "a", annotations={"volcano.sh/task-index": "1"}),
        make_task("important", "a", priority=5),
        make_task("running", "a", node="n1"),
    ]
    Stage(CONFIGURATION, nodes=[make_node("n1")], gangs=[(group, pods)], classes=[Ask]).session()
    assert Ask.tasks == ["important", "early", "late"]
