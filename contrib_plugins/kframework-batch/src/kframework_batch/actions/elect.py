"""elect: choose the job for which nodes are kept free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.action import Action, schedulable_jobs
from kframework_batch.session import Session


class Elect(Action):
    """Lets the plugins choose among the jobs that were let in and are not ready (`target_job`)."""

    name: ClassVar[str] = "elect"

    def run(self, session: Session) -> Iterator[None]:
        session.plugins.target_job([job for job in schedulable_jobs(session) if not job.is_ready])
        yield
