"""Topology spread constraints that must hold: the nodes that violate them, and suggestions to even the spread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kframework.framework.domain_limits import DomainLimit
from kframework.framework.suggestions import (
    MAX_SUGGESTIONS,
    PENDING_POD,
    UNFIXABLE,
    AmountSuggestion,
    ChangeEstimates,
    Suggestion,
    Suggestions,
    delete_all,
    drop_item,
    patch_field,
    sort_by_importance,
)
from kframework.objects import TopologySpreadConstraint
from kframework.plugins.pod_topology_spread.spread_constraints import DO_NOT_SCHEDULE, SpreadConstraint, topology_keys
from kframework.state.domain_counts import CountsSnapshot, DomainCounts, pods_in_domain
from kframework.state.node_sets import NodeSets
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows, Scores
from kframework.values.status import Status, unresolvable, unschedulable

REASON = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{REASON} (missing required label)"

_SKEWED, _LABEL_MISSING = unschedulable(REASON), unresolvable(NO_LABEL)
# Reason bits: 1 means too many pods.
_NO_LABEL = 2

#: The field path of a pod's own constraints.
_CONSTRAINTS = "spec.topology_spread_constraints"

#: The number of excess pods that are examined in a domain: it may be a zone with thousands of them.
_MAX_EXAMINED = 256


def limit_status(bits: int) -> Status:
    return _LABEL_MISSING if bits == _NO_LABEL else _SKEWED


class Limit(NamedTuple):
    """A constraint that must hold: a domain may have at most `leeway` more pods than the minimum of any domain."""

    constraint: SpreadConstraint
    counts: DomainCounts
    leeway: int

    def by_domain(self) -> DomainLimit:
        tally, minimum = self.counts.read()
        return DomainLimit(self.counts.topology, tally, most=minimum + self.leeway, unlabelled=_NO_LABEL)

    def excess(self) -> Scores:
        """Return by how many pods each domain exceeds the limit, by its code."""
        tally, minimum = self.counts.read()
        excess: Scores = np.maximum(tally.values - minimum - self.leeway, 0)
        return excess


class Limits:
    """All constraints of a pod that must hold."""

    __slots__ = ("_limits",)

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = limits

    def clone(self) -> Limits:
        """Return them with the counts of this moment, which only `count` changes."""
        return Limits([limit._replace(counts=CountsSnapshot(limit.counts)) for limit in self._limits])

    def count(self, pod: PendingPod, other: PodInfo, row: int, delta: int) -> None:
        """Add or remove another pod on a row.

        As in kube-scheduler, here a terminating pod counts, and an empty selector matches.
        """
        if other.namespace != pod.namespace:
            return
        if not all(limit.counts.topology.cells[row] for limit in self._limits):
            return
        for constraint, counts, _ in self._limits:
            if constraint.selector.matches(other.labels):
                counts.add(row, delta)

    def rejection(self, row: int) -> Status | None:
        for _, counts, leeway in self._limits:
            code = counts.topology.cells[row]
            if not code:
                return _LABEL_MISSING
            tally, minimum = counts.read()
            if tally.cells[code] > minimum + leeway:
                return _SKEWED
        return None

    def by_domain(self) -> list[DomainLimit]:
        return [limit.by_domain() for limit in self._limits]

    def suggestions(self, pod: PendingPod, node: NodeInfo) -> Suggestions:
        """Suggest deleting the excess pods of the node's domains, or relaxing the pod's constraints."""
        hard = (each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == DO_NOT_SCHEDULE)
        own: Sequence[TopologySpreadConstraint | None] = [*hard] or [None] * len(self._limits)  # else default ones
        deleted: dict[str, PodInfo] = {}
        relaxed: list[Suggestion] = []
        is_unfixable = False
        for limit, constraint in zip(self._limits, own, strict=True):
            code = limit.counts.topology.cells[node.row]
            excess = int(limit.excess()[code])
            is_unfixable |= not code or excess > MAX_SUGGESTIONS
            if constraint is not None and not code:
                text = f"drop the pod's spread over {constraint.topology_key}"
                relaxed.append(drop_item("dropSpread", text, _CONSTRAINTS, constraint, constraint=constraint))
            elif constraint is not None and excess:
                relaxed.append(_raise_max_skew(constraint, excess))
            if excess and not is_unfixable:
                pods = pods_in_domain(node, limit.constraint.topology_key, limit.constraint.counted)
                deleted |= {other.uid: other for other in sort_by_importance(islice(pods, _MAX_EXAMINED))[:excess]}
        if not is_unfixable:
            yield delete_all(deleted.values())
        yield tuple(relaxed)

    def estimates(self, rows: Rows) -> ChangeEstimates:
        """Count the excess pods in the domains of each row; rows without the label are unfixable."""
        codes = [limit.counts.topology.values[rows] for limit in self._limits]
        excess: Scores = np.sum([limit.excess()[each] for limit, each in zip(self._limits, codes, strict=True)], axis=0)
        return np.where(np.all(codes, axis=0) & (excess > 0), excess, excess + UNFIXABLE)


def build_limits(
    pod: PendingPod, nodes: NodeTable, constraints: Sequence[SpreadConstraint], node_sets: NodeSets
) -> Limits:
    keys = topology_keys(constraints)
    limits = []
    for constraint in constraints:
        find_nodes = partial(
            node_sets.for_pod, pod, keys, affinity=constraint.honors_affinity, taints=constraint.honors_taints
        )
        topology, count = nodes.label(constraint.topology_key), nodes.counters.count(constraint.counted)
        counts = DomainCounts(nodes, topology, count, find_nodes, constraint.min_domains)
        limits.append(Limit(constraint, counts, constraint.leeway(pod)))
    return Limits(limits)


def _raise_max_skew(constraint: TopologySpreadConstraint, amount: int) -> AmountSuggestion:
    skew, key = constraint.max_skew, constraint.topology_key
    raised = replace(constraint, max_skew=skew + amount)
    return AmountSuggestion(
        f"raise maxSkew of the pod's spread over {key} from {skew} to {skew + amount}",
        PENDING_POD,
        patch_field(_CONSTRAINTS, lambda own: tuple(raised if each == constraint else each for each in own)),
        "raiseMaxSkew",
        {"constraint": constraint, "amount": amount},
        amount=amount,
        with_amount=lambda less: _raise_max_skew(constraint, less),
    )
