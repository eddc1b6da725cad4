"""PodTopologySpread: pods of a kind are spread evenly over the values of a node label, strictly or preferably."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from kframework.config.args import ApiArgs
from kframework.config.decode import ZERO_IS_DEFAULT, ApiObjectMarker, schema_type
from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.domain_limits import DomainLimit
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import ChangeEstimates, Suggestions
from kframework.objects import Node, ReplicaSet, ReplicationController, Service, StatefulSet, TopologySpreadConstraint
from kframework.objects.label_selectors import SelectorError
from kframework.objects.node_selectors import required_node_affinity
from kframework.objects.problem import FieldPath, Problem, duplicate, forbidden, invalid, not_supported, required
from kframework.plugins.pod_topology_spread.spread_constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    DefaultConstraints,
    SpreadConstraint,
    own_constraints,
)
from kframework.plugins.pod_topology_spread.spread_limits import Limits, build_limits, limit_status
from kframework.plugins.pod_topology_spread.spread_scores import HOSTNAME, SoftConstraints, SpreadScores
from kframework.plugins.shared_args import label_name_problems
from kframework.state.node_sets import NodeSets, node_requirements
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.feature_gates import FeatureGates
from kframework.values.scores import MAX_SCORE, Rows, Scores
from kframework.values.status import Skip, Status, error

#: The kinds that default constraints are derived from, and the resources of their events.
_Selecting = Service | ReplicationController | ReplicaSet | StatefulSet
_SELECTING = (EventResource.SERVICE, "replicationcontrollers.v1.", "replicasets.v1.apps", "statefulsets.v1.apps")

_ZONE = "topology.kubernetes.io/zone"
_SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(max_skew=5, topology_key=_ZONE, when_unsatisfiable=SCHEDULE_ANYWAY),
)


_LIMITS = StateKey[Limits]("PodTopologySpread.limits")
_SOFT = StateKey[SoftConstraints]("PodTopologySpread.soft")
_SCORES = StateKey[SpreadScores]("PodTopologySpread.scores")


_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_DEFAULTING_TYPES = ("System", "List")

_DEFAULT_CONSTRAINT = {
    "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
    "properties": {
        "maxSkew": {"type": "integer", "minimum": 1},
        "topologyKey": {"type": "string", "minLength": 1},
        "whenUnsatisfiable": {"enum": _ACTIONS},
        "labelSelector": {"type": "null"},
    },
}


class PodTopologySpreadArgs(ApiArgs):
    """Constraints for pods without their own: kube-scheduler's (`System`) or the given `List`."""

    default_constraints: tuple[
        Annotated[TopologySpreadConstraint, ApiObjectMarker(), schema_type(allOf=[_DEFAULT_CONSTRAINT])], ...
    ] = ()
    """The constraints of the type `List`; their selectors follow from the pods' services and owners."""
    defaulting_type: Annotated[str, ZERO_IS_DEFAULT, schema_type(enum=("", *_DEFAULTING_TYPES))] = "System"
    """Whose constraints are meant."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        kind = self.defaulting_type
        if kind not in _DEFAULTING_TYPES:
            yield not_supported(("defaultingType",), kind, _DEFAULTING_TYPES)
        elif kind == "System" and self.default_constraints:
            yield invalid(("defaultingType",), kind, "when .defaultConstraints are not empty")
        earlier: set[tuple[str, str]] = set()
        for index, constraint in enumerate(self.default_constraints):
            path: FieldPath = ("defaultConstraints", index)
            key, action = constraint.topology_key, constraint.when_unsatisfiable
            if constraint.max_skew <= 0:
                yield invalid((*path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
            if not key:
                yield required((*path, "topologyKey"), "can not be empty")
            else:
                yield from label_name_problems((*path, "topologyKey"), key)
            if not action:
                yield required((*path, "whenUnsatisfiable"), "can not be empty")
            elif action not in _ACTIONS:
                yield not_supported((*path, "whenUnsatisfiable"), action, _ACTIONS)
            if constraint.label_selector is not None:
                detail = "constraint must not define a selector, as they deduced for each pod"
                yield forbidden((*path, "labelSelector"), detail)
            if (key, action) in earlier:
                yield duplicate(path, f"{{{key}, {action}}}")
            earlier.add((key, action))


class PodTopologySpread(Plugin[PodTopologySpreadArgs]):
    """Reject nodes where a pod would skew the spread of its kind too much, and prefer those that even it out."""

    name = "PodTopologySpread"
    reads: ClassVar[Reads] = "domains"
    sign_reads: ClassVar[SignReads] = (Service, ReplicationController, ReplicaSet, StatefulSet)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(Service),
        Watch(ReplicationController),
        Watch(ReplicaSet),
        Watch(StatefulSet),
    )

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        """Return the constraints and what they depend on; NOTHING for a pod that has none now, nor default ones."""
        try:
            hard, soft = self._constraints(pod, DO_NOT_SCHEDULE), self._constraints(pod, SCHEDULE_ANYWAY)
        except SelectorError:
            return None
        if not hard and not soft:
            return NOTHING
        leeways = tuple(constraint.leeway(pod) for constraint in hard)
        return hard, leeways, soft, self._needs_labels(pod), node_requirements(pod)

    # -- hard constraints ----------------------------------------------------------------------------------------------

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        try:
            constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        except SelectorError as problem:
            return error(f"pod's hard topology spread constraints: {problem}")
        state[_LIMITS] = build_limits(pod, nodes, constraints, self._node_sets)
        return None if constraints else Skip

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        state[_LIMITS].count(pod, other, node.row, 1)

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        state[_LIMITS].count(pod, other, node.row, -1)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return state[_LIMITS].rejection(node.row)

    @hookimpl
    def filter_domains(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Sequence[DomainLimit]:
        return state[_LIMITS].by_domain()

    @hookimpl
    def filter_more(
        self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows, added: Scores
    ) -> int | None:
        return None if state[_LIMITS].by_domain() else 0

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return limit_status(bits)

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        return state[_LIMITS].suggestions(pod, node) if node is not None else ()

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        return state[_LIMITS].estimates(rows)

    # -- soft constraints ----------------------------------------------------------------------------------------------

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        # Pods of a run share a state: what they count is looked up once.
        soft = state.get(_SOFT)
        if soft is None or soft.version != nodes.count_changes:
            try:
                constraints = self._constraints(pod, SCHEDULE_ANYWAY)
            except SelectorError as problem:
                return error(f"pod's soft topology spread constraints: {problem}")
            if not constraints:
                return Skip
            needs_labels = self._needs_labels(pod)
            soft = state[_SOFT] = SoftConstraints(pod, nodes, constraints, self._node_sets, needs_labels=needs_labels)
        state[_SCORES] = SpreadScores(soft, rows)
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return state[_SCORES].score(node.row)

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return state[_SCORES].score_rows(rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        """Give the highest score to the nodes with the fewest pods, and 0 to ignored nodes."""
        ignored = state[_SCORES].ignored
        counted = scores if ignored is None else scores[~ignored]
        most = int(np.maximum.reduce(counted, initial=0))  # a microsecond less than `max`
        if most == 0:
            return MAX_SCORE if ignored is None else np.where(ignored, 0, MAX_SCORE)
        evened: Scores = MAX_SCORE * (most + int(np.minimum.reduce(counted)) - scores) // most
        return evened if ignored is None else np.where(ignored, 0, evened)

    # -- constraints ---------------------------------------------------------------------------------------------------

    def _constraints(self, pod: PendingPod, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the pod's constraints with this action, or the default ones if it has none at all."""
        if pod.spec.topology_spread_constraints:
            return own_constraints(pod, action)
        return self._defaults.for_pod(pod, action)

    def _needs_labels(self, pod: PendingPod) -> bool:
        """Return whether nodes without all labels are ignored.

        With kube-scheduler's own defaults a node that has no zone is still one of many hosts.
        """
        return bool(pod.spec.topology_spread_constraints) or self.args.defaulting_type != "System"

    @cached_property
    def _default_constraints(self) -> Sequence[TopologySpreadConstraint]:
        return _SYSTEM_DEFAULTS if self.args.defaulting_type == "System" else self.args.default_constraints

    @cached_property
    def _defaults(self) -> DefaultConstraints:
        return DefaultConstraints(self._default_constraints, self.handle)

    @cached_property
    def _node_sets(self) -> NodeSets:
        return NodeSets(self.handle.nodes)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        pod_changes = (
            ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE
        )
        node_changes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        events = [
            ClusterEvent(EventResource.POD, pod_changes, self.after_pod_change),
            ClusterEvent(EventResource.NODE, node_changes, self.after_node_change),
        ]
        if any(constraint.when_unsatisfiable == DO_NOT_SCHEDULE for constraint in self._default_constraints):
            anything = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
            events += [ClusterEvent(kind, anything, after_selector_change) for kind in _SELECTING]
        return events

    def after_pod_change(self, pod: PendingPod, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue the pod if others of its kind are added or removed, or if its own constraints change meaning."""
        if not all(_is_relevant(other, pod) for other in (old, new) if other is not None):
            return QueueingHint.SKIP
        constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        moved = any(_is_matched(constraint, old) != _is_matched(constraint, new) for constraint in constraints)
        return queue_if(moved or self._change_constraints(old, new))

    def _change_constraints(self, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Return whether a pending pod's new labels or tolerations change what its constraints count."""
        if not isinstance(old, PendingPod) or not isinstance(new, PendingPod):
            return False
        constraints = self._constraints(new, DO_NOT_SCHEDULE)
        if constraints != self._constraints(old, DO_NOT_SCHEDULE):
            return True
        honored = any(constraint.honors_taints for constraint in constraints)
        return honored and old.spec.tolerations != new.spec.tolerations

    def after_node_change(self, pod: PendingPod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue the pod if a node joins, leaves or changes domains, or starts or stops to count."""
        constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        before, after = _domains(constraints, old), _domains(constraints, new)
        if before != after:
            return QueueingHint.QUEUE
        if old is None or new is None or after is None:
            return QueueingHint.SKIP
        return queue_if(
            old.spec.taints != new.spec.taints or _matches_affinity(pod, old) != _matches_affinity(pod, new)
        )


def after_selector_change(pod: PendingPod, old: _Selecting | None, new: _Selecting | None) -> QueueingHint:
    """Queue a pod without its own constraints if a service or its owner now selects other pods."""
    before, after = (each.spec.selector if each is not None else None for each in (old, new))
    changed = new or old
    if changed is None or before == after or pod.spec.topology_spread_constraints:
        return QueueingHint.SKIP
    owns = any(owner.name == changed.metadata.name for owner in pod.owner_references)
    return queue_if(changed.metadata.namespace == pod.namespace and (owns or isinstance(changed, Service)))


def _is_relevant(other: PodInfo, pod: PendingPod) -> bool:
    has_node = bool(other.node_name or other.nominated_node_name)
    return other.uid == pod.uid or (has_node and other.namespace == pod.namespace)


def _is_matched(constraint: SpreadConstraint, pod: PodInfo | None) -> bool:
    return pod is not None and constraint.selector.matches(pod.labels)


def _domains(constraints: Sequence[SpreadConstraint], node: Node | None) -> Sequence[str] | None:
    """List a node's domains, None if it is not in all topologies."""
    if node is None or not all(constraint.topology_key in node.metadata.labels for constraint in constraints):
        return None
    return [node.metadata.labels[constraint.topology_key] for constraint in constraints]


def _matches_affinity(pod: PendingPod, node: Node) -> bool:
    required = required_node_affinity(pod.spec)
    return required is None or required(node.metadata.labels, node.metadata.name)
