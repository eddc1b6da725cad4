"""backfill: give room to best effort tasks, which ask for nothing but a place among the pods of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.account import TurnOutcome
from kframework_batch.action import Action, SearchArguments, pending_tasks, schedulable_jobs
from kframework_batch.actions.domains import choose_node
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
        for job in schedulable_jobs(session):
            tasks = (
                [task for task in pending_tasks(session, job) if task.is_best_effort] if job.best_effort_pending else []
            )
            if tasks:
                found.setdefault(job.queue, []).append((job, tasks))
            yield
        for queue in sorted((session.queues[name] for name in found), key=plugins.queue_key):
            for job, tasks in sorted(found[queue.name], key=lambda pair: plugins.job_key(pair[0])):
                yield from _allocate_tasks(session, job, tasks)


def _allocate_tasks(session: Session, job: JobInfo, tasks: list[TaskInfo]) -> Iterator[None]:
    with session.statement() as statement:
        for task in tasks:
            choice = choose_node(session, task)
            if isinstance(choice, str):
                _log_rejection(session, task, choice)
            else:
                put = statement.allocate if choice.idle else statement.pipeline
                refused = put(task, choice.node)
                if refused is not None:
                    _log_rejection(session, task, refused.message, refused.plugin)
            yield
        ready = session.plugins.job_ready(job)
        outcome = TurnOutcome.COMMITTED if ready else TurnOutcome.DISCARDED
        placed, promised = statement.allocated, statement.pipelined
        session.log.log_turn(job, outcome, session.placement.choices, placed=placed, promised=promised)
        if ready:
            statement.commit()


def _log_rejection(session: Session, task: TaskInfo, message: str, plugin: str = "") -> None:
    task.job.set_fit_error(task, message)
    session.log.log_rejection(task, message, plugin)
