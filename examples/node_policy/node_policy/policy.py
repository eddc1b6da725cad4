"""NodePolicies: who may use which nodes, as objects in the cluster that say how they are used.

    apiVersion: policy.example.com/v1
    kind: NodePolicy
    metadata: {name: licensed}
    spec:
      nodeSelector: {licence: "yes"}      which nodes it is about
      namespaces: [solvers]               whose pods may go there
      maxPods: 2                          how many of them on one node; no limit unless given
    status:
      pods: 3                             how many the scheduler has bound there

A kind of one's own is declared once, and is from then on a kind like any other: the scheduler follows it, cluster files
may hold it, `kframework rbac` asks for the rights, and its events wake pods.
"""

from __future__ import annotations

import msgspec

from kframework import (
    ActionType,
    ApiObject,
    ApiStruct,
    ClusterEvent,
    CycleState,
    EventResource,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    QueueingHint,
    Status,
    Watch,
    hookimpl,
    kind,
    unresolvable,
    unschedulable,
)

__all__ = ["NodePolicies", "NodePolicy", "NodePolicySpec", "NodePolicyStatus"]


class NodePolicySpec(ApiStruct, frozen=True, kw_only=True):
    """The namespaces whose pods each node accepts, and how many of them one node takes."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    max_pods: int | None = None


class NodePolicyStatus(ApiStruct, frozen=True, kw_only=True):
    """How many pods run on the nodes."""

    pods: int = 0


@kind("policy.example.com/v1", "nodepolicies", namespaced=False)
class NodePolicy(ApiObject, frozen=True, kw_only=True):
    """A rule about some nodes."""

    spec: NodePolicySpec = NodePolicySpec()
    status: NodePolicyStatus = NodePolicyStatus()


class NodePolicies(Plugin[PluginArgs]):
    """Keep pods off nodes whose policies do not name their namespace, and count those that are bound."""

    name = "NodePolicies"
    watches = (Watch(NodePolicy, verbs=("patch_status",)),)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        for policy in self._policies_of(node):
            if pod.namespace not in policy.spec.namespaces:
                return unresolvable(f"node(s) are not for namespace {pod.namespace} by policy {policy.metadata.name}")
            limit = policy.spec.max_pods
            if limit is not None and _pods_of(policy, node) >= limit:
                return unschedulable(f"node(s) have all {limit} pods that policy {policy.metadata.name} allows")
        return None

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent("nodepolicies.v1.policy.example.com", ActionType.UPDATE, self.after_update),
            ClusterEvent("nodepolicies.v1.policy.example.com", ActionType.DELETE),
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE),
        ]

    def after_update(self, pod: PendingPod, old: NodePolicy, new: NodePolicy) -> QueueingHint:
        # The status, which this plugin writes itself, helps nobody.
        return QueueingHint.SKIP if new.spec == old.spec else QueueingHint.QUEUE

    @hookimpl
    async def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        # Between a binding and its end the cluster moves on: what is counted is what is there by now.
        node = self.handle.nodes.find(node_name)
        for policy in self._policies_of(node) if node is not None else ():
            count = sum(_pods_of(policy, other) for other in self.handle.nodes if policy in self._policies_of(other))
            await self.handle.api.patch_status(NodePolicy, policy.metadata.name, {"pods": count})

    def _policies_of(self, node: NodeInfo) -> list[NodePolicy]:
        policies = self.handle.objects(NodePolicy)
        return [each for each in policies if each.spec.node_selector.items() <= node.labels.items()]


def _pods_of(policy: NodePolicy, node: NodeInfo) -> int:
    return sum(other.namespace in policy.spec.namespaces for other in node.pods)
