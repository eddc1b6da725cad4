"""enqueue: let jobs in for whose minimum there is room; pods of a VolcanoJob are made only then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.account import TurnOutcome
from kframework_batch.action import Action, KeyedQueue
from kframework_batch.job import INQUEUE, JobInfo
from kframework_batch.session import Session


class Enqueue(Action):
    """Admits pending jobs, the first of the first queue at a time.

    A job whose group has no minimum is always admitted. A rejected job does not hold up those behind it, and is tried
    again in the next session.
    """

    name: ClassVar[str] = "enqueue"

    def run(self, session: Session) -> Iterator[None]:
        plugins = session.plugins
        waiting: dict[str, KeyedQueue[JobInfo]] = {}
        for job in session.jobs.values():
            if job.is_pending:
                waiting.setdefault(job.queue, KeyedQueue(plugins.job_key)).put(job)
                yield
        queues = KeyedQueue(plugins.queue_key, (session.queues[name] for name in waiting))
        while queues:
            queue = queues.pop()
            jobs = waiting[queue.name]
            job = jobs.pop()
            refuser = plugins.enqueue_rejector(job) if job.min_resources is not None else ""
            if refuser:
                job.message = job.message or f"plugin {refuser} does not admit it"
                session.log.log_outcome(job, TurnOutcome.HELD_BACK, refuser, job.message)
            else:
                plugins.job_enqueued(job)
                job.phase = INQUEUE
                session.log.log_outcome(job, TurnOutcome.ADMITTED)
            if jobs:
                queues.put(queue)
            yield
