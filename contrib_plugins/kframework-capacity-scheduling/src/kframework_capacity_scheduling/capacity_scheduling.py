"""CapacityScheduling: admit pods by the quotas of their namespaces, and reclaim what is lent by preemption."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from kframework import (
    NOTHING,
    ActionType,
    ClearNomination,
    ClusterEvent,
    CycleState,
    Diagnosis,
    EventResource,
    Handle,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    PodInfo,
    Preempt,
    QueueingHint,
    StateKey,
    Status,
    Watch,
    hookimpl,
    unschedulable,
)
from kframework.objects import Node, Pod, PodDisruptionBudget
from kframework_capacity_scheduling.accounts import Accounts, Demand
from kframework_capacity_scheduling.elastic_quota import ElasticQuota
from kframework_capacity_scheduling.quotas import Quotas
from kframework_capacity_scheduling.reclaimers import Reclaimers
from kframework_capacity_scheduling.status_writer import StatusWriter
from kframework_capacity_scheduling.usage import Usage
from kframework_capacity_scheduling.victims import QuotaRules, propose_victims, rules_without_quota

_DEMAND = StateKey[Demand]("CapacityScheduling/demand")

_KEPT_FOR_OTHERS = "node(s) were kept for pods that reclaim what their quota is owed"


class CapacitySchedulingArgs(PluginArgs):
    """Args of early releases of scheduler-plugins, accepted and ignored."""

    kube_config_path: str = ""
    """Ignored: the scheduler has a connection already."""


class CapacityScheduling(Plugin[CapacitySchedulingArgs]):
    """Let namespaces lend each other what their ElasticQuota guarantees, and take it back when they need it."""

    name: ClassVar[str] = "CapacityScheduling"
    sign_reads = (ElasticQuota,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(ElasticQuota, verbs=("patch_status",)),
        Watch(PodDisruptionBudget),
        Watch(Pod, verbs=("delete",)),
    )

    def __init__(self, args: CapacitySchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._quotas = Quotas(handle)
        self._usage = Usage(handle)
        #: The uids of the pods that were kept off nodes for others.
        self._kept_off: set[str] = set()
        StatusWriter(handle, self._usage)
        Reclaimers(handle, self._quotas, self._usage, self._accounts)

    def _accounts(self) -> Accounts:
        return Accounts(self.handle, self._quotas, self._usage)

    @hookimpl
    def sign(self, pod: PendingPod) -> object | None:
        return None if pod.namespace in self._quotas else NOTHING

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | set[str] | None:
        self._kept_off.discard(pod.uid)
        if pod.namespace not in self._quotas:
            return None
        accounts = self._accounts()
        demand = state[_DEMAND] = accounts.demand(pod)
        excess = accounts.excess(demand) or accounts.excess_now(demand)
        if excess is not None:
            return unschedulable(f"Pod {pod.key} is rejected in PreFilter because {excess}")
        kept = accounts.reclaimed_nodes(pod) if accounts.would_borrow(demand) else ()
        if not kept:
            return None
        self._kept_off.add(pod.uid)
        return {node.name for node in nodes}.difference(kept) or unschedulable(_KEPT_FOR_OTHERS)

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        """Do nothing: the pod counts since it was assumed. Configurations of scheduler-plugins enable Reserve."""

    @hookimpl
    def post_filter(
        self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis
    ) -> Preempt | ClearNomination | Status:
        demand, accounts = state.get(_DEMAND), self._accounts()
        if demand is None:
            rules = rules_without_quota(pod, self._quotas)
        elif accounts.excess_now(demand) is not None and accounts.excess(demand) is None:
            return unschedulable("preemption: enough pods are leaving already")
        else:
            rules = QuotaRules(pod, demand, self._quotas, accounts).rules
        return propose_victims(self.handle, state, pod, diagnosis, rules)

    # -- what wakes a pod ------------------------------------------------------------------------------------------

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ALL, self.after_pod_change, self.affected_by_pod),
            ClusterEvent(EventResource.NOMINATED_POD, ActionType.DELETE, self.after_change),
            ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_SCALE_DOWN),
            ClusterEvent("elasticquotas.v1alpha1.scheduling.x-k8s.io", ActionType.ALL, self.after_quota_change),
            ClusterEvent(EventResource.NODE, ActionType.ADD, affects=self.affected_by_node),
        ]

    def affected_by_pod(self, old: PodInfo | None, new: PodInfo | None) -> Collection[str] | None:
        """Return None, for any pod, if a quota has got room; else the pods that were kept off nodes."""
        pod = new or old
        assert pod is not None
        if pod.namespace not in self._quotas:
            return self.affected_by_node()
        if new is None or (old is not None and (new.on_node != old.on_node or new.terminating > old.terminating)):
            return None
        # A namespace that begins to borrow has no claim for its nominated pods any more.
        pending = self.handle.pending
        has_claims = any(uid in pending and pending[uid].namespace == pod.namespace for uid in self.handle.nominations)
        return None if old is None and has_claims else self.affected_by_node()

    def affected_by_node(self, old: Node | None = None, new: Node | None = None) -> Collection[str]:
        self._kept_off &= self.handle.pending.keys()
        return self._kept_off

    def after_change(self, pod: PendingPod, old: object, new: object) -> QueueingHint:
        if pod.namespace not in self._quotas:
            return QueueingHint.QUEUE
        accounts = self._accounts()
        demand = accounts.demand(pod)
        excess = accounts.excess(demand) or accounts.excess_now(demand)
        return QueueingHint.QUEUE if excess is None else QueueingHint.SKIP

    def after_pod_change(self, pod: PendingPod, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Try a pod again for which quotas have room, or which waited for a victim before it looks for others."""
        waited = old is not None and new is None and self.handle.nominations.get(pod.uid) == old.node_name
        return QueueingHint.QUEUE if waited else self.after_change(pod, old, new)

    def after_quota_change(self, pod: PendingPod, old: ElasticQuota | None, new: ElasticQuota | None) -> QueueingHint:
        if old is not None and new is not None and old.spec == new.spec:
            return QueueingHint.SKIP  # its status, which this plugin writes itself
        return self.after_change(pod, old, new)
