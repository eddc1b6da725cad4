"""Scores under topology spread constraints that should hold, by the number of pods of the kind in each domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.plugins.pod_topology_spread.spread_constraints import SpreadConstraint, topology_keys
from kframework.state.columns import Column
from kframework.state.node_sets import NodeSet, NodeSets
from kframework.state.nodes import NodeTable
from kframework.state.pod_counts import PodCount
from kframework.state.pods import PendingPod
from kframework.state.topology import Topology
from kframework.values.scores import Rows

#: The label whose values are single nodes.
HOSTNAME = "kubernetes.io/hostname"


class _PerDomain(NamedTuple):
    """A constraint on domains of several nodes, with the score of a node in each."""

    topology: Topology
    scores: NDArray[np.float64]

    def score(self, row: int) -> float:
        return float(self.scores[self.topology.cells[row]])

    def score_rows(self, rows: Rows) -> NDArray[np.float64]:
        return self.scores[self.topology.values[rows]]


class _PerNode(NamedTuple):
    """A constraint on nodes as their own domains: the score per pod, and the constant part.

    `on_all_nodes`: all nodes have the label.
    """

    topology: Topology
    on_all_nodes: bool
    pods: Column
    per_pod: float
    constant: int

    def score(self, row: int) -> float:
        return self.pods.cells[row] * self.per_pod + self.constant if self.topology.cells[row] else 0.0

    def score_rows(self, rows: Rows) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = np.multiply(self.pods.values[rows], self.per_pod) + self.constant
        return scores if self.on_all_nodes else np.where(self.topology.values[rows] != 0, scores, 0)


class _SoftConstraint(NamedTuple):
    """A constraint with the number of pods in each domain; `find_nodes` finds those that count, None if all do."""

    constraint: SpreadConstraint
    topology: Topology
    counted: PodCount
    find_nodes: Callable[[], NodeSet | None]


class SoftConstraints:
    """The constraints of pods of one signature with what they count, valid until `NodeTable.count_changes` changes.

    With `needs_labels`, a node that lacks one of the labels is not compared with the others.
    """

    __slots__ = ("constraints", "labels", "nodes", "version")

    def __init__(
        self,
        pod: PendingPod,
        nodes: NodeTable,
        constraints: Sequence[SpreadConstraint],
        node_sets: NodeSets,
        *,
        needs_labels: bool,
    ) -> None:
        keys = topology_keys(constraints) if needs_labels else ()
        self.nodes: NodeTable = nodes
        self.labels: list[Topology] = [nodes.label(key) for key in keys]
        self.constraints: list[_SoftConstraint] = [
            _SoftConstraint(
                constraint,
                nodes.label(constraint.topology_key),
                nodes.counters.count(constraint.counted),
                partial(
                    node_sets.for_pod, pod, keys, affinity=constraint.honors_affinity, taints=constraint.honors_taints
                ),
            )
            for constraint in constraints
        ]
        self.version: int = nodes.count_changes


class SpreadScores:
    """The scores of nodes for one pod, fewest pods first.

    A node that lacks a needed label scores 0: `ignored` marks these among the rows to be scored, None if there are
    none. It is valid until something changes.
    """

    __slots__ = ("_needed", "_parts", "ignored")

    def __init__(self, soft: SoftConstraints, rows: Rows) -> None:
        nodes = soft.nodes
        scored = rows if isinstance(rows, np.ndarray) else np.arange(nodes.capacity)[rows]
        #: The labels that are needed and that some node lacks.
        self._needed = [topology for topology in soft.labels if topology.sizes.total < len(nodes)]
        self.ignored: NDArray[np.bool_] | None = None
        if self._needed:
            self.ignored = self._lacks_label(scored)
            scored = scored[~self.ignored]
        needs_labels = bool(soft.labels)
        self._parts = [_create_part(each, nodes, scored, needs_labels) for each in soft.constraints]

    def score(self, row: int) -> int:
        if not all(topology.cells[row] for topology in self._needed):
            return 0
        score = 0.0
        for part in self._parts:  # one after the other, as kube-scheduler adds; sum() is more exact from Python 3.12 on
            score += part.score(row)
        return int(score + 0.5)

    def score_rows(self, rows: Rows) -> NDArray[np.int64]:
        total = self._parts[0].score_rows(rows)
        for part in self._parts[1:]:
            total = total + part.score_rows(rows)
        # Round halves away from zero: values other than 0 exceed one half, so this is exact.
        scores = (total + 0.5).astype(np.int64)
        return np.where(self._lacks_label(rows), 0, scores) if self._needed else scores

    def _lacks_label(self, rows: Rows) -> NDArray[np.bool_]:
        lacking: NDArray[np.bool_] = np.logical_or.reduce([topology.values[rows] == 0 for topology in self._needed])
        return lacking


def _create_part(
    soft: _SoftConstraint, nodes: NodeTable, scored: NDArray[np.int64], needs_labels: bool
) -> _PerDomain | _PerNode:
    constraint, topology, count, find_nodes = soft
    constant = constraint.max_skew - 1
    if topology.key == HOSTNAME:
        # kube-scheduler then counts on the node itself, regardless of the policies for the node.
        on_all_nodes = topology.sizes.total == len(nodes)
        return _PerNode(topology, on_all_nodes, count.column, _weight(len(scored)), constant)
    node_set = find_nodes()
    pods = (count.domains(topology) if node_set is None else node_set.tally(count, topology)).values
    codes = topology.values[scored]
    empty_code = None if needs_labels else topology.find_code("")
    if empty_code is not None:
        # The domain of the empty value is that of the nodes without the label too.
        pods, codes = pods.copy(), np.where(codes == 0, empty_code, codes)
        rows = nodes.order if node_set is None else node_set.rows()
        pods[empty_code] += count.column.values[rows[topology.values[rows] == 0]].sum()
    occupied = np.bincount(codes).nonzero()[0]
    scores: NDArray[np.float64] = np.multiply(pods, _weight(len(occupied))) + constant
    scores[0] = 0
    return _PerDomain(topology, scores)


def _weight(domains: int) -> float:
    """Return the weight of a pod with this many domains: the more there are, the fewer pods each has."""
    return math.log(domains + 2)
