"""Gangs that lost a member while they were bound: they are completed in time, or they go as a whole.

Volcano leaves such a gang as it is: members that wait for the missing one hold their room for ever.
"""

from __future__ import annotations

from kframework_batch.job import JobInfo
from kframework_batch.session import Session
from kframework_batch.task_status import ALLOCATED, PREEMPTABLE, TaskStatus


class BrokenGangs:
    """The jobs of which a task was not bound although the others were; `timeout` is in seconds."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        #: Until when each is to be complete, in seconds since 1970.
        self._deadlines: dict[JobInfo, float] = {}

    def broken(self, job: JobInfo, now: float) -> None:
        """Take note that a task of the job was not bound."""
        if not job.is_ready and _holds_room(job):
            self._deadlines.setdefault(job, now + self._timeout)

    @property
    def deadline(self) -> float | None:
        """When the first of them is due, in seconds since 1970."""
        return min(self._deadlines.values(), default=None)

    def mend(self, session: Session) -> None:
        """Forget those that are complete again, and send those away whose time is up.

        That includes gangs that cannot be scheduled any more, as those of a queue that is gone.
        """
        for job, deadline in list(self._deadlines.items()):
            if not job.known or job.is_ready or not _holds_room(job):
                del self._deadlines[job]
            elif deadline <= session.now:
                self._send_away(session, job)

    def _send_away(self, session: Session, job: JobInfo) -> None:
        """Send all members away that can be; those that are just being bound follow."""
        reason = f"a member of the gang was not bound, and it was not complete again within {self._timeout:g} s"
        for status in sorted(PREEMPTABLE, key=lambda status: status.value):
            for task in list(job.with_status(status).values()):
                session.send_away(task, reason)
        session.tell(job, "GangBroken", reason)


def _holds_room(job: JobInfo) -> bool:
    return any(job.with_status(status) for status in ALLOCATED if status is not TaskStatus.ALLOCATED)
