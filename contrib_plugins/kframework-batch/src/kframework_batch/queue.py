"""A queue, as a session sees it: what jobs share, and the account of what it holds, wants, may hold and is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from kframework_batch.job import INQUEUE, JobInfo
from kframework_batch.objects import Queue, QueueStatus
from kframework_batch.resource import Resource, format_shortage, share
from kframework_batch.task_status import ALLOCATED, TaskStatus

#: The queue of jobs that name none.
DEFAULT_QUEUE = "default"
#: The queue above all others, where queues form a tree.
ROOT_QUEUE = "root"


class QueueInfo:
    """One Queue object, read once."""

    def __init__(self, obj: Queue) -> None:
        """Read the object; raises QuantityError for what is no quantity."""
        metadata, spec = obj.metadata, obj.spec
        self.object: Queue = obj
        #: Its status as it will be once what was written is there.
        self.status: QueueStatus = obj.status
        self.name: str = metadata.name
        self.uid: str = metadata.uid
        self.created: str = metadata.creation_timestamp or ""
        self.annotations: dict[str, str] = metadata.annotations
        self.weight: int = max(spec.weight, 1)
        self.priority: int = spec.priority
        #: The most it may hold; what it does not name is not limited.
        self.capability: Resource = Resource.parse(spec.capability)
        #: What is kept for it even while it does not use it.
        self.guarantee: Resource = Resource.parse(spec.guarantee.resource)
        #: What it deserves by its owner's spec (read by `capacity` alone).
        self.deserved: Resource = Resource.parse(spec.deserved)
        self.parent: str = spec.parent
        #: Whether others may take back what it holds beyond its due.
        self.reclaimable: bool = spec.reclaimable is not False
        self.is_open: bool = obj.status.state in ("", "Open")


class QueueTree:
    """The path from the root, which needs no object, to each queue; none if there is a `problem`."""

    def __init__(self, queues: Mapping[str, QueueInfo]) -> None:
        self._parents = {name: queue.parent or ROOT_QUEUE for name, queue in queues.items() if name != ROOT_QUEUE}
        self._inner = {ROOT_QUEUE, *self._parents.values()} if self._parents else set()
        self.problem: str = ""
        paths: dict[str, tuple[str, ...]] = {ROOT_QUEUE: (ROOT_QUEUE,)}
        for name in self._parents:
            if not self.problem:
                self._resolve_path(name, paths)
        self.paths: dict[str, tuple[str, ...]] = {} if self.problem else paths

    def _resolve_path(self, name: str, paths: dict[str, tuple[str, ...]]) -> None:
        steps: dict[str, None] = {}
        while name not in paths:
            if name in steps:
                circle = [*list(steps)[list(steps).index(name) :], name]
                self.problem = f"queue {name} is its own ancestor ({' -> '.join(circle)}): change a spec.parent"
                return
            steps[name] = None
            parent = self._parents[name]
            if parent != ROOT_QUEUE and parent not in self._parents:
                remedy = "create it, or change spec.parent"
                self.problem = f"queue {name} has the parent {parent}, which does not exist: {remedy}"
                return
            name = parent
        for step in reversed(steps):
            paths[step] = (*paths[self._parents[step]], step)

    def is_leaf(self, name: str) -> bool:
        """Return whether the queue has no queues below it; only such queues have jobs."""
        return name not in self._inner


class QueueAccount:
    """What a queue has in one session, and what it deserves.

    All answers about a queue follow from these sums: a queue that reclaims stays within what it deserves, and its
    victims keep theirs, so no reclaim is undone.

    `capability` is the most it may hold, `default_capability` the same for a resource that this does not name. A
    resource that `deserved` does not name is deserved by no queue.
    """

    def __init__(self, queue: QueueInfo) -> None:
        self.name: str = queue.name
        self.guarantee: Resource = queue.guarantee.at_most(queue.capability)
        self.capability: Resource = queue.capability
        self.default_capability: float = inf
        self.deserved: Resource = Resource()
        #: What tasks hold or are promised.
        self.allocated: Resource = Resource()
        #: The same and what pending tasks ask for.
        self.requested: Resource = Resource()
        #: What is kept for jobs whose pods may be made but hold nothing yet.
        self.inqueue: Resource = Resource()
        #: What jobs hold beyond their minimum.
        self.elastic: Resource = Resource()

    def limit(self, rest: Resource, otherwise: float) -> None:
        """Limit the capability to its guarantee and the `rest` of all; `otherwise` for resources without a rest."""
        most, kept = self.capability, self.guarantee
        self.capability = Resource(
            (name, int(min(most.get(name, inf), rest.get(name, otherwise) + kept.get(name, 0))))
            for name in {**most, **rest}
        )
        self.default_capability = otherwise

    def add(self, job: JobInfo) -> None:
        self.allocated.add(job.allocated)
        self.requested.add(job.requested)
        for task in job.with_status(TaskStatus.RELEASING).values():
            self.requested.sub(task.request)  # leaving tasks request nothing
        self.inqueue.add(remaining_inqueue_resources(job))
        self.elastic.add(elastic_resources(job))

    def include(self, other: QueueAccount) -> None:
        self.allocated.add(other.allocated)
        self.requested.add(other.requested)
        self.inqueue.add(other.inqueue)
        self.elastic.add(other.elastic)

    @property
    def share(self) -> float:
        """The largest share of its due that it holds, 1 being all; a queue to which nothing is due always has 1."""
        deserved, held = self.deserved, self.allocated.get
        if deserved.is_empty:
            return 1.0
        return max([share(held(name, 0), due) for name, due in deserved.items()])

    @property
    def is_overused(self) -> bool:
        held = self.allocated.get
        return all(held(name, 0) >= due for name, due in self.deserved.items())

    def has_room(self, request: Mapping[str, int]) -> bool:
        held, most, otherwise = self.allocated.get, self.capability.get, self.default_capability
        return all(held(name, 0) + more <= most(name, otherwise) for name, more in request.items() if more > 0)

    def deserves(self, request: Mapping[str, int]) -> bool:
        """Return whether this is due to it too: all that it asks for of resources that are due, and some of them."""
        held, due = self.allocated.get, self.deserved
        is_due = [held(name, 0) + more <= due[name] for name, more in request.items() if more > 0 and name in due]
        return bool(is_due) and all(is_due)

    def can_spare(self, held: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
        """Return whether a task that holds this may be taken from the queue by one that wants that.

        The victim must hold a wanted resource that the queue has enough of without it; the other resources it holds may
        fall below what is deserved, since all of them can seldom be met together. What is guaranteed stays whole. A
        victim that holds only undeserved resources may be taken as soon as that helps.
        """
        left, due = self.allocated.get, self.deserved
        kept, guaranteed, borrowed, useful = False, self.guarantee.get, True, False
        for name, amount in held.items():
            if amount <= 0:
                continue
            rest = left(name, 0) - amount
            if rest < guaranteed(name, 0):
                return False
            of_use = wanted.get(name, 0) > 0
            useful = useful or of_use
            if name in due:
                borrowed = False
                kept = kept or (of_use and rest >= due[name])
        return useful if borrowed else kept

    def missing_to_admit(self, job: JobInfo) -> str:
        """Return the resources that a job requests too much of to enter the queue, as text; "" if there are none."""
        lacking = []
        for name, amount in min_resources_of(job).items():
            rigid = self.allocated.get(name, 0) + self.inqueue.get(name, 0) - self.elastic.get(name, 0)
            most = self.capability.get(name, self.default_capability)
            if amount > 0 and rigid + amount > most:
                lacking.append(format_shortage(name, amount, int(most)))
        return "; ".join(lacking)

    def admit(self, job: JobInfo) -> None:
        self.inqueue.add(inqueue_resources(job))


def without_guarantees(whole: Resource, accounts: Iterable[QueueAccount]) -> Resource:
    rest = Resource(whole)
    for account in accounts:
        rest.sub({name: amount for name, amount in account.guarantee.items() if name in whole})
    return rest.positive()


def min_resources_of(job: JobInfo) -> Resource:
    """Return what a job needs before its pods are made; not to be changed."""
    return job.min_resources or _NO_RESOURCES


_NO_RESOURCES = Resource()


def inqueue_resources(job: JobInfo) -> Resource:
    """Return what a job claims from the moment that its pods may be made: its minimum, but for pods behind gates."""
    return _deduct_gated(job, min_resources_of(job))


def remaining_inqueue_resources(job: JobInfo) -> Resource:
    """Return the part of a job's minimum that is kept for it and that its tasks do not hold yet.

    What a running job lacks counts only while it has its minimum of tasks: if the driver has ended, executors that are
    not there any more claim nothing.
    """
    lacking = Resource()
    if job.phase != INQUEUE and not (job.phase == "Running" and job.count(*ALLOCATED) >= job.min_available):
        return lacking
    held = job.allocated.get
    for name, amount in min_resources_of(job).items():
        if amount > held(name, 0):
            lacking[name] = amount - held(name, 0)
    return _deduct_gated(job, lacking)


def elastic_resources(job: JobInfo) -> Resource:
    """Return what a job holds beyond its minimum."""
    held, least = job.allocated, min_resources_of(job)
    return Resource({name: max(held.get(name, 0) - least.get(name, 0), 0) for name in (*held, *least)})


def _deduct_gated(job: JobInfo, claim: Resource) -> Resource:
    if claim.is_empty or not job.gated_num:
        return claim
    gated = Resource()
    for task in job.with_status(TaskStatus.PENDING).values():
        if task.is_gated:
            gated.add(task.request)
    return Resource((name, max(amount - gated.get(name, 0), 0)) for name, amount in claim.items())
