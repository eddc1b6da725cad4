"""Which rows may look different to a pod than they looked to the one of its kind that was tried before it."""

from __future__ import annotations

from kframework.state.cluster import ClusterState
from kframework.state.pods import PodInfo


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
