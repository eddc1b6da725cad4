"""The pods on nodes that have something rare about them, by row, for questions that are about no others."""

from __future__ import annotations

from collections.abc import Callable

from kframework.state.nodes import NodeTable
from kframework.state.pods import PodInfo


class ChosenPods:
    """Those pods that are chosen, by row; rows without any are left out.

    Catch up before looking.
    """

    def __init__(self, nodes: NodeTable, chosen: Callable[[PodInfo], object]) -> None:
        self._nodes = nodes
        self._pod_log = nodes.pod_log.reader()
        self._chosen = chosen
        self.by_row: dict[int, list[PodInfo]] = {}

    def catch_up(self) -> None:
        """Choose anew on the rows whose pods have changed since the last time."""
        nodes, changed = self._nodes, self._pod_log.changed()
        for row in range(nodes.size) if changed is None else dict.fromkeys(changed):
            node = nodes.by_row[row]
            pods = [pod for pod in node.pods if self._chosen(pod)] if node is not None else []
            if pods:
                self.by_row[row] = pods
            else:
                self.by_row.pop(row, None)

    def __repr__(self) -> str:
        return f"<ChosenPods on {len(self.by_row)} rows>"
