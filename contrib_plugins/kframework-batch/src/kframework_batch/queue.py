"""A queue, as a session sees it: what jobs share, and what is due to them together."""

from __future__ import annotations

from collections.abc import Mapping

from kframework_batch.objects import Queue, QueueStatus
from kframework_batch.resource import Resource

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
        #: What its owner says that it is due (read by `capacity` alone).
        self.deserved: Resource = Resource.parse(spec.deserved)
        self.parent: str = spec.parent
        #: Whether others may take back what it holds beyond its due.
        self.reclaimable: bool = spec.reclaimable is not False
        self.open: bool = obj.status.state in ("", "Open")

    def __repr__(self) -> str:
        return f"<QueueInfo {self.name}, weight {self.weight}{'' if self.open else ', not open'}>"


class QueueTree:
    """The place of each queue below the root, which is there even if no object says so.

    `paths` leads from the root to each queue, by name; it is empty if the queues make no tree, and `broken` says why.
    """

    def __init__(self, queues: Mapping[str, QueueInfo]) -> None:
        self._parents = {name: queue.parent or ROOT_QUEUE for name, queue in queues.items() if name != ROOT_QUEUE}
        self._inner = {ROOT_QUEUE, *self._parents.values()} if self._parents else set()
        self.broken: str = ""
        paths: dict[str, tuple[str, ...]] = {ROOT_QUEUE: (ROOT_QUEUE,)}
        for name in self._parents:
            if not self.broken:
                self._follow(name, paths)
        self.paths: dict[str, tuple[str, ...]] = {} if self.broken else paths

    def _follow(self, name: str, paths: dict[str, tuple[str, ...]]) -> None:
        """Find the paths of a queue and of those above it."""
        steps: dict[str, None] = {}
        while name not in paths:
            if name in steps:
                circle = [*list(steps)[list(steps).index(name) :], name]
                self.broken = f"queue {name} is its own ancestor ({' -> '.join(circle)}): change a spec.parent"
                return
            steps[name] = None
            parent = self._parents[name]
            if parent != ROOT_QUEUE and parent not in self._parents:
                remedy = "create it, or change spec.parent"
                self.broken = f"queue {name} has the parent {parent}, which does not exist: {remedy}"
                return
            name = parent
        for step in reversed(steps):
            paths[step] = (*paths[self._parents[step]], step)

    def is_leaf(self, name: str) -> bool:
        """Return whether there is no queue below this one, so that it may have jobs."""
        return name not in self._inner
