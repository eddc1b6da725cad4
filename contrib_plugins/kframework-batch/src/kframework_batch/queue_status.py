"""Where a session leaves the queues: how many pod groups of each phase are in them, and what these hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kframework.objects import QuantityError, ResourceList
from kframework_batch.job import JobInfo
from kframework_batch.objects import QueueStatus
from kframework_batch.queue import ROOT_QUEUE, QueueInfo
from kframework_batch.resource import Resource, quantity_of


def queue_statuses(queues: Mapping[str, QueueInfo], jobs: Iterable[JobInfo]) -> dict[str, QueueStatus]:
    """Return the statuses of queues that say something new, by name.

    What a queue holds counts for the queues above it as well, as Volcano has it; all are below the root queue, if
    there is one.
    """
    inside: dict[str, list[JobInfo]] = {name: [] for name in queues}
    allocated = {name: Resource() for name in queues}
    for job in jobs:
        if job.queue in queues:
            inside[job.queue].append(job)
            for name in _upwards(job.queue, queues):
                allocated[name].add(job.held)
    found = {name: queue_status(queue, inside[name], allocated[name]) for name, queue in queues.items()}
    return {name: status for name, status in found.items() if status is not None}


def queue_status(queue: QueueInfo, jobs: Sequence[JobInfo], allocated: Resource) -> QueueStatus | None:
    """Return the status of a queue with these jobs in it, None if it says nothing new.

    `allocated` is what they hold, with all that is held below. The state of the queue is not ours to say: it is left
    empty.
    """
    phases = Counter(job.phase for job in jobs)
    counts = (phases["Pending"], phases["Running"], phases["Unknown"], phases["Inqueue"], phases["Completed"])
    old = queue.status
    same = counts == (old.pending, old.running, old.unknown, old.inqueue, old.completed)
    if same and _says(old.allocated, allocated):
        return None
    pending, running, unknown, inqueue, completed = counts
    # A merge patch leaves what it does not name: what is held no more must be named.
    held = {name: allocated.get(name, 0) for name in sorted({"cpu", "memory", *old.allocated, *allocated})}
    return QueueStatus(
        pending=pending,
        running=running,
        unknown=unknown,
        inqueue=inqueue,
        completed=completed,
        allocated={name: quantity_of(name, amount) for name, amount in held.items()},
    )


def _upwards(name: str, queues: Mapping[str, QueueInfo]) -> list[str]:
    """Name a queue and those above it, as far as they exist; each once, even if they form a circle."""
    path: list[str] = []
    while name in queues and name not in path:
        path.append(name)
        name = queues[name].parent or ROOT_QUEUE
    return path


def _says(quantities: ResourceList, allocated: Resource) -> bool:
    """Return whether these quantities are these amounts; what is not named is nothing."""
    try:
        said = Resource.parse(quantities)
    except QuantityError:
        return False
    return all(said.get(name, 0) == allocated.get(name, 0) for name in {**said, **allocated})
