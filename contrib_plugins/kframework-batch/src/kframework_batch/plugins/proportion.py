"""proportion: share the cluster among queues by weight, as far as their jobs have a use for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, Vote, hookimpl
from kframework_batch.queue import QueueAccount, QueueInfo, without_guarantees
from kframework_batch.session_view import SessionView, in_batches
from kframework_batch.water_filling import Claim, fill


class Proportion(BatchPlugin):
    """Computes what each queue deserves, lets it have that, and reclaims it from others that hold more.

    What queues deserve is shared resource by resource, by weight: no less than the queue's guarantee, no more than its
    jobs request and its capability allows, and in all no more than there is. Volcano's rounds have the same result
    unless guarantees interfere; then theirs can add up to more than there is.

    A queue gets no more than it deserves, and a victim's queue keeps what it deserves of the reclaimed resources. So
    what queues hold beyond that only ever shrinks, and no two of them reclaim the same room from each other in turn.
    """

    name: ClassVar[str] = "proportion"

    def __init__(self, arguments: BatchArguments) -> None:
        super().__init__(arguments)
        self._accounts: dict[str, QueueAccount] = {}

    @hookimpl
    def on_session_open(self, session: SessionView) -> Iterator[None]:
        self._accounts = {name: QueueAccount(queue) for name, queue in session.queues.items()}
        for jobs in in_batches(session.jobs.values()):
            for job in jobs:
                self._accounts[job.queue].add(job)
            yield
        rest = without_guarantees(session.total, self._accounts.values())
        for account in self._accounts.values():
            account.limit(rest, 0)
        # Every queue deserves a part of every resource that exists, or that a job requests.
        accounts = list(zip(self._accounts.values(), session.queues.values(), strict=True))
        for name in dict.fromkeys([*session.total, *[each for account, _ in accounts for each in account.requested]]):
            claims = []
            for account, queue in accounts:
                floor = account.guarantee.get(name, 0)
                wanted = min(account.requested.get(name, 0), account.capability.get(name, 0))
                claims.append(Claim(queue.weight, floor, max(floor, wanted)))
            for (account, _), due in zip(accounts, fill(session.total.get(name, 0), claims), strict=True):
                account.deserved[name] = due

    @hookimpl
    def allocated(self, session: SessionView, task: TaskInfo) -> None:
        if (account := self._accounts.get(task.job.queue)) is not None:
            account.allocated.add(task.request)

    @hookimpl
    def deallocated(self, session: SessionView, task: TaskInfo) -> None:
        if (account := self._accounts.get(task.job.queue)) is not None:
            account.allocated.sub(task.request)

    @hookimpl
    def queue_order(self, session: SessionView, queue: QueueInfo) -> tuple[int, float]:
        return -queue.priority, self._accounts[queue.name].share

    @hookimpl
    def queue_account(self, session: SessionView, queue: QueueInfo) -> QueueAccount | None:
        return self._accounts.get(queue.name)

    @hookimpl
    def overused(self, session: SessionView, queue: QueueInfo) -> bool:
        return self._accounts[queue.name].is_overused

    @hookimpl
    def allocatable(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        return queue.is_open and (task.is_best_effort or self._accounts[queue.name].deserves(task.request))

    @hookimpl
    def preemptive(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        return queue.is_open and self._accounts[queue.name].deserves(task.request)

    @hookimpl
    def reclaimable(self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        victims: list[TaskInfo] = []
        for task in tasks:
            account = self._accounts.get(task.job.queue)
            if account is not None and account.can_spare(task.request, reclaimer.request):
                account.allocated.sub(task.request)  # so that the next is looked at as if this one had gone
                victims.append(task)
        for task in victims:
            self._accounts[task.job.queue].allocated.add(task.request)
        return victims

    @hookimpl
    def job_enqueueable(self, session: SessionView, job: JobInfo) -> Vote:
        if not session.queues[job.queue].is_open:
            job.message = f"queue {job.queue} is not open"
            return Vote.REJECT
        if lacking := self._accounts[job.queue].missing_to_admit(job):
            job.message = f"queue {job.queue} has no room for its minimum: {lacking}"
            return Vote.REJECT
        return Vote.PERMIT

    @hookimpl
    def job_enqueued(self, session: SessionView, job: JobInfo) -> None:
        self._accounts[job.queue].admit(job)
