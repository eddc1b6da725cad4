"""NodeAffinity: a pod runs only on nodes with the labels it requires, and preferably on those that it prefers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property, partial
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from kframework.config.args import ApiArgs
from kframework.config.decode import ApiObjectMarker
from kframework.framework.answers import NodeNames
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, hookimpl
from kframework.framework.suggestions import (
    PENDING_POD,
    ChangeEstimates,
    Suggestion,
    Suggestions,
    drop_item,
    patch_field,
    remove_label,
    set_label,
)
from kframework.objects import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
)
from kframework.objects import NodeAffinity as NodeAffinityOfPod
from kframework.objects.label_selectors import SelectorError
from kframework.objects.node_selectors import (
    NodePredicate,
    NodeScore,
    NodeSelectorTerms,
    names_nodes,
    node_affinity,
    node_predicate,
    pinned_nodes,
    preferred_node_score,
    required_node_affinity,
    required_node_selector,
)
from kframework.objects.problem import FieldPath, Problem
from kframework.state import selection
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.feature_gates import FeatureGates
from kframework.values.scores import Rows, Scores, default_normalize
from kframework.values.status import Skip, Status, error, unresolvable

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"

#: Labels that describe what a node is, so changing them is not suggested.
_FIXED_LABELS = (
    *("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"),
    *("beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type"),
    *("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    *("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
)

#: Operators to fix last, as labels set for other operators may already satisfy them.
_FIXED_LAST = frozenset({"Exists", "NotIn"})

_NO_MATCH, _NOT_ENFORCED, _CONFLICT = unresolvable(REASON), unresolvable(ENFORCED), unresolvable(CONFLICT)
# Reason bits.
_OWN, _ADDED = 1, 2

_REQUIRED = StateKey[NodePredicate | None]("NodeAffinity.required")
#: The weights of the preferences that a node meets.
_PREFERRED = StateKey[NodeScore]("NodeAffinity.preferred")


class NodeAffinityArgs(ApiArgs):
    """A node affinity that is added to that of every pod."""

    added_affinity: Annotated[NodeAffinityOfPod, ApiObjectMarker()] | None = None
    """What the nodes of every pod of the profile must or should be like, beside what the pod says."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        if self.added_affinity is None:
            return
        needed = self.added_affinity.required_during_scheduling_ignored_during_execution
        for index, term in enumerate(needed.node_selector_terms if needed else ()):
            path: FieldPath = ("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", index)
            for problem in NodeSelectorTerms([term]).errors:
                yield Problem(("addedAffinity", *path), str(problem))
        for index, preferred in enumerate(self.added_affinity.preferred_during_scheduling_ignored_during_execution):
            try:
                preferred_node_score([preferred])
            except SelectorError as problem:
                path = ("preferredDuringSchedulingIgnoredDuringExecution", index, "preference")
                yield Problem(("addedAffinity", *path), str(problem))


