"""SelectorSpread: prefer nodes and zones that run few pods of the same service or controller.

kube-scheduler had this plugin up to 1.22; the rules are its own, to the last rounding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework import (
    MAX_SCORE,
    CycleState,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Rows,
    Scores,
    Skip,
    StateKey,
    Status,
    Watch,
    hookimpl,
)
from kframework.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    OwnerReference,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)


class Requirement(NamedTuple):
    """A condition on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the condition."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


#: Conditions that must all hold. Unlike in Kubernetes an empty selector is that of a pod to which nothing belongs.
Selector = frozenset[Requirement]


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet all conditions."""
    for requirement in selector:  # quicker than all(), and this runs for every pod of a node that changed
        if not requirement.holds(labels):
            return False
    return True


class Selectors:
    """The selectors of pods, from the services and controllers that the scheduler sees."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        #: The selectors of services, by namespace and name: a pod looks only at those of its own namespace.
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        for service in handle.objects(Service):
            self._service_changed(None, service)
        handle.on_change(Service, self._service_changed)

    def of(self, pod: PendingPod) -> Selector:
        """Merge the selectors of the services that match the pod, and of the controller that owns it."""
        labels: dict[str, str] = {}
        for chosen in self._services.get(pod.namespace, {}).values():
            if chosen.items() <= pod.labels.items():
                labels.update(chosen)
        owner = next((owner for owner in pod.owner_references if owner.controller), None)
        if owner is None:
            return _exactly(labels)
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            found = self._handle.objects(ReplicationController).get(owner.name, pod.namespace)
            return _exactly(labels | found.spec.selector) if found is not None else _exactly(labels)
        return _exactly(labels) | _requirements(self._workload_selector(owner, pod.namespace))

    def _workload_selector(self, owner: OwnerReference, namespace: str) -> LabelSelector | None:
        workload: ReplicaSet | StatefulSet | None = None
        if (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
            workload = self._handle.objects(ReplicaSet).get(owner.name, namespace)
        elif (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
            workload = self._handle.objects(StatefulSet).get(owner.name, namespace)
        return workload.spec.selector if workload is not None else None

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        if old is not None:
            self._services.get(old.metadata.namespace, {}).pop(old.metadata.name, None)
        if new is not None and new.spec.selector is not None:  # without a selector a service chooses no pods
            self._services.setdefault(new.metadata.namespace, {})[new.metadata.name] = new.spec.selector


def _exactly(labels: Mapping[str, str]) -> Selector:
    return frozenset(Requirement(key, "In", frozenset((value,))) for key, value in labels.items())


def _requirements(selector: LabelSelector | None) -> Selector:
    """Read a selector; one that is absent, or that Kubernetes would not accept, adds nothing."""
    if selector is None or not _valid(selector.match_expressions):
        return frozenset()
    expressions = (Requirement(each.key, each.operator, frozenset(each.values)) for each in selector.match_expressions)
    return _exactly(selector.match_labels) | frozenset(expressions)


def _valid(expressions: Iterable[LabelSelectorRequirement]) -> bool:
    wants_values = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
    return all(wants_values.get(each.operator) is bool(each.values) for each in expressions)


#: A row whose number must be worked out.
_UNKNOWN = -1


class RowNumbers:
    """A natural number for each row, worked out when it is first asked for, and again when `changed` names the row.

    So the pods of a node are looked at when they have changed, not in every cycle.
    """

    def __init__(
        self, nodes: NodeTable, changed: Callable[[], list[int] | None], work_out: Callable[[NodeInfo], int]
    ) -> None:
        self._nodes = nodes
        self._changed = changed
        self._work_out = work_out
        self._numbers: NDArray[np.int64] = np.full(nodes.capacity, _UNKNOWN, dtype=np.int64)

    def of_rows(self, rows: Rows) -> Scores:
        """Return the numbers of these rows."""
        self._catch_up()
        listed = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        for row in listed[self._numbers[listed] == _UNKNOWN].tolist():
            self._numbers[row] = self._work_out(self._nodes[row])
        return self._numbers[listed]

    def of_node(self, node: NodeInfo) -> int:
        """Return the number of one node."""
        return int(self.of_rows(np.array([node.row]))[0])

    def _catch_up(self) -> None:
        changed = self._changed()
        if changed is None or len(self._numbers) < self._nodes.capacity:
            self._numbers = np.full(self._nodes.capacity, _UNKNOWN, dtype=np.int64)
        else:
            self._numbers[changed] = _UNKNOWN


#: What the zones count for where there are any; the rest is left to the nodes.
_ZONE_WEIGHT = 2.0 / 3.0
#: So many selectors keep their counts, 8 bytes a node each.
_SELECTORS = 256

_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class _Spread(NamedTuple):
    """What a cycle needs: the matching pods by row, None for no pods anywhere; and the zone of each candidate."""

    counts: RowNumbers | None
    zones: Scores


_SPREAD = StateKey[_Spread]("SelectorSpread")


class SelectorSpread(Plugin):
    """Score nodes by how few pods of the pod's services and controller they and their zones run."""

    name: ClassVar[str] = "SelectorSpread"
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(Service),
        Watch(ReplicationController),
        Watch(ReplicaSet),
        Watch(StatefulSet),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selectors = Selectors(handle)
        self._counts: OrderedDict[tuple[str, Selector], RowNumbers] = OrderedDict()
        #: Numbers for the zones, from 1; 0 is no zone.
        self._known_zones: dict[tuple[str, str], int] = {("", ""): 0}
        self._zones = RowNumbers(handle.nodes, handle.nodes.node_log.reader().changed, self._zone)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        # Only for a pod that brings its own constraints the answer is always the same. All others depend on services
        # that may come while the pod waits, and on which nodes are feasible.
        return () if pod.spec.topology_spread_constraints else None

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        if pod.spec.topology_spread_constraints:
            return Skip
        selector = self._selectors.of(pod)
        counts = self._counts_of(pod.namespace, selector) if selector else None
        state[_SPREAD] = _Spread(counts, self._zones.of_rows(rows))
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        counts = state[_SPREAD].counts
        return counts.of_node(node) if counts is not None else 0

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        counts = state[_SPREAD].counts
        return counts.of_rows(rows) if counts is not None else 0

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # The scores are those of the rows that `pre_score` was given, in the same order.
        zones = state[_SPREAD].zones
        by_node = _fewer_is_better(scores)
        in_zone = zones > 0
        # Number 0 gathers the nodes without a zone: nobody looks at its sum, and no zone is measured against it.
        sums = np.bincount(zones, weights=np.where(in_zone, scores, 0)).astype(np.int64)
        by_zone = _fewer_is_better(sums)[zones]
        both = by_node * (1.0 - _ZONE_WEIGHT) + _ZONE_WEIGHT * by_zone
        return np.where(in_zone, both, by_node).astype(np.int64)

    def _counts_of(self, namespace: str, selector: Selector) -> RowNumbers:
        key = (namespace, selector)
        counts = self._counts.get(key)
        if counts is None:
            nodes = self.handle.nodes
            counts = RowNumbers(
                nodes, nodes.pod_log.reader().changed, lambda node: _matching_pods(node, namespace, selector)
            )
            self._counts[key] = counts
            if len(self._counts) > _SELECTORS:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(key)
        return counts

    def _zone(self, node: NodeInfo) -> int:
        region, zone = (_first(node, labels) for labels in (_REGION_LABELS, _ZONE_LABELS))
        return self._known_zones.setdefault((region, zone), len(self._known_zones))


def _matching_pods(node: NodeInfo, namespace: str, selector: Selector) -> int:
    return sum(
        pod.namespace == namespace and not pod.terminating and matches(selector, pod.labels) for pod in node.pods
    )


def _first(node: NodeInfo, labels: tuple[str, ...]) -> str:
    """Return the value of the first of these labels that the node has."""
    return next((node.labels[label] for label in labels if label in node.labels), "")


def _fewer_is_better(counts: Scores) -> NDArray[np.float64]:
    """Return 100 for a count of 0, and 0 for the largest one; 100 for all if that is 0."""
    most = max(int(counts.max()), 1)
    shares: NDArray[np.float64] = np.divide(most - counts, most, dtype=np.float64)
    return MAX_SCORE * shares
