"""network-topology-aware: prefers full hypernodes, and keeps the tasks of a job close to each other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from kframework_batch.hookspecs import Rows
from kframework_batch.hypernodes import Domain, occupied_rows
from kframework_batch.job import GangInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.plugins.binpack import MAX_SCORE, WeightedArguments
from kframework_batch.session_view import SessionView
from kframework_batch.task_status import TaskStatus


class NetworkTopologyAwareArguments(WeightedArguments):
    """What the plugin as a whole weighs, and each resource."""

    weight: int = Field(1, alias="weight")
    cpu: int = Field(1, alias="hypernode.binpack.cpu")
    memory: int = Field(1, alias="hypernode.binpack.memory")
    resources: str = Field("", alias="hypernode.binpack.resources")


class NetworkTopologyAware(BatchPlugin):
    """Scores hypernodes and nodes for jobs and subgroups with a network topology.

    A hypernode scores by how full it would be with all their waiting tasks, 0 if that is too much for it. A node scores
    by the lowest hypernode that holds it and all that they have on nodes already: the lower the better.
    """

    name: ClassVar[str] = "network-topology-aware"
    Arguments: ClassVar[type[BatchArguments]] = NetworkTopologyAwareArguments

    arguments: NetworkTopologyAwareArguments

    def sign(self, session: SessionView, task: TaskInfo) -> Hashable | None:
        """Sign that all nodes are alike to a task; not where they are not, since that changes with each of its job."""
        return () if _topology_gang(task) is None else None

    @hookimpl
    def hypernode_order(self, session: SessionView, gang: GangInfo, hypernode: Domain) -> float:
        score, weights = 0.0, 0
        waiting = gang.with_status(TaskStatus.PENDING).values()
        for resource, weight in self.arguments.weights.items():
            amount = sum(task.request.get(resource, 0) for task in waiting)
            if not amount or not weight:
                continue
            offered = int(session.nodes.allocatable(resource)[hypernode.rows].sum())
            taken = int(session.nodes.requested(resource)[hypernode.rows].sum()) + amount
            if taken > offered:
                return 0.0
            weights += weight
            score += weight * taken / offered
        return score / weights * self._max_score if weights else 0.0

    @hookimpl
    def node_order_nodes(self, session: SessionView, task: TaskInfo, rows: Rows) -> NDArray[np.float64]:
        scores, gang = np.zeros(len(rows)), _topology_gang(task)
        if gang is None or not (there := occupied_rows(session.nodes, gang)):
            return scores
        tiers = [domain.tier for domain in session.hypernodes.domains()]
        lowest, highest = min(tiers, default=0), max(tiers, default=0)
        for domain in session.hypernodes.domains():
            if domain.contains_rows(there):
                worth = 1.0 if lowest == highest else (highest + 1 - domain.tier) / (highest + 1 - lowest)
                np.maximum(scores, np.isin(rows, domain.rows) * worth, out=scores)
        return scores * self._max_score

    @property
    def _max_score(self) -> int:
        """What a hypernode scores that would be full."""
        return MAX_SCORE * (1 if self.arguments.weight < 0 else self.arguments.weight)


def _topology_gang(task: TaskInfo) -> GangInfo | None:
    """Return the smallest gang of a task that has a network topology; None if none has."""
    return next((gang for gang in reversed(task.gangs) if gang.topology is not None), None)
