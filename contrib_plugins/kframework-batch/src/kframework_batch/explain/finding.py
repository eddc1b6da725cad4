"""Which job or task somebody means who names it."""

from __future__ import annotations

from kframework_batch.engine import BatchEngine
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import owner_of, owners_of


def find(engine: BatchEngine, namespace: str, name: str) -> tuple[JobInfo, TaskInfo | None] | None:
    """Return a job, and a task of it if a pod has this name; None if there is neither.

    A job goes by the name of its pod group, or of what that belongs to, such as a Job of Volcano. Of several that
    belong to one thing it is the youngest.
    """
    jobs = [job for job in engine.cache.jobs.values() if job.namespace == namespace]
    owned = [job for job in jobs if job.name == name] or [job for job in jobs if name in _owners(job)]
    if owned:
        return max(owned, key=lambda job: (job.created, job.uid)), None
    tasks = (task for job in jobs for task in job.tasks.values())
    return next(((task.job, task) for task in tasks if task.name == name), None)


def called(job: JobInfo) -> str:
    """Say what a job is called: by what its pod group belongs to, if that is one thing, else by its pod group."""
    return (job.object and owner_of(job.object)) or f"pod group {job.uid}"


def _owners(job: JobInfo) -> dict[str, str]:
    return {} if job.object is None else owners_of(job.object)
