"""The pods that another pod may have evicted: those of its own quota, or those that borrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kframework import (
    ClearNomination,
    Code,
    CycleState,
    Diagnosis,
    Handle,
    PendingPod,
    PodInfo,
    Preempt,
    Status,
    VictimRules,
    unschedulable,
)
from kframework_capacity_scheduling.accounts import Accounts, Demand
from kframework_capacity_scheduling.amounts import Amounts
from kframework_capacity_scheduling.quotas import Quotas
from kframework_capacity_scheduling.usage import amounts_by_namespace

_NO_VICTIMS = unschedulable("preemption: quotas and priorities let the pod evict none")


def propose_victims(
    handle: Handle, state: CycleState, pod: PendingPod, diagnosis: Diagnosis, rules: VictimRules
) -> Preempt | ClearNomination | Status:
    """Let the scheduler's evaluator look for victims by these rules, and answer as DefaultPreemption does."""
    preemption = handle.preemption
    rejection = preemption.blocked_reason(pod, diagnosis, rules=rules)
    if rejection is not None:
        return _with_prefix(rejection)
    if not any(rules.may_evict(other, ()) for other in handle.pods.values()):
        return ClearNomination(_NO_VICTIMS)  # no dry run is needed to know it
    found = preemption.candidates(state, pod, diagnosis, rules=rules)
    if found.candidates:
        return Preempt(found.candidates, preemption.key)
    # If a dry run failed, the pod may still have a chance on its nominated node.
    status = _with_prefix(found.status)
    return status if status.code == Code.ERROR else ClearNomination(status)


def _with_prefix(status: Status) -> Status:
    return Status(status.code, (f"preemption: {status.message}",))


def rules_without_quota(pod: PendingPod, quotas: Quotas) -> VictimRules:
    """Return the rules for a pod without a quota: it evicts pods of lower priority that have none either."""
    return VictimRules(
        may_evict=lambda other, removed: other.priority < pod.priority and other.namespace not in quotas,
        rejection=lambda removed: None,
    )


class QuotaRules:
    """The rules for a pod of a quota.

    If the namespace would use more than its `min` with the pod, victims are less important pods of the namespace. Else
    others have borrowed what it is owed: victims are pods of namespaces that borrow, whatever their priority, until
    these are left with their `min`.
    """

    def __init__(self, pod: PendingPod, demand: Demand, quotas: Quotas, accounts: Accounts) -> None:
        self._pod = pod
        self._demand = demand
        self._quotas = quotas
        self._accounts = accounts
        self._stays_at_home = accounts.would_borrow(demand)
        #: The namespaces that borrow while no pod is removed.
        self._borrowers = {namespace for namespace in quotas.by_namespace if accounts.borrows(namespace)}
        self.rules: VictimRules = VictimRules(self.may_evict, self.rejection)

    def may_evict(self, other: PodInfo, removed: Collection[PodInfo]) -> bool:
        is_own = other.namespace == self._pod.namespace
        if self._stays_at_home or is_own:
            return self._stays_at_home and is_own and other.priority < self._pod.priority
        if other.uid in self._accounts.leaving:
            return other.namespace in self._quotas
        is_borrower = other.namespace in self._borrowers
        return is_borrower and (not removed or self._accounts.borrows(other.namespace, self._freed(removed)))

    def rejection(self, removed: Collection[PodInfo]) -> Status | None:
        """Return why the quotas forbid the pod even when these pods have left; None if they do not."""
        excess = self._accounts.excess(self._demand, self._freed(removed))
        return None if excess is None else unschedulable(excess)

    def _freed(self, removed: Collection[PodInfo]) -> Mapping[str, Amounts]:
        """Return what pods give back that were not leaving anyway."""
        return amounts_by_namespace(pod for pod in removed if pod.uid not in self._accounts.leaving)
