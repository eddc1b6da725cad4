"""The job or task of a name: one that is there, or one of which only the accounts of past sessions tell."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from kframework_batch.account import SessionAccount
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.course import pieces
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import owner_of, owners_of


def find_job(engine: BatchEngine, namespace: str, name: str) -> tuple[JobInfo, TaskInfo | None] | None:
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


def job_name(job: JobInfo) -> str:
    """Return the name of what a job's pod group belongs to, if that is one thing, else of its pod group."""
    return (job.object and owner_of(job.object)) or f"pod group {job.uid}"


def _owners(job: JobInfo) -> dict[str, str]:
    return {} if job.object is None else owners_of(job.object)


class EndedJob(NamedTuple):
    """A job whose pod group is gone, by its uid, or one of its tasks (`pod`, by namespace/name)."""

    job: str
    pod: str = ""


def find_ended_job(
    sessions: Sequence[SessionAccount], namespace: str, name: str
) -> Generator[None, None, EndedJob | None]:
    """Return the job that had this name last, the newest session coming first; None if none is remembered.

    It goes by the name of its pod group, or of what that belonged to; or else by the name of one of its tasks. Yields
    so that others have their turn.
    """
    pod = f"{namespace}/{name}"
    of_task: EndedJob | None = None
    for account in pieces(sessions):
        if account is None:
            yield
            continue
        job = next((uid for uid, owner in _uids_and_owners(account) if _has_name(uid, owner, namespace, name)), None)
        if job is not None:
            return EndedJob(job)
        judged = (turn.job for turn in account.turns if any(verdict.pod == pod for verdict in turn.verdicts))
        of_task = of_task or next((EndedJob(job, pod) for job in judged), None)
    return of_task


def _uids_and_owners(account: SessionAccount) -> Iterator[tuple[str, str]]:
    yield from ((gone.job, gone.owner) for gone in account.gone)
    yield from ((state.job, state.owner) for state in account.jobs)


def _has_name(uid: str, owner: str, namespace: str, name: str) -> bool:
    """Return whether a job has this name; before the namespace in its uid may stand an API group."""
    group, _, own = uid.rpartition("/")
    is_own = own == name and group.rpartition("/")[2] == namespace
    return is_own or owner.partition(" ")[2] == f"{namespace}/{name}"
