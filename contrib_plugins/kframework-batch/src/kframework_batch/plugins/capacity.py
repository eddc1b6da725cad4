"""capacity: gives queues what they deserve by their owners, lends the rest, and reclaims it on demand."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import ClassVar, TypeAlias

from pydantic import Field, field_validator

from kframework.objects import ObjectMeta
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.objects import Queue
from kframework_batch.plugin import BatchArguments, BatchPlugin, Vote, hookimpl
from kframework_batch.queue import ROOT_QUEUE, QueueAccount, QueueInfo, QueueTree, without_guarantees
from kframework_batch.resource import Resource
from kframework_batch.session_view import SessionView, in_batches

_log = logging.getLogger(__name__)

#: Whether a queue and those above it have their due, from the top; its priority; their shares, from the top.
QueueKey: TypeAlias = tuple[tuple[bool, ...], int, tuple[tuple[float, bool], ...]]
#: The accounts from the root to a queue; of the queue alone where there is no tree.
_Chain: TypeAlias = tuple[QueueAccount, ...]


class CapacityArguments(BatchArguments):
    """`ancestorReclaimLevel` is how many queues above its own may stand in for one to which less is due.

    Quotas of devices (dynamic resource allocation) are not kept; the arguments for them are known and have no effect.
    """

    ancestor_reclaim_level: int = Field(0, alias="ancestorReclaimLevel")
    device_quotas: bool = Field(False, alias="capacity.DynamicResourceAllocationEnable")
    device_capacity_quotas: bool = Field(False, alias="capacity.DRAConsumableCapacityEnable")

    @field_validator("ancestor_reclaim_level")
    @classmethod
    def _not_below_zero(cls, level: int) -> int:
        return max(level, 0)


class Capacity(BatchPlugin):
    """Keeps queues within their capability, and lets them have back what is due to them.

    With `enableHierarchy` queues form a tree (`spec.parent`): only its leaves have jobs, and what they hold counts for
    all queues above them too. If queues make no tree nothing is scheduled until they do.

    A queue reclaims only up to what it deserves, only what others hold beyond theirs (or resources that they do not
    deserve at all), and only from queues that still come after it in the order once the room is free, so that the room
    goes to it and not back. Queues that hold less than they deserve therefore go first, whatever their priority;
    Volcano compares the priority first, and then the queue that had to give way may be the first to be served again.
    """

    name: ClassVar[str] = "capacity"
    Arguments: ClassVar[type[BatchArguments]] = CapacityArguments

    arguments: CapacityArguments

    def __init__(self, arguments: CapacityArguments) -> None:
        super().__init__(arguments)
        #: Why nothing can be scheduled; "" if all is well.
        self.tree_problem: str = ""
        self._chains: dict[str, _Chain] = {}
        self._leaves: frozenset[str] = frozenset()
        for field in ("device_quotas", "device_capacity_quotas"):
            if getattr(arguments, field):
                alias = CapacityArguments.model_fields[field].alias
                _log.warning("capacity: %s has no effect: quotas of devices are not kept", alias)

    @hookimpl
    def on_session_open(self, session: SessionView) -> Iterator[None]:
        if self.hierarchical:
            self._open_tree(session.queues)
        else:
            accounts = [QueueAccount(queue) for queue in session.queues.values()]
            _limit(accounts, session.total, 0)
            _set_deserved(zip(accounts, session.queues.values(), strict=True))
            self._chains = {account.name: (account,) for account in accounts}
            self._leaves = frozenset(session.queues)
        for jobs in in_batches(session.jobs.values()):
            for job in jobs:
                for account in self._chains.get(job.queue, ())[-1:]:
                    account.add(job)
            yield
        for chain in sorted(self._chains.values(), key=len, reverse=True):
            for parent in chain[-2:-1]:
                parent.include(chain[-1])

    def _open_tree(self, queues: Mapping[str, QueueInfo]) -> None:
        """Hang up the queues; the root is not limited by what there is, so that clusters can grow with their jobs."""
        tree = QueueTree(queues)
        if tree.problem and tree.problem != self.tree_problem:
            _log.error("capacity: nothing is scheduled: %s", tree.problem)
        self.tree_problem = tree.problem
        root = queues.get(ROOT_QUEUE) or QueueInfo(Queue(metadata=ObjectMeta(name=ROOT_QUEUE)))
        accounts = {name: QueueAccount(queue) for name, queue in {ROOT_QUEUE: root, **queues}.items()}
        below: dict[str, list[QueueAccount]] = {}
        for path in sorted(tree.paths.values(), key=len):
            if len(path) > 1:
                below.setdefault(path[-2], []).append(accounts[path[-1]])
        for parent, children in below.items():
            _limit(children, accounts[parent].capability, inf)
        _set_deserved((accounts[name], queue) for name, queue in queues.items())
        self._chains = {name: tuple(accounts[step] for step in path) for name, path in tree.paths.items()}
        self._leaves = frozenset(name for name in tree.paths if tree.is_leaf(name))

    @hookimpl
    def allocated(self, session: SessionView, task: TaskInfo) -> None:
        for account in self._chains.get(task.job.queue, ()):
            account.allocated.add(task.request)

    @hookimpl
    def deallocated(self, session: SessionView, task: TaskInfo) -> None:
        for account in self._chains.get(task.job.queue, ()):
            account.allocated.sub(task.request)

    @hookimpl
    def queue_order(self, session: SessionView, queue: QueueInfo) -> QueueKey:
        chain = self._chains.get(queue.name, ())
        shares = [account.share for account in chain]
        # A queue to which nothing is due has a share of 1 and goes after those that have just what they are due.
        lent = [account.deserved.is_empty for account in chain]
        return tuple([share >= 1 for share in shares]), -queue.priority, tuple(zip(shares, lent, strict=True))

    @hookimpl
    def victim_queue_order(self, session: SessionView, queue: QueueInfo, preemptor: QueueInfo) -> int:
        """Prefer victims of near relatives: queues that share the deepest ancestor with the reclaiming one."""
        mine = self._chains.get(preemptor.name, ())
        return -sum(account in mine for account in self._chains.get(queue.name, ()))

    # -- victims -----------------------------------------------------------------------------------------------------

    @hookimpl
    def preemptive(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        return self.allocatable(session, queue, task) and any(
            account.deserves(task.request) for account in self._reclaim_levels(self._chains[queue.name])
        )

    @hookimpl
    def reclaimable(self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        victims: list[TaskInfo] = []
        mine = self._chains.get(reclaimer.job.queue, ())
        for task in tasks:
            theirs = self._chains.get(task.job.queue, ())
            parted = [account for account in self._reclaim_levels(theirs) if account not in mine]
            if not parted or not all(account.can_spare(task.request, reclaimer.request) for account in parted):
                continue
            self.deallocated(session, task)  # so that the next is looked at as if this one had gone
            if self._goes_before(session, reclaimer, task):
                victims.append(task)
            else:
                self.allocated(session, task)
        for task in victims:
            self.allocated(session, task)
        return victims

    def _reclaim_levels(self, chain: _Chain) -> _Chain:
        """Return the queue at the end of a chain, and those above it that may replace it, but for the root."""
        above = chain[1:-1][::-1][: self.arguments.ancestor_reclaim_level]
        return (*chain[-1:], *above)

    def _goes_before(self, session: SessionView, reclaimer: TaskInfo, victim: TaskInfo) -> bool:
        queues = session.queues
        mine, theirs = queues[reclaimer.job.queue], queues[victim.job.queue]
        return self.queue_order(session, mine) < self.queue_order(session, theirs)

    @hookimpl
    def queue_account(self, session: SessionView, queue: QueueInfo) -> QueueAccount | None:
        return next(iter(self._chains.get(queue.name, ())[-1:]), None)

    # -- room --------------------------------------------------------------------------------------------------------

    @hookimpl
    def allocatable(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        return (
            queue.is_open
            and queue.name in self._leaves
            and all(account.has_room(task.request) for account in self._chains[queue.name])
        )

    @hookimpl
    def job_enqueueable(self, session: SessionView, job: JobInfo) -> Vote:
        queue = session.queues[job.queue]
        if self.tree_problem:
            rejection = self.tree_problem
        elif not queue.is_open:
            rejection = f"queue {queue.name} is not open"
        elif queue.name not in self._leaves:
            rejection = f"queue {queue.name} has queues below it: only queues without may have jobs"
        else:
            lacking = ((account.name, account.missing_to_admit(job)) for account in reversed(self._chains[queue.name]))
            reasons = (f"queue {name} has no room for its minimum: {what}" for name, what in lacking if what)
            rejection = next(reasons, "")
        job.message = rejection or job.message
        return Vote.REJECT if rejection else Vote.PERMIT

    @hookimpl
    def job_enqueued(self, session: SessionView, job: JobInfo) -> None:
        for account in self._chains.get(job.queue, ()):
            account.admit(job)


def _limit(accounts: Sequence[QueueAccount], whole: Resource, otherwise: float) -> None:
    """Limit queues side by side to what there is for all of them."""
    rest = without_guarantees(whole, accounts)
    for account in accounts:
        account.limit(rest, otherwise)


def _set_deserved(accounts: Iterable[tuple[QueueAccount, QueueInfo]]) -> None:
    for account, queue in accounts:
        account.deserved = queue.deserved.at_most(account.capability).at_least(account.guarantee)
