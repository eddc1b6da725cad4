"""reclaim: take room back from other queues, for a queue that has less than its due."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, ClassVar

from kframework_batch.action import Action
from kframework_batch.actions.arguments import SearchArguments
from kframework_batch.actions.candidates import pending_tasks, starving
from kframework_batch.actions.clearing import Clearing, may_push_out
from kframework_batch.actions.residents import Residents
from kframework_batch.actions.turns import Turns
from kframework_batch.job import JobInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.statement import JobStatement
from kframework_batch.task import TaskInfo, TaskStatus

if TYPE_CHECKING:
    from kframework.state.pods import PodTemplate
    from kframework_batch.session import Session

__all__ = ["Reclaim"]


class Reclaim(Action):
    """Helps the first starving job of the first queue at the expense of other queues; then the queues are ordered anew.

    A job gets the room that it needs to be ready or nothing. Room for which nobody has to go is counted on; a job that
    needs no victim at all is left to `allocate`. A queue that is overused gets no more turns.
    """

    name: ClassVar[str] = "reclaim"
    Arguments: ClassVar[type[BatchArguments]] = SearchArguments

    def run(self, session: Session) -> Iterator[None]:
        """Reclaim; yields after each task, and each node that was looked at."""
        found = yield from starving(session)
        if not found:
            return
        residents = yield from Residents.of(session)
        plugins = session.plugins
        jobs = {name: Turns(plugins.job_key, hungry) for name, hungry in found.items()}
        queues = Turns(plugins.queue_key, (session.queues[name] for name in jobs))
        while queues:
            queue = queues.take()
            if plugins.overused(queue):
                continue
            clearing = Clearing(session, queue, residents, self.name, plugins.reclaimable, plugins.preemptive)
            yield from self._for_job(session, clearing, jobs[queue.name].take())
            if jobs[queue.name]:
                queues.put(queue)

    def _for_job(self, session: Session, clearing: Clearing, job: JobInfo) -> Iterator[None]:
        hopeless: set[PodTemplate] = set()
        with session.statement() as statement:
            for task in pending_tasks(session, job):
                if not session.plugins.job_starving(job):
                    break
                # Where one task found no victims, another of its kind does not either.
                if task.pod.template in hopeless:
                    continue
                if not (yield from self._help(session, clearing, statement, task)):
                    hopeless.add(task.pod.template)
            if statement.evicted and session.plugins.job_pipelined(job):
                clearing.commit(statement)

    def _help(
        self, session: Session, clearing: Clearing, statement: JobStatement, task: TaskInfo
    ) -> Generator[None, None, bool]:
        """Promise a task room, that of others if need be; return whether there was a way."""
        if not may_push_out(task) or not session.plugins.preemptive(session.queues[task.job.queue], task):
            return False
        yield
        if clearing.find_free(statement, task):
            return True

        def may_go(task: TaskInfo, other: TaskInfo) -> bool:
            queue = session.queues[other.job.queue]
            return other.status is TaskStatus.RUNNING and queue.name != task.job.queue and queue.reclaimable

        return (yield from clearing.make_room(statement, task, session.placement.ranked(task), may_go))
