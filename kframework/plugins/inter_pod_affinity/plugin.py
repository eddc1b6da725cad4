"""InterPodAffinity: a pod runs near the pods that it wants to be with, and away from those it, or they, cannot bear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from kframework.config.args import InterPodAffinityArgs
from kframework.framework.answers import MAX_SCORE, Rows, Scores
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, PluginArgs, Watch, hookimpl
from kframework.framework.status import Skip, Status, error, unresolvable, unschedulable
from kframework.objects import Namespace, Node
from kframework.objects.label_selectors import Selector
from kframework.plugins.inter_pod_affinity.affinity import NO_LABELS, Affinities, IncomingTerms
from kframework.state.counters import ExistingTerm, terms_of
from kframework.state.namespaces import Namespaces
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_counts import LabelClass, Selection
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.topology import Tally, Topology

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_ALONE, _REFUSED, _EXISTING_ANTI_AFFINITY = (
    unresolvable(AFFINITY),
    unschedulable(ANTI_AFFINITY),
    unschedulable(EXISTING),
)
# Reason bits, of which a node has one at most.
_IS_ALONE, _IS_REFUSED, _IS_EXISTING_ANTI_AFFINITY = 1, 2, 4
_STATUSES = {_IS_ALONE: _ALONE, _IS_REFUSED: _REFUSED, _IS_EXISTING_ANTI_AFFINITY: _EXISTING_ANTI_AFFINITY}

#: Numbers of pods per domain, and the topology whose domains they are.
_Near = tuple[Topology, Tally]
#: The same, and what each of the pods is worth.
_Worth = tuple[int, Topology, Tally]


class _Rules(NamedTuple):
    """What decides about nodes: the pods wanted near, those not wanted, and those that do not want this one."""

    incoming_terms: IncomingTerms
    wanted: tuple[_Near, ...]
    refused: tuple[_Near, ...]
    existing_anti_affinity: tuple[_Near, ...]

    def may_be_first(self, pod: PendingPod) -> bool:
        """Return whether the pod needs no company: there is none anywhere, and pods like itself would do."""
        return not _anywhere(self.wanted) and self.incoming_terms.met_by(pod.label_class)


_RULES = StateKey[_Rules]("InterPodAffinity.rules")
_WORTH = StateKey[tuple[_Worth, ...]]("InterPodAffinity.worth")


class InterPodAffinity(Plugin):
    """Reject nodes for the pods in their domains, and prefer those near pods that are liked.

    Pods, and the terms that pods hold, are counted per domain. No count is copied: those of the node table change with
    every what-if, as AddPod and RemovePod change the maps of kube-scheduler.
    """

    name = "InterPodAffinity"
    Args: ClassVar[type[PluginArgs]] = InterPodAffinityArgs
    watches: ClassVar[tuple[Watch, ...]] = (Watch(Namespace),)

    args: InterPodAffinityArgs

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._affinities = Affinities(handle.objects(Namespace).index(Namespaces))

    # -- where the pod can run -------------------------------------------------------------------------------------

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        incoming_terms = self._affinities.incoming_terms(pod)
        if incoming_terms.problem:
            return unresolvable(f"parsing pod: {incoming_terms.problem}")
        existing_anti_affinity = _held(self._affinities.existing_terms(pod, nodes.counters).anti_affinity)
        if not (incoming_terms.affinity or incoming_terms.anti_affinity or _anywhere(existing_anti_affinity)):
            return Skip
        state[_RULES] = _Rules(
            incoming_terms, _wanted(nodes, incoming_terms), _refused(nodes, incoming_terms), existing_anti_affinity
        )
        return None

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        """Look up who does not want the pod: the other one may hold a term that nobody held before.

        All else, and a pod that leaves, shows in the counts.
        """
        existing_anti_affinity = self._affinities.existing_terms(pod, node.table.counters).anti_affinity
        state[_RULES] = state[_RULES]._replace(existing_anti_affinity=_held(existing_anti_affinity))
        return None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        rules, row = state[_RULES], node.row
        if not _near_all(rules.wanted, row) and not (_in_all(rules.wanted, row) and rules.may_be_first(pod)):
            return _ALONE
        if _near_any(rules.refused, row):
            return _REFUSED
        return _EXISTING_ANTI_AFFINITY if _near_any(rules.existing_anti_affinity, row) else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        rules = state[_RULES]
        codes = _codes(
            (topology for topology, _ in (*rules.wanted, *rules.refused, *rules.existing_anti_affinity)), rows
        )
        bits = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
        # The last word is the first rejection.
        for reason, near in ((_IS_EXISTING_ANTI_AFFINITY, rules.existing_anti_affinity), (_IS_REFUSED, rules.refused)):
            for topology, tally in near:
                if tally.total:
                    bits[tally.values[codes[topology]] > 0] = reason
        first = bool(rules.wanted) and rules.may_be_first(pod)
        for topology, tally in rules.wanted:
            domains = codes[topology]
            bits[(domains if first else tally.values[domains]) == 0] = _IS_ALONE
        return bits

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _STATUSES[bits]

    # -- where it had better run -----------------------------------------------------------------------------------

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        incoming_terms = self._affinities.incoming_terms(pod)
        if self.args.ignore_preferred_terms_of_existing_pods and not incoming_terms.preferred:
            return Skip
        if incoming_terms.problem:
            return error(f"failed to parse pod: {incoming_terms.problem}")
        present = tuple(worth for worth in self._worths(pod, incoming_terms, nodes) if worth[2].total)
        if not present:
            return Skip
        state[_WORTH] = present
        return None

    def _worths(self, pod: PendingPod, incoming_terms: IncomingTerms, nodes: NodeTable) -> Iterator[_Worth]:
        """Yield what others are worth to the pod, then what it is worth to others."""
        for weight, key, selection in incoming_terms.preferred:
            yield weight, *_counted(nodes, key, selection)
        existing_terms, hard = self._affinities.existing_terms(pod, nodes.counters), self.args.hard_pod_affinity_weight
        for held in existing_terms.preferred:
            yield held.weight, held.topology, held.domains(held.topology)
        for held in existing_terms.affinity if hard else ():
            yield hard, held.topology, held.domains(held.topology)

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        row = node.row
        return sum(weight * tally.cells[topology.cells[row]] for weight, topology, tally in state[_WORTH])

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        worths = state[_WORTH]
        codes = _codes((topology for _, topology, _ in worths), rows)
        scores = np.zeros(len(codes[worths[0][1]]), dtype=np.int64)
        for weight, topology, tally in worths:
            scores += weight * tally.values[codes[topology]]
        return scores

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        """Stretch the scores from 0 to 100 in kube-scheduler's order of rounding: 29 of 100 come to 28."""
        low, high = int(scores.min()), int(scores.max())
        if low == high:
            return 0
        return (float(MAX_SCORE) * ((scores - low) / (high - low))).astype(np.int64)

    # -- events ----------------------------------------------------------------------------------------------------

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        add, delete = ActionType.ADD, ActionType.DELETE
        return [
            ClusterEvent(EventResource.POD, add | ActionType.UPDATE_POD_LABEL | delete, self.after_pod_change),
            ClusterEvent(EventResource.NODE, add | ActionType.UPDATE_NODE_LABEL | delete, self.after_node_change),
            ClusterEvent(EventResource.NAMESPACE, add | ActionType.UPDATE | delete, self.after_namespace_change),
        ]

    def after_pod_change(self, pod: PendingPod, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue the pod for labels of its own, for company that has come, and for others that are out of its way."""
        if old is not None and new is not None and new.uid == pod.uid:
            return QueueingHint.QUEUE
        if any(other is not None and not (other.node_name or other.nominated_node_name) for other in (old, new)):
            return QueueingHint.SKIP
        before = old.label_class if old is not None else None
        after = new.label_class if new is not None else None
        helps = (
            bool(self._affinities.incoming_terms(pod).problem)
            or self._company_changes(pod, before, after)
            or self._refused_leave(pod, before, after)
            or (old is not None and new is None and self._kept_away(pod, old))
        )
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _company_changes(self, pod: PendingPod, before: LabelClass | None, after: LabelClass | None) -> bool:
        """Return whether company has come, or has left a pod that may be the first of its group."""
        incoming_terms = self._affinities.incoming_terms(pod)
        was = before is not None and incoming_terms.met_by(before)
        now = after is not None and incoming_terms.met_by(after)
        return was != now and (now or incoming_terms.met_by(pod.label_class))

    def _refused_leave(self, pod: PendingPod, before: LabelClass | None, after: LabelClass | None) -> bool:
        """Return whether a pod is no longer one of those that are not wanted."""
        return before is not None and any(
            selection.chooses(before) and not (after is not None and selection.chooses(after))
            for _, selection in self._affinities.incoming_terms(pod).anti_affinity
        )

    def _kept_away(self, pod: PendingPod, other: PodInfo) -> bool:
        """Return whether another pod did not want this one; to kube-scheduler's hint its namespace has no labels."""
        return any(
            term.matches(pod.namespace, labels, pod.labels)
            for term in terms_of(other).anti_affinity
            for labels in (self._affinities.namespaces.labels(pod.namespace), NO_LABELS)
        )

    def after_node_change(self, pod: PendingPod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue the pod for a node that comes where it wants to be, or that takes others out of its way."""
        incoming_terms = self._affinities.incoming_terms(pod)
        if old is None and (incoming_terms.anti_affinity or not incoming_terms.keys):
            return QueueingHint.QUEUE
        before = old.metadata.labels if old is not None else NO_LABELS
        after = new.metadata.labels if new is not None else NO_LABELS
        held = self._affinities.existing_terms(pod, self.handle.nodes.counters).anti_affinity
        in_the_way = [*(key for key, _ in incoming_terms.anti_affinity), *(each.topology.key for each in held)]
        if incoming_terms.met_by(pod.label_class):
            in_the_way += incoming_terms.keys
        helps = _enters(incoming_terms.keys, before, after) or _enters(in_the_way, after, before)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def after_namespace_change(self, pod: PendingPod, old: Namespace | None, new: Namespace | None) -> QueueingHint:
        """Queue the pod when its terms choose other namespaces, or when others may look at its own in another way."""
        before, after = (each.metadata.labels if each is not None else None for each in (old, new))
        changed = new or old
        assert changed is not None
        terms = terms_of(pod)
        helps = (changed.metadata.name == pod.namespace and (before or {}) != (after or {})) or any(
            _chosen(term.namespace_selector, before) != _chosen(term.namespace_selector, after)
            for term in (*terms.affinity, *terms.anti_affinity)
        )
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _chosen(selector: Selector, labels: Mapping[str, str] | None) -> bool:
    """Return whether a term is about the namespace of these labels (None: there is none) because of its selector."""
    return labels is not None and selector.matches(labels) and not selector.matches(NO_LABELS)


def _enters(keys: Iterable[str], before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether a node comes into a domain of one of these topologies when its labels change."""
    return any(after.get(key) not in (None, before.get(key)) for key in keys)


# -- pods and domains ----------------------------------------------------------------------------------------------


def _wanted(nodes: NodeTable, incoming_terms: IncomingTerms) -> tuple[_Near, ...]:
    """Return the pods that satisfy all of the affinity, by the domains of each of its topologies."""
    return tuple(_counted(nodes, key, *incoming_terms.affinity) for key in incoming_terms.keys)


def _refused(nodes: NodeTable, incoming_terms: IncomingTerms) -> tuple[_Near, ...]:
    """Return the pods that are not wanted, by the domains in which they are not."""
    return tuple(_counted(nodes, key, selection) for key, selection in incoming_terms.anti_affinity)


def _counted(nodes: NodeTable, key: str, *selections: Selection) -> _Near:
    topology = nodes.label(key)
    return topology, nodes.counters.count(*selections).domains(topology)


def _held(terms: Iterable[ExistingTerm]) -> tuple[_Near, ...]:
    return tuple((held.topology, held.domains(held.topology)) for held in terms)


def _anywhere(near: tuple[_Near, ...]) -> bool:
    """Return whether any of the pods are in any domain."""
    return any(tally.total for _, tally in near)


def _codes(topologies: Iterable[Topology], rows: Rows) -> dict[Topology, Scores]:
    """Return the codes of the rows' domains in each topology."""
    return {topology: topology.values[rows] for topology in dict.fromkeys(topologies)}


# Written out, as dry runs ask them for one row after the other and any() takes twice the time.


def _in_all(near: tuple[_Near, ...], row: int) -> bool:
    """Return whether a row lies in a domain of each topology."""
    for topology, _ in near:
        if not topology.cells[row]:
            return False
    return True


def _near_all(near: tuple[_Near, ...], row: int) -> bool:
    """Return whether a row shares each topology's domain with pods."""
    for topology, tally in near:
        if not tally.cells[topology.cells[row]]:
            return False
    return True


def _near_any(near: tuple[_Near, ...], row: int) -> bool:
    """Return whether a row shares a topology's domain with pods."""
    for topology, tally in near:
        if tally.cells[topology.cells[row]]:
            return True
    return False
