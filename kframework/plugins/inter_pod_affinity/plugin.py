"""InterPodAffinity: a pod runs with the pods that its affinity requires, and away from those of any anti-affinity."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from kframework.config.args import ApiArgs
from kframework.config.decode import Bool, Int32, schema_type
from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState, StateKey, StateKeyError
from kframework.framework.domain_limits import MANY, DomainLimit
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import (
    MAX_SUGGESTIONS,
    UNFIXABLE,
    ChangeEstimates,
    Suggestion,
    Suggestions,
    delete_all,
    drop_item,
    suggest_each_and_all,
)
from kframework.objects import Namespace, Node, PodAffinityTerm
from kframework.objects.label_selectors import Selector, SelectorError, label_selector
from kframework.objects.problem import Problem
from kframework.plugins.inter_pod_affinity.affinity import NO_LABELS, Affinities, IncomingTerms
from kframework.plugins.shared_args import percentage_problems
from kframework.state.domain_counts import pods_in_domain
from kframework.state.existing_terms import terms_of
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_counts import AllOf, WeightedSelections
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.selection import Namespaces
from kframework.state.topology import Tally, Topology
from kframework.values.feature_gates import FeatureGates
from kframework.values.scores import MAX_SCORE, Rows, Scores
from kframework.values.status import Skip, Status, error, unresolvable, unschedulable

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

# Reason bits; a node has at most one.
_AFFINITY, _ANTI_AFFINITY, _EXISTING = 1, 2, 4
_STATUSES = {
    _AFFINITY: unresolvable(AFFINITY),
    _ANTI_AFFINITY: unschedulable(ANTI_AFFINITY),
    _EXISTING: unschedulable(EXISTING),
}

#: Numbers of pods per domain, and the topology whose domains they are.
_Counts = tuple[Topology, Tally]
#: The same, preceded by the weight of each pod.
_WeightedTally = tuple[int, Topology, Tally]


class _Rules(msgspec.Struct, frozen=True, dict=True):
    """The inputs of Filter: counts for the required affinity, anti-affinity, and existing pods' anti-affinity.

    `meets_itself`: the pod has the labels that its affinity requires.
    """

    meets_itself: bool
    affinity: tuple[_Counts, ...]
    anti_affinity: tuple[_Counts, ...]
    existing_anti_affinity: tuple[_Counts, ...]

    @property
    def may_be_first(self) -> bool:
        """Whether no pod satisfies the required affinity yet, and pods like this one would."""
        return self.meets_itself and not _has_pods(self.affinity)

    @cached_property
    def limits(self) -> tuple[DomainLimit, ...]:
        return self._limits(1)

    @cached_property
    def limits_of_first(self) -> tuple[DomainLimit, ...]:
        """The limits while the pod may be the first."""
        return self._limits(-MANY)

    def _limits(self, least: int) -> tuple[DomainLimit, ...]:
        return (
            *(DomainLimit(*counts, least=least, bits=_AFFINITY, unlabelled=_AFFINITY) for counts in self.affinity),
            *(DomainLimit(*counts, most=0, bits=_ANTI_AFFINITY) for counts in self.anti_affinity),
            *(DomainLimit(*counts, most=0, bits=_EXISTING) for counts in self.existing_anti_affinity),
        )


_RULES = StateKey[_Rules]("InterPodAffinity.rules")
_WEIGHTED = StateKey[tuple[_WeightedTally, ...]]("InterPodAffinity.weighted")
_TALLIES = StateKey[tuple[_WeightedTally, ...]]("InterPodAffinity.tallies")


class InterPodAffinityArgs(ApiArgs):
    """The score weight of existing pods' required affinity, and whether their preferences count."""

    hard_pod_affinity_weight: Annotated[Int32, schema_type(minimum=0, maximum=100)] = 1
    """What a pod's required affinity to the pod at hand counts for in scores."""
    ignore_preferred_terms_of_existing_pods: Bool = False
    """Whether only pods with affinities of their own consider what running pods prefer."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        yield from percentage_problems(("hardPodAffinityWeight",), self.hard_pod_affinity_weight)


class InterPodAffinity(Plugin[InterPodAffinityArgs]):
    """Reject nodes for the pods in their domains, and score them by the preferred terms that match these.

    Pods, and the terms of existing pods, are counted per domain. No count is copied: those of the node table change
    with every what-if, as AddPod and RemovePod change the maps of kube-scheduler.
    """

    name = "InterPodAffinity"
    reads: ClassVar[Reads] = "domains"
    sign_reads: ClassVar[SignReads] = (Namespace,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(Namespace),)

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._affinities = Affinities(handle.objects(Namespace).index(Namespaces))

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        """Return the pod's terms, and all that others' terms match; NOTHING if there is no term of either kind."""
        existing_terms = self._affinities.existing_terms(pod, self.handle.nodes)
        if not pod.template.has_terms and not existing_terms.are_some:
            return NOTHING
        incoming_terms = self._affinities.incoming_terms(pod)
        if incoming_terms.problem:
            return None
        return incoming_terms, pod.label_class, frozenset(existing_terms.namespace_labels.items())

    # -- filtering -----------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        incoming_terms = self._affinities.incoming_terms(pod)
        if incoming_terms.problem:
            return unresolvable(f"parsing pod: {incoming_terms.problem}")
        existing_anti_affinity = self._affinities.existing_terms(pod, nodes).anti_affinity
        required = incoming_terms.affinity
        affinity = tuple(_count_by_domain(nodes, key, required) for key in incoming_terms.keys) if required else ()
        anti_affinity = tuple(
            _count_by_domain(nodes, key, selection)
            for _, key, selection in incoming_terms.anti_affinity
            if key in nodes.label_keys
        )
        meets_itself = incoming_terms.is_met_by(pod.label_class)
        state[_RULES] = _Rules(meets_itself, affinity, anti_affinity, existing_anti_affinity)
        state[_WEIGHTED] = tuple(self._weighted_tallies(pod, incoming_terms, nodes))
        is_rejecting = incoming_terms.affinity or incoming_terms.anti_affinity or _has_pods(existing_anti_affinity)
        return None if is_rejecting else Skip

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        """Look up the anti-affinity terms that match the pod: the other one may have a new term.

        All other changes, and removals, are included in the counts.
        """
        existing_anti_affinity = self._affinities.existing_terms(pod, node.table).anti_affinity
        state[_RULES] = replace(state[_RULES], existing_anti_affinity=existing_anti_affinity)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        rules, row = state[_RULES], node.row
        if not _has_pods_in_all(rules.affinity, row) and not (
            _is_in_all_domains(rules.affinity, row) and rules.may_be_first
        ):
            return _STATUSES[_AFFINITY]
        if _has_pods_in_any(rules.anti_affinity, row):
            return _STATUSES[_ANTI_AFFINITY]
        return _STATUSES[_EXISTING] if _has_pods_in_any(rules.existing_anti_affinity, row) else None

    @hookimpl
    def filter_domains(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Sequence[DomainLimit]:
        rules = state[_RULES]
        return rules.limits_of_first if rules.may_be_first else rules.limits

    @hookimpl
    def filter_more(
        self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows, added: Scores
    ) -> int | None:
        return None if pod.template.has_terms or self.filter_domains(state, pod, nodes) else 0

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _STATUSES[bits]

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        if node is not None:
            conflicting: dict[str, PodInfo] = {}
            for other in conflicting_pods(self._affinities, pod, node):
                conflicting[other.uid] = other
                if len(conflicting) > MAX_SUGGESTIONS:
                    break
            else:
                yield delete_all(conflicting.values())
        yield from drop_terms(pod)

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        """Count the pods in the way in each row's domains; missing pods of an affinity cannot be added."""
        rules = state[_RULES]
        counts = (*rules.anti_affinity, *rules.existing_anti_affinity)
        conflicting = sum(
            (tally.values[topology.values[rows]] for topology, tally in counts), np.zeros(1, dtype=np.int64)
        )
        return np.where(conflicting > 0, conflicting, UNFIXABLE)

    # -- scoring -------------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        try:
            weighted = state[_WEIGHTED]
        except StateKeyError:  # without PreFilter
            incoming_terms = self._affinities.incoming_terms(pod)
            if incoming_terms.problem:
                return error(f"failed to parse pod: {incoming_terms.problem}")
            weighted = tuple(self._weighted_tallies(pod, incoming_terms, nodes))
        tallies = tuple([each for each in weighted if each[2].total])
        if not tallies:
            return Skip
        state[_TALLIES] = tallies
        return None

    def _weighted_tallies(
        self, pod: PendingPod, incoming_terms: IncomingTerms, nodes: NodeTable
    ) -> Iterator[_WeightedTally]:
        """Yield the weights of others for the pod, then those of the pod for others."""
        if self.args.ignore_preferred_terms_of_existing_pods and not incoming_terms.preferred:
            return
        for weight, key, selection in incoming_terms.preferred:
            if key in nodes.label_keys:
                yield weight, *_count_by_domain(nodes, key, selection)
        existing_terms, hard = self._affinities.existing_terms(pod, nodes), self.args.hard_pod_affinity_weight
        yield from existing_terms.preferred
        yield from ((hard, *counts) for counts in existing_terms.affinity if hard)

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        row = node.row
        return sum(weight * tally.cells[topology.cells[row]] for weight, topology, tally in state[_TALLIES])

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        first, *others = state[_TALLIES]
        scores = _score_rows(first, rows)
        for weighted in others:
            scores += _score_rows(weighted, rows)
        return scores

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        """Scale the scores to 0 to 100 in kube-scheduler's order of rounding: 29 of 100 becomes 28."""
        low, high = scores.item(scores.argmin()), scores.item(scores.argmax())  # a microsecond less than `min`
        if low == high:
            return 0
        return (float(MAX_SCORE) * ((scores - low) / (high - low))).astype(np.int64)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        add, delete = ActionType.ADD, ActionType.DELETE
        return [
            ClusterEvent(EventResource.POD, add | ActionType.UPDATE_POD_LABEL | delete, self.after_pod_change),
            ClusterEvent(EventResource.NODE, add | ActionType.UPDATE_NODE_LABEL | delete, self.after_node_change),
            ClusterEvent(EventResource.NAMESPACE, add | ActionType.UPDATE | delete, self.after_namespace_change),
        ]

    def after_pod_change(self, pod: PendingPod, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue the pod for changes of its own labels, for pods of its affinity, and for resolved anti-affinity."""
        if old is not None and new is not None and new.uid == pod.uid:
            return QueueingHint.QUEUE
        if any(other is not None and not (other.node_name or other.nominated_node_name) for other in (old, new)):
            return QueueingHint.SKIP
        incoming_terms = self._affinities.incoming_terms(pod)
        # A pod of the required affinity was added, or removed and this one may be the first of its group.
        was, now = (other is not None and incoming_terms.is_met_by(other.label_class) for other in (old, new))
        changes = was != now and (now or incoming_terms.is_met_by(pod.label_class))
        # A pod no longer matches the anti-affinity.
        ends = old is not None and any(
            selection.matches(old.label_class) and not (new is not None and selection.matches(new.label_class))
            for _, selection in incoming_terms.single_anti_affinity
        )
        # The anti-affinity of a removed pod matched this one; for the hint, its namespace may have no labels.
        removed_terms = terms_of(old).anti_affinity if old is not None and new is None else ()
        was_rejected = any(
            term.matches(pod.namespace, labels, pod.labels)
            for term in removed_terms
            for labels in (self._affinities.namespaces.labels(pod.namespace), NO_LABELS)
        )
        return queue_if(bool(incoming_terms.problem) or changes or ends or was_rejected)

    def after_node_change(self, pod: PendingPod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue the pod for a node that joins a domain of its affinity, or leaves one of an anti-affinity."""
        incoming_terms = self._affinities.incoming_terms(pod)
        if old is None and (incoming_terms.anti_affinity or not incoming_terms.keys):
            return QueueingHint.QUEUE
        before = old.metadata.labels if old is not None else NO_LABELS
        after = new.metadata.labels if new is not None else NO_LABELS
        existing_terms = self._affinities.existing_terms(pod, self.handle.nodes)
        anti_affinity_keys = [*(key for _, key, _ in incoming_terms.anti_affinity), *existing_terms.anti_affinity_keys]
        if incoming_terms.is_met_by(pod.label_class):
            anti_affinity_keys += incoming_terms.keys
        return queue_if(
            _enters_domain(incoming_terms.keys, before, after) or _enters_domain(anti_affinity_keys, after, before)
        )

    def after_namespace_change(self, pod: PendingPod, old: Namespace | None, new: Namespace | None) -> QueueingHint:
        """Queue the pod if its terms match other namespaces, or others' terms may match its own differently."""
        before, after = (each.metadata.labels if each is not None else None for each in (old, new))
        changed = new or old
        assert changed is not None
        terms = terms_of(pod)
        helps = (changed.metadata.name == pod.namespace and (before or {}) != (after or {})) or any(
            _adds_namespace(term.namespace_selector, before) != _adds_namespace(term.namespace_selector, after)
            for term in (*terms.affinity, *terms.anti_affinity)
        )
        return queue_if(helps)


def _adds_namespace(selector: Selector, labels: Mapping[str, str] | None) -> bool:
    """Return whether the selector of a term adds the namespace of these labels (None: it does not exist)."""
    return labels is not None and selector.matches(labels) and not selector.matches(NO_LABELS)


def _enters_domain(keys: Iterable[str], before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether a label change moves a node into a domain of one of these topologies."""
    return any(after.get(key) not in (None, before.get(key)) for key in keys)


def _count_by_domain(nodes: NodeTable, key: str, selection: AllOf | WeightedSelections) -> _Counts:
    topology = nodes.label(key)
    return topology, nodes.counters.count_for(selection).domains(topology)


def _score_rows(weighted: _WeightedTally, rows: Rows) -> Scores:
    weight, topology, tally = weighted
    scores: Scores = weight * tally.values[topology.values[rows]]
    return scores


# Explicit loops, as dry runs call them row by row and any() takes twice the time.


def _has_pods(counts: tuple[_Counts, ...]) -> bool:
    for _, tally in counts:
        if tally.total:
            return True
    return False


def _is_in_all_domains(counts: tuple[_Counts, ...], row: int) -> bool:
    for topology, _ in counts:
        if not topology.cells[row]:
            return False
    return True


def _has_pods_in_all(counts: tuple[_Counts, ...], row: int) -> bool:
    for topology, tally in counts:
        if not tally.cells[topology.cells[row]]:
            return False
    return True


def _has_pods_in_any(counts: tuple[_Counts, ...], row: int) -> bool:
    for topology, tally in counts:
        if tally.cells[topology.cells[row]]:
            return True
    return False


def conflicting_pods(affinities: Affinities, pod: PendingPod, node: NodeInfo) -> Iterator[PodInfo]:
    """Yield the pods in the node's domains that the pod's anti-affinity matches, then those whose own matches it."""
    nodes = node.table
    for key, selection in affinities.incoming_terms(pod).single_anti_affinity:
        yield from pods_in_domain(node, key, selection)
    for _, tally in affinities.existing_terms(pod, nodes).anti_affinity:
        owners = set(tally.sources[::2])
        for row in tally.rows_in_domain_of(node.row):
            others = (other for other in nodes[row].pods if other.template.has_terms)
            yield from (other for other in others if nodes.existing_terms.owners(other).serial in owners)


def drop_terms(pod: PendingPod) -> Suggestions:
    affinity = pod.spec.affinity
    near, apart = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else (None, None)
    return suggest_each_and_all(
        _drop_term(term, anti=side is apart)
        for side in (near, apart)
        if side is not None
        for term in side.required_during_scheduling_ignored_during_execution
    )


def _drop_term(term: PodAffinityTerm, *, anti: bool) -> Suggestion:
    try:
        pods = str(label_selector(term.label_selector)) or "pods"
    except SelectorError:
        pods = "pods"
    text = f"drop the pod's {'anti-affinity' if anti else 'affinity'} to {pods} by {term.topology_key}"
    side = "pod_anti_affinity" if anti else "pod_affinity"
    path = f"spec.affinity.{side}.required_during_scheduling_ignored_during_execution"
    return drop_item("dropPodTerm", text, path, term, term=term, anti=anti)
