"""The expected content of the tables, computed simply and slowly from the existing objects, and the actual content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import msgspec
import numpy as np

from kframework.objects import Node, Pod
from kframework.objects.label_selectors import label_selector, parse_label_selector
from kframework.objects.requests import allocatable, non_zero_requests, on_node_requests
from kframework.state.cluster import ClusterState
from kframework.state.existing_terms import TermOwners
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_counts import PodCount, Selection
from kframework.state.topology import Tally, Topology

__all__ = [
    "ClusterObjects",
    "Facts",
    "NodeTree",
    "actual_facts",
    "expected_facts",
    "node_facts",
    "pod_facts",
    "stale_cells",
]

T = TypeVar("T")
Zone = tuple[str, str]

#: The columns of one node by name; what is zero or absent is left out.
Facts = dict[str, object]


class NodeTree(Generic[T]):
    """The node tree in its plainest form: a list of zones, each with a list of nodes."""

    def __init__(self) -> None:
        self.zones: list[tuple[Zone, list[T]]] = []

    def put(self, node: T, zone: Zone) -> None:
        """Put a node last in its zone, unless it is there already."""
        if any(key == zone and node in nodes for key, nodes in self.zones):
            return
        self.remove(node)
        for key, nodes in self.zones:
            if key == zone:
                nodes.append(node)
                return
        self.zones.append((zone, [node]))

    def remove(self, node: T) -> None:
        """Take a node out if it is there, and its zone with it if that is empty then."""
        kept = [(key, [other for other in nodes if other != node]) for key, nodes in self.zones]
        self.zones = [(key, nodes) for key, nodes in kept if nodes]

    def listed(self) -> list[T]:
        """List the first node of each zone, the second of each zone, ..."""
        turns = max((len(nodes) for _, nodes in self.zones), default=0)
        return [nodes[turn] for turn in range(turns) for _, nodes in self.zones if turn < len(nodes)]

    def __contains__(self, node: T) -> bool:
        return any(node in nodes for _, nodes in self.zones)


# -- what the tables must say --------------------------------------------------------------------------------------


@dataclass
class ClusterObjects:
    """The surviving objects: nodes, pods that the books know, which of them are assumed, which pods are placed where.

    A pod may be known and, for a statement, on no node or on another; a statement may place a pod that is not known.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)
    placed: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    #: The cells of the column `extra`, by node.
    extra: dict[str, int] = field(default_factory=dict)

    def copy(self) -> ClusterObjects:
        """Copy the tables; the objects in them are values."""
        return ClusterObjects(dict(self.nodes), dict(self.pods), set(self.assumed), dict(self.placed), dict(self.extra))

    def orphans(self) -> dict[str, set[str]]:
        """List the pods whose node there is not."""
        orphans: dict[str, set[str]] = {}
        for uid, (_, on) in self.placed.items():
            if on not in self.nodes:
                orphans.setdefault(on, set()).add(uid)
        return orphans


def expected_facts(
    truth: ClusterObjects, label_keys: Iterable[str], selections: Mapping[str, tuple[Selection, ...]]
) -> dict[str, object]:
    """Work out what `shown` must answer."""
    facts: dict[str, Facts] = {}
    for name, node in truth.nodes.items():
        pods = [pod for pod, on in truth.placed.values() if on == name]
        facts[name] = _of_node(node, label_keys) | _of_pods(pods, selections)
        facts[name] |= _present({"extra": truth.extra.get(name)})
    classes: dict[object, Counter[str]] = {}
    held: dict[object, Counter[str]] = {}
    domains: dict[object, Counter[str]] = {}
    for pod, on in truth.placed.values():
        if on not in truth.nodes:
            continue
        labels, metadata = truth.nodes[on].metadata.labels, pod.metadata
        key = (metadata.namespace, frozenset(metadata.labels.items()), metadata.deletion_timestamp is not None)
        classes.setdefault(key, Counter())[on] += 1
        for term in _anti_affinity(pod):
            held.setdefault(term, Counter())[on] += 1
        for name in (name for name, chosen in selections.items() if _chosen(pod, chosen)):
            for topology in (topology for topology in label_keys if topology in labels):
                domains.setdefault((name, topology), Counter())[labels[topology]] += 1
    refused = _refused(truth, classes)
    return {"nodes": facts, "classes": classes, "held": held, "refused": refused, "domains": domains}


def _refused(truth: ClusterObjects, classes: Iterable[object]) -> dict[object, Counter[str]]:
    """Count, for the pods of each class, those whose anti-affinity is about them, by topology and domain."""
    refused: dict[object, Counter[str]] = {}
    for key in classes:
        namespace, labels, _ = cast("tuple[str, frozenset[tuple[str, str]], bool]", key)
        for pod, on in truth.placed.values():
            for topology, namespaces, selector in _anti_affinity(pod) if on in truth.nodes else ():
                about = namespace in namespaces and parse_label_selector(selector).matches(dict(labels))
                domain = truth.nodes[on].metadata.labels.get(topology)
                if about and domain is not None:
                    refused.setdefault((key, topology), Counter())[domain] += 1
    return refused


def _chosen(pod: Pod, selections: tuple[Selection, ...]) -> bool:
    metadata = pod.metadata
    return all(
        (selection.namespaces is None or metadata.namespace in selection.namespaces)
        and selection.selector.matches(metadata.labels)
        and (selection.terminating or metadata.deletion_timestamp is None)
        for selection in selections
    )


