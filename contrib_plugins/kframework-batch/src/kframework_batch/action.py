"""The base of actions: one pass over the jobs of a session, such as `allocate`; and what actions have in common."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from pydantic import Field

from kframework_batch.account import TurnOutcome
from kframework_batch.hookspecs import Key
from kframework_batch.job import GangInfo, JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus


class Action:
    """An action of sessions; one instance is made for each mention in the configuration, and kept until that changes.

    `name` is its name in the configuration, the same as its entry point's; `Arguments` the model of its arguments.
    """

    name: ClassVar[str] = ""
    Arguments: ClassVar[type[BatchArguments]] = BatchArguments

    arguments: BatchArguments

    def __init__(self, arguments: BatchArguments) -> None:
        self.arguments = arguments

    def run(self, session: Session) -> Iterator[None]:
        """Do the work, and yield after each task, so that a long session can be cut into slices.

        Nothing of the cluster changes between two slices. What is to be undone when the session ends early belongs
        into `with session.statement()`.
        """
        raise NotImplementedError


def schedulable_jobs(session: Session) -> Iterator[JobInfo]:
    """Yield the jobs whose tasks may have room: those that were let in, and are valid."""
    for job in session.jobs.values():
        if job.is_pending:
            continue
        rejection = session.plugins.job_valid(job)
        if rejection is None:
            yield job
        else:
            job.message = rejection.message
            session.log.log_outcome(job, TurnOutcome.INVALID, rejection.plugin, rejection.message)


def starving_jobs(session: Session) -> Generator[None, None, dict[str, list[JobInfo]]]:
    """Return the candidates that may evict others, by the name of their queue.

    Jobs that must be within one hypernode, or have such subgroups, are left out: a victim might be evicted without
    effect. In Volcano no job with a topology preempts.
    """
    found: dict[str, list[JobInfo]] = {}
    for job in schedulable_jobs(session):
        gangs: Iterable[GangInfo] = (job, *job.subjobs.values())
        close = any(gang.topology is not None and gang.topology.hard for gang in gangs)
        if not close and session.plugins.job_starving(job):
            found.setdefault(job.queue, []).append(job)
        yield
    return found


def pending_tasks(session: Session, job: JobInfo) -> list[TaskInfo]:
    """List the pending tasks of a job in order; those with scheduling gates are not among them."""
    tasks = (task for task in job.with_status(TaskStatus.PENDING).values() if not task.is_gated)
    return sorted(tasks, key=session.plugins.task_key)


class SearchArguments(BatchArguments):
    """`predicateErrorCacheEnable` is accepted, since remembered answers need no switch."""

    predicate_error_cache: bool = Field(True, alias="predicateErrorCacheEnable")


T = TypeVar("T")


class KeyedQueue(Generic[T]):
    """Queues or jobs in the order of their keys, lowest first; of equal keys the one that was put in first.

    A key stays as it was when its thing was put in. So what has had its turn is put in again, under a new key.
    """

    def __init__(self, key: Callable[[T], tuple[Key, ...]], things: Iterable[T] = ()) -> None:
        self._key = key
        self._count = 0
        self._heap: list[tuple[tuple[Key, ...], int, T]] = []
        for thing in things:
            self.put(thing)

    def put(self, thing: T) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self._key(thing), self._count, thing))

    def pop(self) -> T:
        """Take out whose turn it is; IndexError if there is nothing."""
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)
