"""How far a search goes through the nodes: where it starts, and how many feasible ones are enough."""

from __future__ import annotations


class Rotation:
    """Where the next search starts in the order of the nodes; one for all profiles."""

    __slots__ = ("next_start_index",)

    def __init__(self, next_start_index: int = 0) -> None:
        self.next_start_index: int = next_start_index


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return how many feasible nodes are enough (kube-scheduler's numFeasibleNodesToFind); percentage 0 is adaptive."""
    if nodes < 100:
        return nodes
    percentage = percentage or max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, 100)
