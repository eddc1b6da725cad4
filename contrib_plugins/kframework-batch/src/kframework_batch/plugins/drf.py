"""drf: jobs with the smallest dominant share go first (dominant resource fairness, Ghodsi et al., NSDI 2011).

With `enableHierarchy` queues form a tree of shares, with jobs as its leaves (Bhattacharya et al., SoCC 2013). Two
annotations give a queue's place: `volcano.sh/hierarchy`, as in "root/science/physics", and
`volcano.sh/hierarchy-weights`, as in "1/2/1". A queue without them is a child of the root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import ClassVar, TypeAlias

from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource, dominant_share
from kframework_batch.session_view import SessionView

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"

#: Whether a node is saturated, and its share by weight, from the top to a queue.
FairKey: TypeAlias = tuple[tuple[bool, float], ...]


class _Leaf:
    """A job: saturated once it has all that it asks for of some resource, or asks for one that is used up or missing.

    A job without requests is saturated too. Volcano takes it, and one that asks for what is missing, for a job that can
    still be served: its queue always comes first, reclaims what another one holds, and that one is served again.
    """

    __slots__ = ("allocated", "parent", "requested", "saturated", "share", "stale")

    def __init__(self, parent: _Node, held: Resource, requested: Resource) -> None:
        self.parent = parent
        self.allocated: Mapping[str, float] = held
        self.requested = requested
        self.share = 0.0
        self.saturated = False
        self.stale = True

    def refresh(self, total: Resource, used_up: set[str]) -> None:
        if self.stale:
            held = self.allocated
            self.share = dominant_share(held, total)
            requested = [(name, amount) for name, amount in self.requested.items() if amount > 0]
            self.saturated = not requested or any(
                name in used_up or name not in total or held.get(name, 0) >= amount for name, amount in requested
            )
            self.stale = False


class _Node:
    """A node of the tree: it holds what is below it, with unsaturated parts scaled down to the smallest of them.

    So a part that took a lot while its siblings had no demand does not count against them.
    """

    __slots__ = ("allocated", "children", "parent", "saturated", "share", "stale", "weight")

    def __init__(self, parent: _Node | None, weight: float) -> None:
        self.parent = parent
        self.weight = weight
        self.children: dict[str, _Node | _Leaf] = {}
        self.allocated: Mapping[str, float] = {}
        self.share = 0.0
        self.saturated = True
        self.stale = True

    def refresh(self, total: Resource, used_up: set[str]) -> None:
        if not self.stale:
            return
        held: dict[str, float] = {}
        children = self.children.values()
        for child in children:
            child.refresh(total, used_up)
        smallest = min([1.0, *[child.share for child in children if child.share and not child.saturated]])
        for child in children:
            if child.share:
                factor = 1.0 if child.saturated else smallest / child.share
                for name, amount in child.allocated.items():
                    held[name] = held.get(name, 0.0) + amount * factor
        self.allocated = held
        self.share = dominant_share(held, total)
        self.saturated = all(child.saturated for child in children)
        self.stale = False


class FairTree:
    """The tree of one session. What changes is noted at once; shares are worked out when they are asked for."""

    def __init__(self, total: Resource) -> None:
        self._total = total
        self._held = Resource()
        self._used_up = {name for name, whole in total.items() if whole <= 0}
        self._root = _Node(None, 1.0)
        self._queues: dict[str, tuple[_Node, ...]] = {}
        self._jobs: dict[str, _Leaf] = {}

    def add_queue(self, queue: QueueInfo) -> None:
        """Find the node of a queue; the first queue at a node sets its weight."""
        names = queue.annotations.get(HIERARCHY, f"root/{queue.name}").split("/")[1:]
        weights = queue.annotations.get(WEIGHTS, "").split("/")[1:]
        path = [self._root]
        for name, weight in zip_longest(names, weights[: len(names)], fillvalue=""):
            node = path[-1].children.get(f"/{name}")
            if not isinstance(node, _Node):
                node = path[-1].children[f"/{name}"] = _Node(path[-1], _weight(weight))
            path.append(node)
        self._queues[queue.name] = tuple(path[1:])

    def add_job(self, job: JobInfo, held: Resource) -> None:
        """Hang a job below its queue; `held` is the caller's account of it, followed from now on (`note`)."""
        parent = (self._root, *self._queues[job.queue])[-1]
        # Names of places begin with a slash, which no uid of a job does.
        leaf = parent.children[job.uid] = _Leaf(parent, held, job.requested)
        self._jobs[job.uid] = leaf
        self._count(held, 1)

    def update_job(self, job: JobInfo, amounts: Resource, sign: int) -> None:
        """Record that the account of a job has changed by these amounts: more with 1, less with -1."""
        self._jobs[job.uid].stale = True
        node: _Node | None = self._jobs[job.uid].parent
        while node is not None and not node.stale:
            node.stale = True
            node = node.parent
        self._count(amounts, sign)

    def key(self, queue: QueueInfo) -> FairKey:
        """Return what orders a queue: from the top, unsaturated before saturated, then by share and weight."""
        self._root.refresh(self._total, self._used_up)
        return tuple([(node.saturated, node.share / node.weight) for node in self._queues[queue.name]])

    def _count(self, amounts: Resource, sign: int) -> None:
        """Count what all jobs hold; where a resource is used up now, or no longer is, any job may have changed."""
        held, used_up = self._held, self._used_up
        for name, amount in amounts.items():
            held[name] = held.get(name, 0) + sign * amount
            whole = self._total.get(name)
            if whole is not None and (held[name] >= whole) != (name in used_up):
                used_up ^= {name}
                self._make_stale(self._root)

    def _make_stale(self, node: _Node) -> None:
        node.stale = True
        for child in node.children.values():
            if isinstance(child, _Node):
                self._make_stale(child)
            else:
                child.stale = True


def _weight(text: str) -> float:
    """Read a weight; what is no number, or less than 1, is 1."""
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0


#: Shares that differ by less are the same.
_TOLERANCE = 1e-6


class Drf(BatchPlugin):
    """Orders jobs by the largest share that they hold of any resource; with `enableHierarchy` queues as well.

    A job that holds room but has fallen below its minimum goes before all that hold none or have enough. Its share
    alone would put it behind every new job, indefinitely if new jobs keep arriving, while what it holds is wasted.
    It cannot starve the others: it is ahead only until it has its minimum, and a job gets room only together with its
    minimum, so a job reaches this state only by losing tasks that had their turn before.
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
                self._tree.update_job(task.job, task.request, 1)

    @hookimpl
    def deallocated(self, session: SessionView, task: TaskInfo) -> None:
        if (held := self._held.get(task.job.uid)) is not None:
            held.sub(task.request)
            if self._tree is not None:
                self._tree.update_job(task.job, task.request, -1)

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
            if gained <= dominant_share(rest, self._total) + _TOLERANCE:
                left[uid] = rest
                victims.append(task)
        return victims

    @hookimpl
    def reclaimable(
        self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo] | None:
        """Name those whose queues come, without them, after the reclaimer's with and without it; abstain without tree.

        Volcano checks only the first. But the queue that comes first without it gets the room in the next session: if
        that were the victim's, or the order were undefined, both would reclaim the same room from each other endlessly.
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
