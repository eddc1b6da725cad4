"""reservation: nodes are kept free for a gang that has waited for long, until it fits or its time is over."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import ClassVar

import numpy as np
from pydantic import Field

from kframework import NodeInfo, Status, unschedulable
from kframework.clock import seconds_of
from kframework.engine import Duration
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.resource import Resource
from kframework_batch.session_view import SessionView
from kframework_batch.task_status import TaskStatus


class ReservationArguments(BatchArguments):
    """After how long a job is starved, and for how long nodes are kept free for it then, as Go writes it (`5m`)."""

    starved_after: Duration = Field(Duration(300), alias="reservation.starvedAfter")
    keep_for: Duration = Field(Duration(600), alias="reservation.keepFor")


class Reservation(BatchPlugin):
    """Keeps as few nodes free as the starved job needs, those with most room first; others leave them and none follow.

    The job of the highest priority is chosen, of these the one that has waited longest. Nothing is kept for one that
    does not fit these nodes even when they are empty. All follows from the session, nothing is remembered: where jobs
    come all the time, the room on the nodes that are kept only grows.
    """

    name: ClassVar[str] = "reservation"
    Arguments: ClassVar[type[BatchArguments]] = ReservationArguments

    arguments: ReservationArguments

    def __init__(self, arguments: BatchArguments) -> None:
        super().__init__(arguments)
        self._target: JobInfo | None = None
        self._rows: tuple[int, ...] = ()

    @hookimpl
    def on_session_open(self, session: SessionView) -> None:
        self._target, self._rows = None, ()

    @hookimpl
    def target_job(self, session: SessionView, jobs: Sequence[JobInfo]) -> JobInfo | None:
        starved = (job for job in jobs if self._starts_at(job) <= session.now < self._ends_at(job))
        self._target = min(starved, key=lambda job: (-job.priority, job.created, job.uid), default=None)
        return self._target

    @hookimpl
    def reserved_nodes(self, session: SessionView) -> None:
        if self._target is not None:
            self._rows = _rows_for(session, self._target)

    def sign(self, session: SessionView, task: TaskInfo) -> Hashable | None:
        return () if task.job is self._target else self._rows

    @hookimpl
    def predicate(self, session: SessionView, task: TaskInfo, node: NodeInfo) -> Status | None:
        if self._target is None or task.job is self._target or node.row not in self._rows:
            return None
        return unschedulable(f"node(s) were kept free for job {self._target.uid}")

    @hookimpl
    def wakes_at(self, session: SessionView) -> float | None:
        """Want a session when nodes are to be kept for a job, and when they are given back."""
        waiting = [job for job in session.jobs.values() if not job.is_ready and not job.is_pending]
        moments = (moment for job in waiting for moment in (self._starts_at(job), self._ends_at(job)))
        return min((moment for moment in moments if session.now < moment < inf), default=None)

    def _starts_at(self, job: JobInfo) -> float:
        return seconds_of(job.created) + self.arguments.starved_after if job.created else inf

    def _ends_at(self, job: JobInfo) -> float:
        return self._starts_at(job) + self.arguments.keep_for


def _rows_for(session: SessionView, job: JobInfo) -> tuple[int, ...]:
    """Return the rows of the nodes that a job needs, those with most room first; none where all are not enough.

    It is counted in tasks as large as the largest that waits, on nodes as they will be when they are empty.
    """
    nodes, rows = session.nodes, np.sort(session.nodes.order)
    waiting = [task for task in job.with_status(TaskStatus.PENDING).values() if not task.is_best_effort]
    largest = Resource(
        (name, max(each.request.get(name, 0) for each in waiting)) for each in waiting for name in each.request
    )
    missing = job.min_available - job.ready_num
    empty, now = np.full(len(rows), missing), np.full(len(rows), missing)
    for name, amount in largest.items():
        if amount > 0:
            offered = nodes.allocatable(name)[rows]
            empty = np.minimum(empty, offered // amount)
            now = np.minimum(now, np.maximum(offered - nodes.requested(name)[rows], 0) // amount)
    usable = [
        index
        for index in np.lexsort((rows, -now)).tolist()
        if empty[index] and not nodes[int(rows[index])].unschedulable
    ]
    found: list[int] = []
    for index in usable if waiting else ():
        if missing <= 0:
            break
        found.append(int(rows[index]))
        missing -= int(empty[index])
    return tuple(sorted(found)) if missing <= 0 else ()
