"""What hooks see of a session: jobs, tasks, queues and nodes, as the session has made them so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kframework import NodeTable, PodInfo
from kframework.engine import ClusterState, Column
from kframework_batch.core_questions import CoreQuestions
from kframework_batch.hypernodes import HyperNodes
from kframework_batch.idle import NodeIdle
from kframework_batch.job import JobInfo
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource

_BATCH = 256


class SessionView:
    """One session, to be looked at.

    `jobs` are those that can be scheduled: there is a group that says so, and its queue is known; in the order of their
    creation. `queues` are all queues by name; `total` is what all nodes offer, `used` what pods take of it, `idle` what
    is left on each node. `leaving` are the pods that still take room but are to go. `core` asks the core's plugins.
    `hypernodes` says which nodes are close to each other.
    """

    def __init__(
        self,
        uid: str,
        now: float,
        cluster: ClusterState,
        jobs: Iterable[JobInfo],
        queues: Mapping[str, QueueInfo],
        leaving: Iterable[PodInfo],
        core: CoreQuestions,
        hypernodes: HyperNodes,
    ) -> None:
        self.uid: str = uid
        #: Seconds since 1970.
        self.now: float = now
        self.nodes: NodeTable = cluster.nodes
        self.queues: Mapping[str, QueueInfo] = queues
        able = (job for job in jobs if job.known and not job.refused and job.queue in queues)
        self.jobs: Mapping[str, JobInfo] = {
            job.uid: job for job in sorted(able, key=lambda job: (job.created, job.uid))
        }
        self.total: Resource = _sum(self.nodes, self.nodes.allocatables)
        self.used: Resource = _sum(self.nodes, self.nodes.requesteds)
        self.idle: NodeIdle = NodeIdle(cluster.nodes, leaving)
        self.core: CoreQuestions = core
        self.hypernodes: HyperNodes = hypernodes


def in_batches(jobs: Iterable[JobInfo]) -> Iterator[Sequence[JobInfo]]:
    """Yield jobs in their order, as many at a time as take a millisecond or two to look at."""
    every = list(jobs)
    return (every[start : start + _BATCH] for start in range(0, len(every), _BATCH))


def _sum(nodes: NodeTable, columns: Mapping[str, Column]) -> Resource:
    """Add up the columns of all nodes, but for the number of pods; of what no node has there is a column, too."""
    order = nodes.order
    sums = ((name, int(column.values[order].sum())) for name, column in columns.items() if name != "pods")
    return Resource((name, amount) for name, amount in sums if amount)
