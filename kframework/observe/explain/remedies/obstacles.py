"""What stands in a pod's way on one node, in the terms of the objects: taints, labels, room, ports, other pods.

The functions read the live tables, so inside a what-if they see what it makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.objects import (
    Namespace,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from kframework.objects.node_selectors import NodeSelectorTerms
from kframework.objects.ports import HostPort, any_conflict, conflicts
from kframework.objects.taints import first_untolerated
from kframework.plugins.inter_pod_affinity.affinity import Affinities
from kframework.plugins.pod_topology_spread.spread_constraints import (
    DO_NOT_SCHEDULE,
    SpreadConstraint,
    own_constraints,
    topology_keys,
)
from kframework.state.cluster import ClusterState
from kframework.state.domain_counts import DomainCounts
from kframework.state.namespaces import Namespaces
from kframework.state.node_sets import NodeSets
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_counts import Selection
from kframework.state.pods import PendingPod, PodInfo

#: Of the pods that are too many in a domain so many are listed: it may be a zone with thousands of them.
_SOME = 256

_HARD = ("NoSchedule", "NoExecute")


# -- the node itself -----------------------------------------------------------------------------------------------


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> list[Taint]:
    """List the taints that keep a pod with these tolerations away."""
    return [taint for taint in taints if first_untolerated((taint,), tolerations, _HARD) is not None]


def unmet(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> list[NodeSelectorRequirement]:
    """List the requirements of a term, on labels and on the name, that a node does not meet."""
    by_label = [
        each
        for each in term.match_expressions
        if not NodeSelectorTerms((NodeSelectorTerm(match_expressions=(each,)),)).matches(labels, name)
    ]
    by_field = [
        each
        for each in term.match_fields
        if not NodeSelectorTerms((NodeSelectorTerm(match_fields=(each,)),)).matches(labels, name)
    ]
    return by_label + by_field


class Shortage(NamedTuple):
    """How much of a resource is missing on a node, what the pod asks for, and whether the node has so much at all."""

    resource: str
    missing: int
    asked: int
    possible: bool


def shortages(node: NodeInfo, pod: PodInfo, rivals: Sequence[PodInfo]) -> list[Shortage]:
    """List the resources of which the node has too little left, also for the pods nominated to it."""
    asked = {resource: amount for resource, amount in pod.template.fit if amount} | {"pods": 1}
    promised = {"pods": len(rivals)}
    for rival in rivals:
        for resource, amount in rival.on_node:
            promised[resource] = promised.get(resource, 0) + amount
    found = []
    for resource, amount in asked.items():
        offered = node.allocatable(resource)
        missing = amount + node.requested(resource) + promised.get(resource, 0) - offered
        if missing > 0:
            found.append(Shortage(resource, missing, amount, amount <= offered))
    return found


# -- pods on the node ----------------------------------------------------------------------------------------------


def port_holders(node: NodeInfo, pod: PodInfo) -> list[PodInfo]:
    """List the pods on a node that hold a host port which the pod wants."""
    return [other for other in node.pods if any_conflict(pod.template.host_ports, other.template.host_ports)]


def taken_ports(node: NodeInfo, pod: PodInfo) -> list[HostPort]:
    """List the host ports that the pod wants and others hold."""
    held = [port for other in node.pods for port in other.template.host_ports]
    return [port for port in dict.fromkeys(pod.template.host_ports) if any(conflicts(port, each) for each in held)]


# -- pods in the node's domains ------------------------------------------------------------------------------------


def enemies(cluster: ClusterState, node: NodeInfo, pod: PendingPod) -> Iterator[PodInfo]:
    """Yield the pods in the node's domains that the pod cannot bear, then those that cannot bear it; some twice."""
    nodes = cluster.nodes
    affinities = Affinities(cluster.objects(Namespace).index(Namespaces))
    for key, selection in affinities.incoming_terms(pod).anti_affinity:
        yield from _chosen(nodes, node, key, selection)
    for held in affinities.existing_terms(pod, nodes.counters).anti_affinity:
        for row in held.rows:
            if _same_domain(nodes, held.topology.key, row, node.row):
                yield from (other for other in nodes[row].pods if held in nodes.counters.existing_terms(other))


def _chosen(nodes: NodeTable, node: NodeInfo, key: str, selection: Selection) -> Iterator[PodInfo]:
    """Yield the pods of a selection in the domain of a node."""
    if key not in node.labels:
        return
    column = nodes.label(key)
    counted = nodes.counters.count(selection).column.values > 0
    for row in np.flatnonzero(counted & (column.values == column.cells[node.row])).tolist():
        yield from (other for other in nodes[row].pods if selection.chooses(other.label_class))


def _same_domain(nodes: NodeTable, key: str, row: int, other: int) -> bool:
    cells = nodes.label(key).cells
    return cells[row] != 0 and cells[row] == cells[other]


class Spread(NamedTuple):
    """A spread constraint of the pod, and by how many pods each domain would break it, by its code."""

    own: TopologySpreadConstraint
    compiled: SpreadConstraint
    excess: NDArray[np.int64]


def spreads(nodes: NodeTable, pod: PendingPod) -> Iterator[Spread]:
    """List the pod's own spread constraints that must hold; raises SelectorError."""
    own = [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == DO_NOT_SCHEDULE]
    compiled = own_constraints(pod, DO_NOT_SCHEDULE)
    keys, node_sets = topology_keys(compiled), NodeSets(nodes)
    for constraint, source in zip(compiled, own, strict=True):
        among = partial(node_sets.of, pod, keys, affinity=constraint.honors_affinity, taints=constraint.honors_taints)
        topology, count = nodes.label(constraint.topology_key), nodes.counters.count(constraint.counted)
        tally, fewest = DomainCounts(nodes, topology, count, among, constraint.min_domains).look()
        allowed = fewest + constraint.max_skew - constraint.selector.matches(pod.labels)
        yield Spread(source, constraint, np.maximum(tally.values - allowed, 0))


class Skew(NamedTuple):
    """A spread constraint that a node breaks: by how many of which pods (some); None where it lacks the label."""

    constraint: TopologySpreadConstraint
    excess: int | None
    pods: Sequence[PodInfo]


def skews(nodes: NodeTable, node: NodeInfo, pod: PendingPod) -> list[Skew]:
    """List the pod's own spread constraints that a node breaks."""
    found = []
    for spread in spreads(nodes, pod):
        key = spread.own.topology_key
        code = nodes.label(key).cells[node.row]
        excess = int(spread.excess[code])
        if not code:
            found.append(Skew(spread.own, None, ()))
        elif excess:
            pods = islice(_chosen(nodes, node, key, spread.compiled.counted), _SOME)
            found.append(Skew(spread.own, excess, tuple(pods)))
    return found
