"""A queue, as a session sees it: what jobs share, and what is due to them together."""

from __future__ import annotations

from kframework_batch.objects import Queue, QueueStatus
from kframework_batch.resource import Resource

#: The queue of jobs that name none.
DEFAULT_QUEUE = "default"
#: The queue above all others, where queues form a tree.
ROOT_QUEUE = "root"


class QueueInfo:
    """One Queue object, read once."""

    __slots__ = (
        "annotations",
        "capability",
        "created",
        "deserved",
        "guarantee",
        "name",
        "object",
        "open",
        "parent",
        "priority",
        "reclaimable",
        "status",
        "uid",
        "weight",
    )

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
