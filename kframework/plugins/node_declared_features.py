"""NodeDeclaredFeatures: the node must declare the kubelet features that a pod needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework.framework.cycle_state import CycleState
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, hookimpl
from kframework.objects import Node, PodSpec
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows, Scores
from kframework.values.status import Skip, Status, unresolvable

REASON = "node(s) didn't match Pod's required features"

_REJECTION = unresolvable(REASON)

# The features that can be inferred from a pod's spec before it runs.
_RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
_USER_NAMESPACE_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


class NodeDeclaredFeatures(Plugin):
    """Reject nodes that do not declare every feature that the pod needs."""

    name = "NodeDeclaredFeatures"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()

    @hookimpl
    def sign(self, pod: PendingPod) -> frozenset[str]:
        return _needed_features(pod)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        return None if _needed_features(pod) else Skip

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None if _needed_features(pod).issubset(node.object.status.declared_features) else _REJECTION

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        needed = _needed_features(pod)
        return nodes.feature_sets.map_values(rows, lambda declared: not needed <= declared)

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _REJECTION

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        change = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [
            ClusterEvent(EventResource.NODE, change, after_node_change),
            ClusterEvent(EventResource.POD, ActionType.UPDATE, after_pod_change),
        ]


def after_node_change(pod: PendingPod, old: Node | None, new: Node) -> QueueingHint:
    """Queue the pod for a node that is new or declares other features than before."""
    same = old is not None and old.status.declared_features == new.status.declared_features
    return queue_if(not same)


def after_pod_change(pod: PendingPod, old: PodInfo, new: PodInfo) -> QueueingHint:
    """Queue the pod if it needs other features now."""
    return queue_if(new.uid == pod.uid and _needed_features(old) != _needed_features(new))


def _needed_features(pod: PodInfo) -> frozenset[str]:
    return pod.template.cached(NodeDeclaredFeatures, lambda spec: frozenset(_features(spec)))


def _features(spec: PodSpec) -> Iterator[str]:
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules):
        yield _RESTART_ALL_CONTAINERS
    if spec.host_network and spec.host_users is False:
        yield _USER_NAMESPACE_ON_HOST_NETWORK
