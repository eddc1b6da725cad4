"""NodeAffinity: a pod runs only on nodes with the labels it asks for, and rather on those that it prefers."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from kframework.config.args import NodeAffinityArgs
from kframework.framework.answers import NodeNames, Rows, Scores, default_normalize
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, PluginArgs, Reads, hookimpl
from kframework.framework.status import Skip, Status, error, unresolvable
from kframework.objects import Node, NodeSelector, PodSpec, PreferredSchedulingTerm
from kframework.objects.label_selectors import SelectorError
from kframework.objects.node_selectors import (
    NodePredicate,
    NodeScore,
    names_nodes,
    node_affinity,
    node_predicate,
    pinned_nodes,
    preferred_node_score,
    required_node_affinity,
    required_node_selector,
)
from kframework.state import selection
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod

REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"

_NO_MATCH, _NOT_ENFORCED, _CONFLICT = unresolvable(REASON), unresolvable(ENFORCED), unresolvable(CONFLICT)
# Reason bits.
_OWN, _ADDED = 1, 2

#: What the pod itself requires of a node, if anything.
_REQUIRED = StateKey[NodePredicate | None]("NodeAffinity.required")
#: The weights of the preferences that a node meets.
_PREFERRED = StateKey[NodeScore]("NodeAffinity.preferred")


class NodeAffinity(Plugin):
    """Reject nodes that the pod's nodeSelector or node affinity leaves out, and prefer those it would rather have."""

    name = "NodeAffinity"
    Args: ClassVar[type[PluginArgs]] = NodeAffinityArgs
    reads: ClassVar[Reads] = "node"

    args: NodeAffinityArgs

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return pod.template.once(NodeAffinity, _signature)

    # -- what a node must have -------------------------------------------------------------------------------------

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
        bits = np.where(selection.required(nodes, pod.spec, rows), 0, _OWN)
        if self._added_selector is not None:
            bits |= np.where(selection.matched(nodes, self._added_selector.node_selector_terms, rows), 0, _ADDED)
        return bits

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _NOT_ENFORCED if bits & _ADDED else _NO_MATCH

    # -- what it should have ---------------------------------------------------------------------------------------

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
        return selection.preferred(nodes, self._preferences(pod), rows)

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

    # -- the affinity that the Args add to every pod's -------------------------------------------------------------

    @cached_property
    def _added_selector(self) -> NodeSelector | None:
        added = self.args.added_affinity
        return added.required_during_scheduling_ignored_during_execution if added is not None else None

    @cached_property
    def _enforced(self) -> NodePredicate | None:
        return node_predicate(self._added_selector) if self._added_selector is not None else None

    # -- events ----------------------------------------------------------------------------------------------------

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [ClusterEvent(EventResource.NODE, change, self.after_node_change)]

    def after_node_change(self, pod: PendingPod, old: Node | None, new: Node) -> QueueingHint:
        """Queue the pod for a node that has come to match its affinity and the added one."""
        matched = old is not None and self._fits(pod, old)
        return queue_if(self._fits(pod, new) and not matched)

    def _fits(self, pod: PendingPod, node: Node) -> bool:
        return _matches(self._enforced, node) and _matches(_required(pod), node)


def _matches(predicate: NodePredicate | None, node: Node) -> bool:
    return predicate is None or predicate(node.metadata.labels, node.metadata.name)


def _required(pod: PendingPod) -> NodePredicate | None:
    """Compile what the pod requires: once for its template, unless the names of nodes are the pod's own."""
    if pod.template.once(NodeAffinity, _signature) is None:
        return required_node_affinity(pod.spec)
    return pod.template.once(_required, required_node_affinity)


def _signature(spec: PodSpec) -> Hashable | None:
    """Return what the answers depend on, None for a pod that names nodes.

    The DaemonSet controller makes such a pod for each node. Signed by its name, each would get memory of its own and
    use it once; unsigned, they share what all other plugins say of their template.
    """
    if names_nodes(required_node_selector(spec)):
        return None
    return msgspec.json.encode((sorted(spec.node_selector.items()), node_affinity(spec)))
