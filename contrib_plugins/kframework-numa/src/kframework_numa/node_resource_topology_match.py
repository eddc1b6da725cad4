"""NodeResourceTopologyMatch: reject nodes that would refuse the pod, and prefer those where it fits its zones well."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, Field

from kframework import (
    NOTHING,
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    PodInfo,
    QueueingHint,
    Rows,
    Skip,
    StateKey,
    Status,
    Watch,
    hookimpl,
    unschedulable,
)
from kframework_numa.alignment import misalignment
from kframework_numa.claims import ZoneClaim, claim_of
from kframework_numa.node_resource_topology import NodeResourceTopology
from kframework_numa.over_reserve import OverReserve
from kframework_numa.reports import Reports
from kframework_numa.scoring import ZONE_SCORES, least_numa_nodes, score_zones

_CLAIM = StateKey[ZoneClaim]("NodeResourceTopologyMatch/claim")


class WeightedResource(BaseModel):
    """A resource and what it counts for among others."""

    name: str
    weight: Annotated[int, Field(ge=0)] = 1


class TopologyScoring(BaseModel):
    """How nodes are preferred."""

    type: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"] = "LeastAllocated"
    """What a good zone is, or that few of them are needed."""
    resources: tuple[WeightedResource, ...] = ()
    """The weights of resources, 1 for those that are not named."""


class TopologyCache(BaseModel):
    """How the cache follows reports."""

    foreign_pods_detect: Literal["None", "All", "OnlyExclusiveResources"] = "All"
    """Accepted and not used: pods of other schedulers count as all others, so their nodes need not be avoided."""
    resync_method: Literal["Autodetect", "All", "OnlyExclusiveResources"] = "Autodetect"
    """Which pods the fingerprint of a report includes; reports say it themselves with `Autodetect`."""
    informer_mode: Literal["Shared", "Dedicated"] = "Dedicated"
    """Accepted and not used: the scheduler follows all pods anyway."""
    resync_scope: Literal["All", "OnlyResources"] = "All"
    """Accepted and not used: changed settings of a topology manager count at once."""


class NodeResourceTopologyMatchArgs(PluginArgs):
    """What `pluginConfig` may say, with the names and defaults of scheduler-plugins."""

    scoring_strategy: TopologyScoring = TopologyScoring()
    """How nodes are preferred."""
    cache_resync_period_seconds: Annotated[int, Field(ge=0)] = 0
    """Any number but 0 turns the cache on; reports are compared as they come, without a period."""
    discard_reserved_nodes: bool = False
    """Avoid nodes with pods that are about to be bound, instead of the cache."""
    cache: TopologyCache = TopologyCache()
    """How the cache follows reports."""
    preemption_mode: Literal["Disabled"] = "Disabled"
    """Victims do not give their zones back before the node has reported it."""


class NodeResourceTopologyMatch(Plugin[NodeResourceTopologyMatchArgs]):
    """Keep pods off nodes whose topology manager would refuse them, by what an agent reports of the zones."""

    name: ClassVar[str] = "NodeResourceTopologyMatch"
    reads = "pods"
    sign_reads = ()
    watches: ClassVar[tuple[Watch, ...]] = (Watch(NodeResourceTopology),)

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        has_cache = args.cache_resync_period_seconds > 0 and not args.discard_reserved_nodes
        self._reports = OverReserve(handle, args.cache.resync_method) if has_cache else Reports(handle)
        self._follows_pods = has_cache or args.discard_reserved_nodes
        self._weights = {each.name: each.weight or 1 for each in args.scoring_strategy.resources}
        self._zone_score = ZONE_SCORES.get(args.scoring_strategy.type)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        claim = claim_of(pod)
        return claim.signature if claim.total else NOTHING

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> None:
        state[_CLAIM] = claim_of(pod)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        claim, topology = state[_CLAIM], self._reports.topology(node)
        if topology is None or not claim.total:
            return None
        if self.args.discard_reserved_nodes and any(isinstance(other, PendingPod) for other in node.pods):
            return unschedulable("invalid node topology data")
        if not topology.rejects_pods:
            return None
        reason = misalignment(claim, topology, node.allocatable)
        return None if reason is None else unschedulable(reason)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        return None if state[_CLAIM].guaranteed else Skip  # any zone is as good as another

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        claim, topology = state[_CLAIM], self._reports.topology(node)
        if topology is None:
            return 0
        if self._zone_score is None:
            return least_numa_nodes(claim, topology)
        return score_zones(claim, topology, self._zone_score, self._weights)

    # -- what wakes a pod ------------------------------------------------------------------------------------------

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        reports = ClusterEvent(
            "noderesourcetopologies.v1alpha2.topology.node.k8s.io", ActionType.ALL, self.after_report
        )
        nodes = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        # A resize may also take it out of the class of guaranteed pods, which alone are aligned.
        resize = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE)
        pods = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ALL, self.after_pod)
        return [reports, nodes, resize, pods] if self._follows_pods else [reports, nodes, resize]

    def after_report(
        self, pod: PendingPod, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> QueueingHint:
        """Try a pod again if a node no longer refuses pods, or may have room for this one."""
        return QueueingHint.QUEUE if new is None else self._after_change_of(pod, new.metadata.name)

    def after_pod(self, pod: PendingPod, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Try a pod again if another one's node may have room for it: the other may have counted in all its zones."""
        changed = new or old
        assert changed is not None
        return self._after_change_of(pod, changed.node_name)

    def _after_change_of(self, pod: PendingPod, node_name: str) -> QueueingHint:
        topology = self._reports.by_node.get(node_name)
        if topology is None or not topology.rejects_pods:
            return QueueingHint.QUEUE
        reason = misalignment(claim_of(pod), topology, lambda name: 1)
        return QueueingHint.QUEUE if reason is None else QueueingHint.SKIP
