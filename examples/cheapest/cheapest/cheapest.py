"""Cheapest: prefer the node where a pod costs least, and let a pod say how much it may cost.

A pod costs its share of the node: as much of the price as it requests of the node's cpu or memory, whichever is more,
since that part is of no use to others. So a large node is not dear because it is large.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from cheapest.prices import CheapestArgs
from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    Rows,
    Scores,
    Skip,
    StateKey,
    Status,
    Suggestion,
    default_normalize,
    hookimpl,
    lower_request,
    unresolvable,
)

__all__ = ["MAX_PER_HOUR", "Cheapest"]

MAX_PER_HOUR = "cost.example.com/max-per-hour"

#: What the pod may cost an hour, in millionths.
LIMIT = StateKey[float]("Cheapest/limit")


class Cheapest(Plugin[CheapestArgs]):
    """Filter out nodes where a pod costs more than it may; score the others by how little it costs."""

    name = "Cheapest"
    reads = "node"  # its labels and what it offers; its pods change nothing

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        return pod.non_zero, pod.labels.get(MAX_PER_HOUR)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        if MAX_PER_HOUR not in pod.labels:
            return Skip
        state[LIMIT] = 1e6 * _number(pod.labels[MAX_PER_HOUR])
        return None if state[LIMIT] >= 0 else unresolvable(f"label {MAX_PER_HOUR} must be a number")

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        # Unresolvable: the price is the same whoever else runs there, so preemption need not try.
        exceeded = self._cost(pod, node) > state[LIMIT]
        return unresolvable(f"node(s) cost the pod more than {pod.labels[MAX_PER_HOUR]} an hour") if exceeded else None

    @hookimpl
    def suggest(
        self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status
    ) -> list[tuple[Suggestion, ...]]:
        if node is None:
            return []
        # How much of the node the pod can pay for; one that is free was not rejected.
        share = state[LIMIT] / self.args.price(node)
        requests = zip(("cpu", "memory"), pod.non_zero, strict=True)
        affordable = [(resource, amount, int(share * node.allocatable(resource))) for resource, amount in requests]
        return [tuple(lower_request(resource, amount - to, to) for resource, amount, to in affordable if amount > to)]

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return self._cost(pod, node)

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        cpu, memory = pod.non_zero
        cpu_share = cpu / np.maximum(nodes.allocatable("cpu")[rows], 1)
        memory_share = memory / np.maximum(nodes.allocatable("memory")[rows], 1)
        share = np.minimum(np.maximum(cpu_share, memory_share), 1.0)
        return (self.args.price_nodes(nodes, rows) * share).astype(np.int64)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # A node that costs half as much as the dearest gets 50, one that costs nothing 100.
        return default_normalize(scores, reverse=True)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        pod_changes = ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN
        return [
            ClusterEvent(EventResource.NODE, node_changes),
            ClusterEvent(EventResource.TARGET_POD, pod_changes),
        ]

    def _cost(self, pod: PendingPod, node: NodeInfo) -> int:
        # A container that requests nothing counts as kube-scheduler counts it: 100m and 200Mi. No more than the whole
        # node is charged, also for what a node lacks altogether: there NodeResourcesFit has the say.
        cpu, memory = pod.non_zero
        share = max(cpu / max(node.allocatable("cpu"), 1), memory / max(node.allocatable("memory"), 1))
        return int(self.args.price(node) * min(share, 1.0))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
