"""The jobs that actions work on, and their tasks in order."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from kframework_batch.job import JobInfo, TaskInfo, TaskStatus
from kframework_batch.session import Session


def candidates(session: Session) -> Iterator[JobInfo]:
    """Yield the jobs whose tasks may have room: those that were let in, and are valid."""
    for job in session.jobs.values():
        if job.is_pending:
            continue
        rejection = session.plugins.job_valid(job)
        if rejection is None:
            yield job
        else:
            job.message = rejection.message


def starving(session: Session) -> Generator[None, None, dict[str, list[JobInfo]]]:
    """Return the candidates that may push others out, by the name of their queue."""
    found: dict[str, list[JobInfo]] = {}
    for job in candidates(session):
        if session.plugins.job_starving(job):
            found.setdefault(job.queue, []).append(job)
        yield
    return found


def pending_tasks(session: Session, job: JobInfo) -> list[TaskInfo]:
    """List the pending tasks of a job in order; those with scheduling gates are not among them."""
    tasks = (task for task in job.with_status(TaskStatus.PENDING).values() if not task.gated)
    return sorted(tasks, key=session.plugins.task_key)