def _anti_affinity(pod: Pod) -> list[tuple[str, frozenset[str], str]]:
    affinity = pod.spec.affinity
    away = affinity.pod_anti_affinity if affinity is not None else None
    terms = away.required_during_scheduling_ignored_during_execution if away is not None else ()
    own = (pod.metadata.namespace,)
    return [
        (term.topology_key, frozenset(term.namespaces or own), str(label_selector(term.label_selector)))
        for term in terms
    ]


def _of_node(node: Node, label_keys: Iterable[str]) -> Facts:
    labels = node.metadata.labels
    facts: Facts = {f"allocatable {resource}": amount for resource, amount in allocatable(node).items()}
    facts |= {f"label {key}": labels[key] for key in label_keys if key in labels}
    facts["taints"] = tuple(msgspec.structs.replace(taint, time_added=None) for taint in node.spec.taints)
    facts["unschedulable"] = int(node.spec.unschedulable)
    return _present(facts)


def _of_pods(pods: list[Pod], selections: Mapping[str, tuple[Selection, ...]]) -> Facts:
    facts: Counter[str] = Counter()
    for pod in pods:
        facts.update({f"requested {resource}": amount for resource, amount in on_node_requests(pod).items()})
        cpu, memory = non_zero_requests(pod)
        facts.update({"requested pods": 1, "non-zero cpu": cpu, "non-zero memory": memory})
        facts.update({f"count of {name}": _chosen(pod, chosen) for name, chosen in selections.items()})
    return _present({**facts, "uids": frozenset(pod.metadata.uid for pod in pods)})


def _present(facts: Facts) -> Facts:
    return {name: fact for name, fact in facts.items() if fact}


def actual_facts(state: ClusterState, label_keys: Iterable[str], counts: Mapping[str, PodCount]) -> dict[str, object]:
    """Read the tables in the form of `rebuilt`, by node name."""
    nodes = state.nodes
    name_of = {info.row: info.name for info in nodes}
    return {
        "nodes": {info.name: node_facts(info, label_keys) | pod_facts(info, counts) for info in nodes},
        "classes": {
            (pods.namespace, frozenset(pods.labels.items()), pods.terminating): {
                name_of[row]: n for row, n in pods.pods.items()
            }
            for classes in nodes.counters._classes.values()
            for pods in classes
            if pods.pods
        },
        "held": {
            _only_term(holders): {name_of[row]: n for row, n in holders.rows.items()}
            for holders in nodes.existing_terms._owners.values()
            if holders.rows
        },
        "refused": {
            ((pods.namespace, frozenset(pods.labels.items()), pods.terminating), topology.key): found
            for classes in nodes.counters._classes.values()
            for pods in classes
            if pods.pods
            for topology, tally in nodes.existing_terms.terms_matching(pods, {}).anti_affinity
            if (found := _tallied(topology, tally))
        },
        "domains": {
            (name, key): found
            for name, count in counts.items()
            for key in label_keys
            if (found := _tallied(nodes.label(key), count.domains(nodes.label(key))))
        },
    }


def _only_term(holders: TermOwners) -> tuple[str, frozenset[str], str]:
    (term,) = holders.terms.anti_affinity
    return term.topology_key, term.namespaces, str(term.selector)


def _tallied(topology: Topology, tally: Tally) -> dict[str, int]:
    """Read a tally by the values of its label; its total is the sum."""
    found = {str(topology.meanings[code]): int(tally.values[code]) for code in np.flatnonzero(tally.values).tolist()}
    assert tally.total == sum(found.values())
    return found


def node_facts(info: NodeInfo, label_keys: Iterable[str]) -> Facts:
    """Read the columns of a row that mirror its Node object."""
    nodes, row = info.table, info.row
    facts: Facts = {f"allocatable {key}": column.cells[row] for key, column in nodes.allocatables.items()}
    for key in label_keys:
        column = nodes.label(key)
        facts[f"label {key}"] = column.meanings[column.cells[row]]
    facts["taints"] = nodes.taint_sets.meanings[nodes.taint_sets.cells[row]]
    facts["unschedulable"] = nodes.unschedulable.cells[row]
    facts["extra"] = nodes.column("extra").cells[row]
    return _present(facts)


def pod_facts(info: NodeInfo, counts: Mapping[str, PodCount]) -> Facts:
    """Read the columns of a row that sum up its pods."""
    nodes, row = info.table, info.row
    facts: Facts = {f"requested {key}": column.cells[row] for key, column in nodes.requesteds.items()}
    facts["non-zero cpu"] = nodes.non_zero_cpu.cells[row]
    facts["non-zero memory"] = nodes.non_zero_memory.cells[row]
    facts["uids"] = frozenset(pod.uid for pod in info.pods)
    return _present(facts | {f"count of {name}": count.column.cells[row] for name, count in counts.items()})


def stale_cells(nodes: NodeTable) -> list[int]:
    """List the rows without a node on which some column is not zero."""
    alive = {info.row for info in nodes}
    dead = [row for row in range(nodes.capacity) if row not in alive]
    return [row for row in dead if any(column.cells[row] for column in nodes._columns())]
