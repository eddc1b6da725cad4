"""sla: a job that has waited for so long comes next."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import ClassVar

from pydantic import Field

from kframework.clock import seconds_of
from kframework.engine import Duration
from kframework_batch.hookspecs import Key
from kframework_batch.job import JobInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, Vote, hookimpl
from kframework_batch.session_view import SessionView

#: The annotations of a pod group with its waiting time; the first that is there counts.
_ANNOTATIONS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")


class SlaArguments(BatchArguments):
    """How long jobs may wait that do not say themselves, as Go writes it (`1h30m`); 0 for as long as it takes."""

    waiting_time: Duration = Field(Duration(0), alias="sla-waiting-time")


class Sla(BatchPlugin):
    """Gives a job a deadline: its creation plus its waiting time.

    The earliest deadline goes first. Once it has passed the job is admitted, and the room that a session finds for it
    is kept free for it although that is not enough, unless another plugin of an earlier or the same tier objects.
    """

    name: ClassVar[str] = "sla"
    Arguments: ClassVar[type[BatchArguments]] = SlaArguments

    arguments: SlaArguments

    @hookimpl
    def job_order(self, session: SessionView, job: JobInfo) -> Key:
        """Put the earliest deadline first; jobs without one come last."""
        return self._deadline(job)

    @hookimpl
    def job_enqueueable(self, session: SessionView, job: JobInfo) -> Vote:
        return self._vote(session, job)

    @hookimpl
    def job_pipelined(self, session: SessionView, job: JobInfo) -> Vote:
        return self._vote(session, job)

    @hookimpl
    def wakes_at(self, session: SessionView) -> float | None:
        """Want a session at the next deadline of a job that waits."""
        waiting = (job for job in session.jobs.values() if not job.is_ready or job.is_pending)
        deadlines = map(self._deadline, waiting)
        return min((deadline for deadline in deadlines if session.now < deadline < inf), default=None)

    def _vote(self, session: SessionView, job: JobInfo) -> Vote:
        return Vote.PERMIT if self._deadline(job) <= session.now else Vote.ABSTAIN

    def _deadline(self, job: JobInfo) -> float:
        """Return when a job must not wait any longer, in seconds since 1970; infinity for never."""
        wait = self.arguments.waiting_time
        value = next((job.annotations[key] for key in _ANNOTATIONS if key in job.annotations), None)
        if value is not None:
            with suppress(ValueError):  # an invalid duration counts as missing
                wait = Duration.parse(value)
        return seconds_of(job.created) + wait if wait > 0 and job.created else inf
