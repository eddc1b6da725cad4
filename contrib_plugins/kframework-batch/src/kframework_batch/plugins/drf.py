"""drf: jobs with the smallest dominant share go first (dominant resource fairness, Ghodsi et al., NSDI 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kframework_batch.fair_tree import FairKey, FairTree
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource, dominant_share
from kframework_batch.session_view import SessionView

#: Shares that differ by less are the same.
_CLOSE = 1e-6


class Drf(BatchPlugin):
    """Orders jobs by the largest share that they hold of any resource; with `enableHierarchy` queues as well.

    A job that holds room but has fallen below its minimum goes before all that hold none or have enough. Its share
    alone would put it behind every new job, for ever if they keep coming, while what it holds is of no use to anybody.
    It cannot starve the others: it is ahead only until it has its minimum, and a job gets room only together with its
    minimum, so nobody comes to this place but by losing tasks that had their turn before.
    """

    name: ClassVar[str] = "drf"

    def __init__(self, arguments: BatchArguments) -> None:
        super().__init__(arguments)
        self._total = Resource()
        #: What each job holds or is promised.
        self._held: dict[str, Resource] = {}
        self._tree: FairTree | None = None

    @hookimpl
    def on_session_open(self, session: SessionView) -> None:
        self._total = session.total
        self._held = {uid: Resource(job.allocated) for uid, job in session.jobs.items()}
        self._tree = None
        if self.hierarchical:
            self._tree = FairTree(session.total)
            for queue in session.queues.values():
                self._tree.add_queue(queue)
            for job in session.jobs.values():
                self._tree.add_job(job, self._held[job.uid])

    @hookimpl
    def allocated(self, session: SessionView, task: TaskInfo) -> None:
        if (held := self._held.get(task.job.uid)) is not None:
            held.add(task.request)
            if self._tree is not None:
                self._tree.note(task.job, task.request, 1)

    @hookimpl
    def deallocated(self, session: SessionView, task: TaskInfo) -> None:
        if (held := self._held.get(task.job.uid)) is not None:
            held.sub(task.request)
            if self._tree is not None:
                self._tree.note(task.job, task.request, -1)

    @hookimpl
    def job_order(self, session: SessionView, job: JobInfo) -> tuple[bool, float]:
        return not job.is_broken, dominant_share(self._held[job.uid], self._total)

    @hookimpl
    def queue_order(self, session: SessionView, queue: QueueInfo) -> FairKey:
        return () if self._tree is None else self._tree.key(queue)

    @hookimpl
    def preemptable(self, session: SessionView, preemptor: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        """Name those whose jobs have, without them, no less than the preemptor's has with it."""
        gained = dominant_share(self._held[preemptor.job.uid].plus(preemptor.request), self._total)
        left: dict[str, Resource] = {}
        victims: list[TaskInfo] = []
        for task in tasks:
            uid = task.job.uid
            if uid not in self._held:
                continue
            rest = left.get(uid, self._held[uid]).minus(task.request)
            if gained <= dominant_share(rest, self._total) + _CLOSE:
                left[uid] = rest
                victims.append(task)
        return victims

    @hookimpl
    def reclaimable(
        self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo] | None:
        """Name those whose queues come, without them, after the reclaimer's with and without it; abstain without tree.

        Volcano asks only for the first. But who comes first without it gets the room in the next session: were that the
        victim, or nobody can say who, both would take the same room from each other for ever.
        """
        if self._tree is None:
            return None
        tree, queues = self._tree, session.queues
        mine = queues[reclaimer.job.queue]
        victims: list[TaskInfo] = []
        self.allocated(session, reclaimer)
        for task in tasks:
            if task.job.uid not in self._held:
                continue
            self.deallocated(session, task)  # so that the next is looked at as if this one had gone
            theirs = queues[task.job.queue]
            goes = tree.key(mine) < tree.key(theirs)
            if goes:
                self.deallocated(session, reclaimer)
                goes = tree.key(mine) < tree.key(theirs)
                self.allocated(session, reclaimer)
            if goes:
                victims.append(task)
            else:
                self.allocated(session, task)
        for task in victims:
            self.allocated(session, task)
        self.deallocated(session, reclaimer)
        return victims
