"""The hooks' view of a session: jobs, tasks, queues and nodes with what is left on them, including its changes so far.

The live tables know what the pods of a node take. A session assumes more: it puts promised tasks on their nodes and
takes victims off. Three columns per resource, registered with the state, keep these apart:

    idle        allocatable - requested - evicted + pipelined       free now
    releasing   terminating + evicted                               held by those who are to go
    future idle idle + releasing - pipelined                        free once they have gone

On a node with a victim of this session no task fits before the next one, whatever is free: the predicates look at the
node as if the victim had gone, while its ports and its terms are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kframework import NodeTable, PodInfo, Statement
from kframework.engine import ClusterState, Column
from kframework_batch.core_plugins import CorePlugins
from kframework_batch.hypernodes import HyperNodes
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource

_PODS = "pods"


class NodeIdle:
    """The node arithmetic of one session; `terminating` are the pods on nodes that are on their way out."""

    def __init__(self, nodes: NodeTable, terminating: Iterable[PodInfo] = ()) -> None:
        self._nodes = nodes
        #: The columns that hold anything, by resource.
        self._terminating: dict[str, Column] = {}
        self._evicted: dict[str, Column] = {}
        self._pipelined: dict[str, Column] = {}
        self._columns = {"terminating": self._terminating, "evicted": self._evicted, "pipelined": self._pipelined}
        for pod in terminating:
            if pod.row >= 0:
                for resource, amount in _pod_resources(pod):
                    self._column("terminating", resource).cells[pod.row] += amount
                nodes.mark_changed(pod.row)

    def close(self) -> None:
        """Clear the columns: the next session begins with its own."""
        for columns in self._columns.values():
            for column in columns.values():
                for row in np.flatnonzero(column.values).tolist():
                    column.cells[row] = 0
                    self._nodes.mark_changed(row)
            columns.clear()

    def add_pod(self, kind: str, statement: Statement, pod: PodInfo, row: int) -> None:
        """Count a task that was promised room on a node (`pipelined`), or a victim taken off it (`evicted`)."""
        for resource, amount in _pod_resources(pod):
            column = self._column(kind, resource)
            statement.write(column, row, column.cells[row] + amount)

    def _column(self, kind: str, resource: str) -> Column:
        column = self._columns[kind].get(resource)
        if column is None:
            column = self._columns[kind][resource] = self._nodes.column(f"batch/{kind}/{resource}")
        return column

    def idle(self, row: int) -> Resource:
        """Return what is free on a node now; below zero where others have taken too much."""
        return Resource((resource, self._free_now(resource, row)) for resource in self._nodes.allocatables)

    def future(self, row: int) -> Resource:
        """Return what is free on a node once those who are to go have gone."""
        return Resource((resource, self._free_later(resource, row)) for resource in self._nodes.allocatables)

    @property
    def is_unchanged(self) -> bool:
        """Whether there are no victims, terminating tasks or promises: what will be free is free now."""
        return not (self._terminating or self._evicted or self._pipelined)

    def fits_idle(self, task: TaskInfo, row: int) -> bool:
        if self._evicted and _cell(self._evicted, _PODS, row):
            return False
        return all(amount <= self._free_now(resource, row) for resource, amount in task_resources(task))

    def fits_future(self, task: TaskInfo, row: int) -> bool:
        """Return whether a task fits a node once those who are to go have gone."""
        if self._terminating:
            return all(amount <= self._free_later(resource, row) for resource, amount in task_resources(task))
        # Mostly no task is leaving. A loop, as this runs for every task: `all` takes three times as long.
        allocatables, requesteds = self._nodes.allocatables, self._nodes.requesteds
        for resource, amount in task.request.items():
            offered = allocatables.get(resource)
            if offered is None or amount > offered.cells[row] - requesteds[resource].cells[row]:
                return False
        return allocatables[_PODS].cells[row] > requesteds[_PODS].cells[row]

    def _free_now(self, resource: str, row: int) -> int:
        evicted, pipelined = _cell(self._evicted, resource, row), _cell(self._pipelined, resource, row)
        return self._free(resource, row) - evicted + pipelined

    def _free_later(self, resource: str, row: int) -> int:
        return self._free(resource, row) + _cell(self._terminating, resource, row)

    def _free(self, resource: str, row: int) -> int:
        nodes = self._nodes
        return _cell(nodes.allocatables, resource, row) - _cell(nodes.requesteds, resource, row)

    def fitting_idle(self, task: TaskInfo, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of many nodes a task fits now (bool, aligned with rows)."""
        fits = np.ones(len(rows), dtype=np.bool_)
        for resource, amount in task_resources(task):
            free = self._free_of(resource, rows)
            promised = self._pipelined.get(resource)
            fits &= (free if promised is None else free + promised.values[rows]) >= amount
        victims = self._evicted.get(_PODS)
        return fits if victims is None else fits & (victims.values[rows] == 0)

    def fitting_future(self, task: TaskInfo, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of many nodes a task fits once those who are to go have gone (bool, aligned with rows)."""
        fits = np.ones(len(rows), dtype=np.bool_)
        for _, _, enough in self.shortages(task, rows):
            fits &= enough
        return fits

    def shortages(self, task: TaskInfo, rows: NDArray[np.int64]) -> Iterator[tuple[str, int, NDArray[np.bool_]]]:
        """Yield each resource that a task asks for with the amount and where there will be enough of it."""
        for resource, amount in task_resources(task):
            free = self._free_of(resource, rows)
            column = self._terminating.get(resource)
            yield resource, amount, (free if column is None else free + column.values[rows]) >= amount

    def total_future(self, resource: str, rows: NDArray[np.int64]) -> int:
        """Return what will be free of a resource on these nodes together, once those who are to go have gone."""
        free = self._free_of(resource, rows)
        column = self._terminating.get(resource)
        return int(np.maximum(free if column is None else free + column.values[rows], 0).sum())

    def _free_of(self, resource: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._nodes.allocatable(resource)[rows] - self._nodes.requested(resource)[rows]


def _cell(columns: Mapping[str, Column], resource: str, row: int) -> int:
    column = columns.get(resource)
    return 0 if column is None else column.cells[row]


def task_resources(task: TaskInfo) -> list[tuple[str, int]]:
    """List what must be free for a task: what it asks for, and a place among the pods."""
    return [*task.request.items(), (_PODS, 1)]


def _pod_resources(pod: PodInfo) -> list[tuple[str, int]]:
    return [*pod.on_node, (_PODS, 1)]


_BATCH = 256


class SessionView:
    """A read-only view of one session.

    `jobs` are those that can be scheduled: they have a valid group, and its queue is known; in the order of their
    creation. `queues` are all queues by name; `total` is what all nodes offer, `used` what pods take of it, `idle` what
    is left on each node. `leaving` are the pods that still take room but are to go. `core` calls the core's plugins.
    `hypernodes` shows which nodes are close to each other.
    """

    def __init__(
        self,
        uid: str,
        now: float,
        cluster: ClusterState,
        jobs: Iterable[JobInfo],
        queues: Mapping[str, QueueInfo],
        leaving: Iterable[PodInfo],
        core: CorePlugins,
        hypernodes: HyperNodes,
    ) -> None:
        self.uid: str = uid
        #: Seconds since 1970.
        self.now: float = now
        self.nodes: NodeTable = cluster.nodes
        self.queues: Mapping[str, QueueInfo] = queues
        able = (job for job in jobs if job.has_group and not job.invalid_reason and job.queue in queues)
        self.jobs: Mapping[str, JobInfo] = {
            job.uid: job for job in sorted(able, key=lambda job: (job.created, job.uid))
        }
        self.total: Resource = _sum(self.nodes, self.nodes.allocatables)
        self.used: Resource = _sum(self.nodes, self.nodes.requesteds)
        self.idle: NodeIdle = NodeIdle(cluster.nodes, leaving)
        self.core: CorePlugins = core
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