class NodeAffinity(Plugin[NodeAffinityArgs]):
    """Reject nodes that the pod's nodeSelector or node affinity excludes, and prefer those that it prefers."""

    name = "NodeAffinity"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return pod.template.cached(NodeAffinity, _signature)

    # -- required affinity ---------------------------------------------------------------------------------------------

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | NodeNames | None:
        required = _required(pod)
        if required is None and self._enforced is None:
            return Skip
        state[_REQUIRED] = required
        names = pinned_nodes(pod.spec)
        return names if names or names is None else _CONFLICT

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        if self._enforced is not None and not self._enforced(node.labels, node.name):
            return _NOT_ENFORCED
        required = state[_REQUIRED]
        return None if required is None or required(node.labels, node.name) else _NO_MATCH

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        bits = np.where(selection.match_required(nodes, pod.spec, rows), 0, _OWN)
        if self._added_selector is not None:
            bits |= np.where(selection.match_terms(nodes, self._added_selector.node_selector_terms, rows), 0, _ADDED)
        return bits

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _NOT_ENFORCED if bits & _ADDED else _NO_MATCH

    # -- suggestions ---------------------------------------------------------------------------------------------------

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        """Label the node, or drop unmet requirements; without a node, drop the names of missing nodes."""
        own = required_node_selector(pod.spec)
        terms = _nonempty_terms(own) if own is not None else []
        if node is None:
            fields = dict.fromkeys(field for term in terms for field in term.match_fields)
            yield tuple(map(drop_node_requirement, fields))
            return
        labels: Mapping[str, str] | None = {**node.labels, **pod.spec.node_selector}
        for selector in (self._added_selector, own):
            if labels is not None and selector is not None:
                labels = _matching_labels(selector, labels, node)
        if labels is not None and all(labels.get(key) == node.labels.get(key) for key in _FIXED_LABELS):
            removed = (remove_label(node.name, key) for key in node.labels if key not in labels)
            added = (set_label(node.name, key, value) for key, value in labels.items() if node.labels.get(key) != value)
            yield (*removed, *added)
        drop = partial(drop_item, "dropNodeSelector")
        dropped = (
            drop(f"drop {key}={value} from the pod's nodeSelector", "spec.node_selector", key, key=key, value=value)
            for key, value in pod.spec.node_selector.items()
            if node.labels.get(key) != value
        )
        closest = min((_unmet_requirements(term, node.labels, node) for term in terms), key=len, default=[])
        yield (*dropped, *map(drop_node_requirement, closest))

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        """Count the labels that the pod's nodeSelector and the closest term of its node affinity miss."""
        missing, own = np.zeros(nodes.capacity)[rows], required_node_selector(pod.spec)
        for key, value in pod.spec.node_selector.items():
            missing += ~selection.match_labels(nodes, {key: value}, rows)
        if own is not None:
            closest = np.full_like(missing, math.inf)
            for term in own.node_selector_terms:
                unmet = (~selection.match_terms(nodes, (part,), rows) for _, part in _requirements(term))
                closest = np.minimum(closest, sum(unmet, np.zeros_like(missing)))
            missing += closest
        return np.maximum(missing, 1)

    # -- preferred affinity --------------------------------------------------------------------------------------------

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        preferences = self._preferences(pod)
        if not preferences:
            return Skip
        try:
            state[_PREFERRED] = preferred_node_score(preferences)
        except SelectorError as problem:
            return error(str(problem))
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return state[_PREFERRED](node.labels, node.name)

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return selection.score_preferred(nodes, self._preferences(pod), rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        return default_normalize(scores)

    def _preferences(self, pod: PendingPod) -> tuple[PreferredSchedulingTerm, ...]:
        own, added = node_affinity(pod.spec), self.args.added_affinity
        return tuple(
            term
            for affinity in (own, added)
            if affinity is not None
            for term in affinity.preferred_during_scheduling_ignored_during_execution
        )

    # -- the affinity that the Args add to every pod's -----------------------------------------------------------------

    @cached_property
    def _added_selector(self) -> NodeSelector | None:
        added = self.args.added_affinity
        return added.required_during_scheduling_ignored_during_execution if added is not None else None

    @cached_property
    def _enforced(self) -> NodePredicate | None:
        return node_predicate(self._added_selector) if self._added_selector is not None else None

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [ClusterEvent(EventResource.NODE, change, self.after_node_change)]

    def after_node_change(self, pod: PendingPod, old: Node | None, new: Node) -> QueueingHint:
        """Queue the pod for a node that now matches its affinity and the added one."""
        matched = old is not None and self._fits(pod, old)
        return queue_if(self._fits(pod, new) and not matched)

    def _fits(self, pod: PendingPod, node: Node) -> bool:
        labels, name = node.metadata.labels, node.metadata.name
        return all(matches is None or matches(labels, name) for matches in (self._enforced, _required(pod)))


def _required(pod: PendingPod) -> NodePredicate | None:
    """Compile the pod's requirements: once per template, unless they name nodes."""
    if pod.template.cached(NodeAffinity, _signature) is None:
        return required_node_affinity(pod.spec)
    return pod.template.cached(_required, required_node_affinity)


def _signature(spec: PodSpec) -> Hashable | None:
    """Return what the answers depend on, None for a pod that names nodes.

    The DaemonSet controller creates such a pod for each node. Signed by its name, each would use its own memory once;
    unsigned, they share the cached answers of all other plugins for their template.
    """
    if names_nodes(required_node_selector(spec)):
        return None
    return msgspec.json.encode((sorted(spec.node_selector.items()), node_affinity(spec)))


def _nonempty_terms(selector: NodeSelector) -> list[NodeSelectorTerm]:
    return [term for term in selector.node_selector_terms if term.match_expressions or term.match_fields]


def _requirements(term: NodeSelectorTerm) -> Iterator[tuple[NodeSelectorRequirement, NodeSelectorTerm]]:
    """Yield the requirements of a term, each with a term that consists of it alone."""
    yield from ((each, NodeSelectorTerm(match_expressions=(each,))) for each in term.match_expressions)
    yield from ((each, NodeSelectorTerm(match_fields=(each,))) for each in term.match_fields)


def _unmet_requirements(
    term: NodeSelectorTerm, labels: Mapping[str, str], node: NodeInfo
) -> list[NodeSelectorRequirement]:
    return [
        required
        for required, part in _requirements(term)
        if not node_predicate(NodeSelector(node_selector_terms=(part,)))(labels, node.name)
    ]


def _matching_labels(selector: NodeSelector, labels: Mapping[str, str], node: NodeInfo) -> Mapping[str, str] | None:
    """Return the labels with the fewest changes that make the selector match; None if no labels do."""
    closest, fewest = None, math.inf
    for term in _nonempty_terms(selector):
        unmet = _unmet_requirements(term, labels, node)
        changed: Mapping[str, str] | None = labels
        for required in sorted(unmet, key=lambda required: required.operator in _FIXED_LAST):
            changed = None if changed is None else _with_label(changed, required)
        if changed is not None and len(unmet) < fewest:
            closest, fewest = changed, len(unmet)
    return closest


def _with_label(labels: Mapping[str, str], required: NodeSelectorRequirement) -> Mapping[str, str] | None:
    """Return the labels with one that meets the requirement; None if only another node can meet it."""
    key, values = required.key, required.values
    match required.operator:
        case _ if key == "metadata.name":
            return None
        case "In" if values:
            return {**labels, key: values[0]}
        case "NotIn" | "DoesNotExist":
            return {name: value for name, value in labels.items() if name != key}
        case "Exists":
            return {key: "true", **labels}
        case "Gt":
            return {**labels, key: str(int(values[0]) + 1)}
        case "Lt":
            return {**labels, key: str(int(values[0]) - 1)}
        case _:
            return None


def drop_node_requirement(requirement: NodeSelectorRequirement) -> Suggestion:
    """Suggest to drop a requirement, on a label or on the name of the node, from the pod's required node affinity."""

    def drop_requirement(term: NodeSelectorTerm) -> NodeSelectorTerm:
        return NodeSelectorTerm(
            match_expressions=tuple(each for each in term.match_expressions if each != requirement),
            match_fields=tuple(each for each in term.match_fields if each != requirement),
        )

    def patch(selector: NodeSelector) -> NodeSelector | None:
        terms = tuple(map(drop_requirement, selector.node_selector_terms))
        # A term that requires nothing matches no node in Kubernetes; meant here is that any node will do.
        met = all(term.match_expressions or term.match_fields for term in terms)
        return NodeSelector(node_selector_terms=terms) if terms and met else None

    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return Suggestion(
        f"drop {requirement.key} {requirement.operator}{values} from the pod's node affinity",
        PENDING_POD,
        patch_field("spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution", patch),
        "dropNodeRequirement",
        {"requirement": requirement},
    )
