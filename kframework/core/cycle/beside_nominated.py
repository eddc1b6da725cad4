"""Remembered answers about nodes on which the pods nominated to them had already arrived.

Where a thousand preemptors wait for their victims to end, a thousand nodes have a pod nominated to them, and each
attempt would ask about each of them. Of these only those are asked about that changed since a pod of the same kind was
tried.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.question import Question, filter_beside_nominated_pods
from kframework.core.cycle.rejections import FIRST, NOMINATED, PASS, UNREACHED, StatusTable
from kframework.framework.cycle_state import CycleState
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Scores


class ChangedRows:
    """Tells on which rows the node, its pods or the pods nominated to it have changed, from one pod to the next.

    To the node that it is nominated to itself a pod is no other pod, so that row is another one to it.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._nodes = cluster.nodes
        self._nominator = cluster.nominator
        self._pods = cluster.nodes.pod_log.reader()
        self._nominations = cluster.nominator.log.reader()
        self._own = ""

    def since_last(self, pod: PodInfo) -> list[int] | None:
        """Return the rows, some of them twice; None where any may have changed, as at first."""
        rows, names = self._pods.changed(), self._nominations.changed()
        before, self._own = self._own, self._nominator.node_of(pod.uid)
        if rows is None or names is None:
            return None
        found = (self._nodes.row(name) for name in (before, self._own, *names) if name)
        return [*rows, *(row for row in found if row is not None)]


class BesideNominated:
    """What stands against each node beside the pods nominated to it, for the pods of one signature.

    Bring it up to date before it is asked. It takes 8 bytes a row once there are nominated pods.
    """

    def __init__(self) -> None:
        self.table: StatusTable = StatusTable(NOMINATED)
        self._changed: ChangedRows | None = None
        self._rejections: Column = Column(0)
        #: Those that are as important as the pod count, so a pod of another priority finds other answers.
        self._priority = 0

    def catch_up(self, cluster: ClusterState, pod: PendingPod) -> None:
        """Forget what has changed since the last pod."""
        nodes = cluster.nodes
        if self._changed is None:
            self._changed, self._rejections = ChangedRows(cluster), Column(nodes.capacity)
        rows = self._changed.since_last(pod)
        if rows is None or pod.priority != self._priority or len(self.table) > 2 * len(nodes):
            self._priority = pod.priority
            self.table.clear()
            self._rejections.values[:] = PASS
            found = (nodes.row(name) for name in cluster.nominator.node_names)
            rows = [row for row in found if row is not None]
        for row in rows:
            self._rejections.cells[row] = UNREACHED

    def rejections(self, question: Question, state: CycleState, rows: NDArray[np.int64]) -> Scores:
        """Return what stands against these rows, asking about those of which it is not known."""
        found = self._rejections.values[rows]
        for place in np.flatnonzero(found == UNREACHED).tolist():
            row = int(rows[place])
            node = question.cluster.nodes[row]
            status = filter_beside_nominated_pods(question, question.filters, state, node)
            rejection = PASS if status is None else self.table.rejection(FIRST, status)
            found[place] = self._rejections.cells[row] = rejection
        return found
