"""backfill: give room to best effort tasks, which ask for nothing but a place among the pods of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.account import Outcome
from kframework_batch.action import Action, SearchArguments, candidates, pending_tasks
from kframework_batch.actions.domains import choose_within
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.session import Session


class Backfill(Action):
    """Places the best-effort tasks of all queues, job by job; a job's tasks are bound if it is ready then.

    Volcano takes back this session's promises to best-effort tasks, to place them now. Here they keep them: room
    that is promised to a preemptor stays reserved for it, and the next session binds it.
    """

    name: ClassVar[str] = "backfill"
    Arguments: ClassVar[type[BatchArguments]] = SearchArguments

    def run(self, session: Session) -> Iterator[None]:
        plugins = session.plugins
        found: dict[str, list[tuple[JobInfo, list[TaskInfo]]]] = {}
        for job in candidates(session):
            tasks = (
                [task for task in pending_tasks(session, job) if task.best_effort] if job.best_effort_pending else []
            )
            if tasks:
                found.setdefault(job.queue, []).append((job, tasks))
            yield
        for queue in sorted((session.queues[name] for name in found), key=plugins.queue_key):
            for job, tasks in sorted(found[queue.name], key=lambda pair: plugins.job_key(pair[0])):
                yield from _place(session, job, tasks)


def _place(session: Session, job: JobInfo, tasks: list[TaskInfo]) -> Iterator[None]:
    with session.statement() as statement:
        for task in tasks:
            choice = choose_within(session, task)
            if isinstance(choice, str):
                _rejected(session, task, choice)
            else:
                put = statement.allocate if choice.idle else statement.pipeline
                refused = put(task, choice.node)
                if refused is not None:
                    _rejected(session, task, refused.message, refused.plugin)
            yield
        ready = session.plugins.job_ready(job)
        outcome = Outcome.COMMITTED if ready else Outcome.DISCARDED
        placed, promised = statement.allocated, statement.pipelined
        session.log.turn(job, outcome, session.placement.chosen, placed=placed, promised=promised)
        if ready:
            statement.commit()


def _rejected(session: Session, task: TaskInfo, message: str, plugin: str = "") -> None:
    task.job.unfit(task, message)
    session.log.rejected(task, message, plugin)
