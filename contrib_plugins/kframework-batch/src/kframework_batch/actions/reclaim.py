"""reclaim: take room back from other queues, for a queue that has less than its due."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import ClassVar

from kframework_batch.account import TurnOutcome
from kframework_batch.action import Action, KeyedQueue, SearchArguments, starving_jobs
from kframework_batch.actions.victim_selection import EvictableTasks, VictimSelection
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.session import JobStatement, Session
from kframework_batch.task_status import TaskStatus


class Reclaim(Action):
    """Reclaims from other queues for the first starving job of the first queue, then orders the queues again.

    A job gets the room that it needs to be ready or nothing. Room without victims counts towards that; a job that
    needs no victim at all is left to `allocate`. A queue that is overused gets no more turns.
    """

    name: ClassVar[str] = "reclaim"
    Arguments: ClassVar[type[BatchArguments]] = SearchArguments

    def run(self, session: Session) -> Iterator[None]:
        found = yield from starving_jobs(session)
        if not found:
            return
        residents = yield from EvictableTasks.from_session(session)
        plugins = session.plugins
        jobs = {name: KeyedQueue(plugins.job_key, hungry) for name, hungry in found.items()}
        queues = KeyedQueue(plugins.queue_key, (session.queues[name] for name in jobs))
        selection = VictimSelection(session, residents, self.name, plugins.reclaimable, plugins.preemptive)
        while queues:
            queue = queues.pop()
            if refuser := plugins.overused_by(queue):
                while jobs[queue.name]:
                    session.log.log_outcome(jobs[queue.name].pop(), TurnOutcome.OVERUSED, refuser)
                continue
            yield from selection.serve_job(jobs[queue.name].pop(), partial(_select_victims, session, selection))
            if jobs[queue.name]:
                queues.put(queue)


def _select_victims(
    session: Session, selection: VictimSelection, statement: JobStatement, task: TaskInfo
) -> Generator[None, None, bool]:
    """Promise a task the room of others on the first node where that is of use; return whether there was one."""
    if not session.plugins.preemptive(session.queues[task.job.queue], task):
        return False

    def may_go(task: TaskInfo, other: TaskInfo) -> bool:
        queue = other.job.queue
        return queue != task.job.queue and other.status is TaskStatus.RUNNING and session.queues[queue].reclaimable

    return (yield from selection.make_room(statement, task, session.placement.rank_nodes(task), may_go))
