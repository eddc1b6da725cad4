"""What nodes score under topology spread constraints that should hold: how many pods of the kind are where they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.state.counters import PodCount
from kframework.state.node_sets import NodeSet, NodeSets
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.state.spread_constraints import SpreadConstraint, topology_keys
from kframework.state.topology import Topology

__all__ = ["HOSTNAME", "SpreadScores"]

#: The label of which each value is one node.
HOSTNAME = "kubernetes.io/hostname"

Rows = slice | NDArray[np.int64]


class _Part(NamedTuple):
    """What one constraint adds to the score of a node that has its label: so much for `each` pod, and in any case.

    `pods` are counted per row where a node is a domain of its own, else per domain.
    """

    topology: Topology
    pods: NDArray[np.int64]
    per_row: bool
    each: float
    always: int


class SpreadScores:
    """The scores of nodes for one pod, fewest pods first.

    Where it `needs_labels`, a node that lacks one of the labels is not compared with the others and scores 0: `ignored`
    tells which of the rows to be scored are such, None if none is. It holds for as long as nothing changes.
    """

    __slots__ = ("_needs_labels", "_nodes", "_parts", "ignored")

    def __init__(
        self,
        pod: PendingPod,
        nodes: NodeTable,
        constraints: Sequence[SpreadConstraint],
        node_sets: NodeSets,
        rows: Rows,
        *,
        needs_labels: bool,
    ) -> None:
        scored = rows if isinstance(rows, np.ndarray) else np.arange(nodes.capacity)[rows]
        topologies = [nodes.label(key) for key in topology_keys(constraints)]
        self.ignored: NDArray[np.bool_] | None = None
        if needs_labels and any(topology.sizes.total < len(nodes) for topology in topologies):
            self.ignored = np.logical_or.reduce([topology.values[scored] == 0 for topology in topologies])
            scored = scored[~self.ignored]
        self._nodes = nodes
        self._needs_labels = needs_labels
        self._parts = tuple(_parts(pod, nodes, constraints, node_sets, scored, needs_labels=needs_labels))

    def on(self, row: int) -> int:
        """Return the score of a row."""
        score = 0.0
        for topology, pods, per_row, each, always in self._parts:
            code = topology.cells[row]
            if code:
                score += int(pods[row if per_row else code]) * each + always
            elif self._needs_labels:
                return 0
        whole = math.trunc(score)
        return whole + math.trunc(2 * (score - whole))  # halves go away from zero

    def on_rows(self, rows: Rows) -> NDArray[np.int64]:
        """Return the scores of many rows."""
        nodes = self._nodes
        score: NDArray[np.float64] = np.zeros(nodes.capacity)[rows]
        unlabelled = []
        for topology, pods, per_row, each, always in self._parts:
            codes = topology.values[rows]
            part = pods[rows if per_row else codes] * each + always
            if topology.sizes.total < len(nodes):
                part[codes == 0] = 0
                unlabelled.append(codes == 0)
            score += part
        if self._needs_labels:
            for lacking in unlabelled:
                score[lacking] = 0
        whole = np.trunc(score)
        return (whole + np.trunc(2 * (score - whole))).astype(np.int64)


def _parts(
    pod: PendingPod,
    nodes: NodeTable,
    constraints: Sequence[SpreadConstraint],
    node_sets: NodeSets,
    scored: NDArray[np.int64],
    *,
    needs_labels: bool,
) -> Iterator[_Part]:
    keys = topology_keys(constraints) if needs_labels else ()
    for constraint in constraints:
        topology, always = nodes.label(constraint.topology_key), constraint.max_skew - 1
        count = nodes.counters.count(constraint.counted)
        if topology.key == HOSTNAME:
            # kube-scheduler counts on the node itself then, whatever the policies say of the node.
            yield _Part(topology, count.column.values, True, _weight(len(scored)), always)
            continue
        among = node_sets.of(pod, keys, affinity=constraint.honors_affinity, taints=constraint.honors_taints)
        tally = count.domains(topology) if among is None else among.tally(count, topology)
        pods, codes = tally.values, topology.values[scored]
        if not needs_labels and (nameless := topology.known("")):
            # The domain of the empty value is that of the nodes without the label too.
            pods, codes = pods.copy(), np.where(codes == 0, nameless, codes)
            pods[nameless] += _unlabelled_pods(nodes, among, count, topology)
        yield _Part(topology, pods, False, _weight(int(np.count_nonzero(np.bincount(codes)))), always)


def _weight(domains: int) -> float:
    """Return what a pod counts for with so many domains: the more there are, the fewer pods each has."""
    return math.log(domains + 2)


def _unlabelled_pods(nodes: NodeTable, among: NodeSet | None, count: PodCount, topology: Topology) -> int:
    rows = nodes.order if among is None else among.rows()
    return int(count.column.values[rows[topology.values[rows] == 0]].sum())
