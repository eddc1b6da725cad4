"""A session of which nothing is kept: what one would come to if it began now."""

from __future__ import annotations

from collections.abc import Iterator

from kframework_batch.job import TaskInfo
from kframework_batch.session import Session


class TrialSession(Session):
    """A session that takes back all that it did, what was committed too; its `log` tells what that was.

    What sessions leave on jobs for conditions and for the next session is left as it was, the order of tasks included:
    a replay, of which nobody asks what this one was asked, comes to the same.
    """

    def try_out(self) -> None:
        """Run all actions in one piece. PluginError is raised as by any session; nothing stays then either."""
        before = [(job, dict(job.fit_errors), dict(job.places), job.message, job.phase) for job in self._known]
        orders = [(gang, gang.order) for job in self._known for gang in job.gangs]
        try:
            for _ in self.run():
                pass
        finally:
            for job, fit_errors, places, message, phase in before:
                job.fit_errors, job.places, job.message, job.phase = fit_errors, places, message, phase
            for gang, order in orders:
                gang.order = order

    def bind(self, task: TaskInfo) -> None:
        """Note that a task would be bound; it stays allocated, which counts as much."""
        self.log.bound(task)

    def _conclude(self) -> Iterator[None]:
        yield from ()

    def _close(self) -> None:
        statements = self.cluster.statements
        while statements[-1] is not self._statement:
            statements[-1].rollback()
        self._statement.rollback()
        self.idle.close()
