"""FewestPods: prefer the node that runs the fewest pods, and never put more than a limit on one."""

from __future__ import annotations

from collections.abc import Hashable

from pydantic import PositiveInt

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    Scores,
    Status,
    hookimpl,
    min_max_normalize,
    unschedulable,
)

__all__ = ["FewestPods", "FewestPodsArgs"]


class FewestPodsArgs(PluginArgs):
    """What `pluginConfig` may say: `maxPodsPerNode`, the number of pods at which a node is full."""

    max_pods_per_node: PositiveInt = 110


class FewestPods(Plugin[FewestPodsArgs]):
    """Filter out full nodes; score the others by how few pods they run."""

    name = "FewestPods"
    # `filter` and `score` look at the node's pods and at nothing outside it. So the engine may remember an answer until
    # a pod comes to the node or leaves it.
    reads = "pods"

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        # Pods of equal signature share remembered answers. Ours do not depend on the pod at all, so all pods are equal.
        return ()

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        # None means yes. The reason is counted over the nodes: "0/5 nodes are available: 2 node(s) ran 8 pods already".
        # Unschedulable, not unresolvable: the node would do if pods went away, so preemption may try.
        limit = self.args.max_pods_per_node
        return unschedulable(f"node(s) ran {limit} pods already") if len(node.pods) >= limit else None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        # Any integers will do, since `normalize_score` brings them to 0..100. More is better.
        return -len(node.pods)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # The fullest of the feasible nodes gets 0, the emptiest 100.
        return min_max_normalize(scores)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        # What can make room: a pod leaves a node, or a node comes. A pod that we rejected sleeps until then.
        return [
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE),
            ClusterEvent(EventResource.NODE, ActionType.ADD),
        ]
