"""enqueue: let jobs in for whose minimum there is room; pods of a VolcanoJob are made only then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.account import Outcome
from kframework_batch.action import Action, Turns
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
        waiting: dict[str, Turns[JobInfo]] = {}
        for job in session.jobs.values():
            if job.is_pending:
                waiting.setdefault(job.queue, Turns(plugins.job_key)).put(job)
                yield
        queues = Turns(plugins.queue_key, (session.queues[name] for name in waiting))
        while queues:
            queue = queues.take()
            jobs = waiting[queue.name]
            job = jobs.take()
            refuser = plugins.keeps_out(job) if job.min_resources is not None else ""
            if refuser:
                session.log.passed_over(job, Outcome.HELD_BACK, refuser, job.message)
            else:
                plugins.job_enqueued(job)
                job.phase = INQUEUE
                session.log.passed_over(job, Outcome.ADMITTED)
            if jobs:
                queues.put(queue)
            yield
