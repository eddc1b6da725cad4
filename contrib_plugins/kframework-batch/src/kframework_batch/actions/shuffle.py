"""shuffle: send running tasks away that plugins want elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.account import TurnOutcome
from kframework_batch.action import Action
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus


class Shuffle(Action):
    """Evicts whom the plugins name with `victim_tasks`; none of the stock plugins does."""

    name: ClassVar[str] = "shuffle"

    def run(self, session: Session) -> Iterator[None]:
        running = [task for job in session.jobs.values() for task in job.with_status(TaskStatus.RUNNING).values()]
        for task in session.plugins.victim_tasks(running):
            with session.statement() as statement:
                statement.evict(task, self.name)
                session.log.log_turn(task.job, TurnOutcome.COMMITTED, {}, victims=[task])
                statement.commit()
            yield
