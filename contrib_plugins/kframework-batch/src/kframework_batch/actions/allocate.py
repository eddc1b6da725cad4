"""allocate: give pending tasks room, queue by queue and gang by gang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.account import Outcome
from kframework_batch.action import Action
from kframework_batch.actions.candidates import SearchArguments, Turns, candidates
from kframework_batch.actions.worksheet import Worksheet, may_have_room
from kframework_batch.job import INQUEUE, JobInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.queue import QueueInfo
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus


class Allocate(Action):
    """Gives the first job of the first queue what it needs to be ready, and turns to the first queue again.

    So a gang gets its minimum in one turn, or nothing; tasks beyond the minimum come in later turns, one at a time, and
    so do subgroups that the job can do without. A queue that is overused gets no more turns.

    A gang that has lost members keeps the room that it finds for some of them until the session ends, though nobody is
    bound: where room comes free bit by bit, others would take each bit, and what the gang holds would be of no use to
    anybody for as long as they keep coming.
    """

    name: ClassVar[str] = "allocate"
    Arguments: ClassVar[type[BatchArguments]] = SearchArguments

    def run(self, session: Session) -> Iterator[None]:
        """Allocate; yields after each task."""
        if all(action.name != "enqueue" for action in session.actions):
            _let_all_in(session)
        plugins = session.plugins
        worksheets: dict[str, Worksheet] = {}
        jobs: dict[str, Turns[JobInfo]] = {}
        for job in candidates(session):
            if any(may_have_room(task) for task in job.with_status(TaskStatus.PENDING).values()):
                worksheets[job.uid] = Worksheet(session, job)
                jobs.setdefault(job.queue, Turns(plugins.job_key)).put(job)
            yield
        queues = Turns(plugins.queue_key, (session.queues[name] for name in jobs))
        while queues:
            queue = queues.take()
            if refuser := plugins.overused(queue):
                _pass_over(session, jobs[queue.name], queue, refuser)
                continue
            job = jobs[queue.name].take()
            if (yield from worksheets[job.uid].take_turn(queue)):
                jobs[queue.name].put(job)
            if jobs[queue.name]:
                queues.put(queue)


def _let_all_in(session: Session) -> None:
    for job in session.jobs.values():
        if job.is_pending:
            job.phase = INQUEUE


def _pass_over(session: Session, jobs: Turns[JobInfo], queue: QueueInfo, plugin: str) -> None:
    """Let jobs know why they got nothing."""
    message = f"queue {queue.name} has its due already"
    while jobs:
        job = jobs.take()
        if not job.is_ready:
            job.message = message
        session.log.passed_over(job, Outcome.OVERUSED, plugin, message)
