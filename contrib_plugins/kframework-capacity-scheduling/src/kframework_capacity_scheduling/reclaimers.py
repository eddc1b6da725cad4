"""Waking the pods that may take back what their namespaces are owed.

They wait for room on nodes, so the events of other plugins wake them. No such event says that a namespace has begun to
borrow, or that a quota has changed: then preemption may help at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kframework import Handle, PendingPod
from kframework_capacity_scheduling.accounts import Accounts
from kframework_capacity_scheduling.amounts import first_excess, sum_amounts
from kframework_capacity_scheduling.elastic_quota import ElasticQuota
from kframework_capacity_scheduling.quotas import Quotas
from kframework_capacity_scheduling.usage import Usage


class Reclaimers:
    """The pending pods that fit into what their namespaces are owed, which are tried again when others borrow."""

    def __init__(self, handle: Handle, quotas: Quotas, usage: Usage, accounts: Callable[[], Accounts]) -> None:
        self._handle = handle
        self._quotas = quotas
        self._usage = usage
        self._accounts = accounts
        self._borrowers: set[str] = set()
        self._is_waking = False
        usage.on_bound.append(self._on_bound)
        handle.on_change(ElasticQuota, self._on_quota_change)

    def _on_bound(self, namespace: str) -> None:
        if namespace not in self._quotas or not self._accounts().borrows(namespace):
            self._borrowers.discard(namespace)
        elif namespace not in self._borrowers:
            self._borrowers.add(namespace)
            self._wake_soon()

    def _on_quota_change(self, old: ElasticQuota | None, new: ElasticQuota | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._wake_soon()

    def _wake_soon(self) -> None:
        """Wake them once for all changes that come together."""
        if not self._is_waking:
            self._is_waking = True
            self._handle.spawn(self._wake())

    async def _wake(self) -> None:
        self._is_waking = False
        pods = list(self._find())
        if pods:
            self._handle.activate(pods)

    def _find(self) -> Iterator[PendingPod]:
        """List the most important pods of each namespace that fit into its `min` together."""
        placed, preemption = self._handle.pods, self._handle.preemption
        waiting = [
            pod
            for pod in self._handle.pending.values()
            if pod.namespace in self._quotas and pod.uid not in placed and not preemption.in_progress(pod)
        ]
        used = {namespace: self._usage.used[namespace] for namespace in self._quotas.by_namespace}
        for pod in sorted(waiting, key=lambda pod: -pod.priority):
            request, owed = dict(pod.on_node), self._quotas.by_namespace[pod.namespace].min
            shared = {name: amount for name, amount in request.items() if name in self._quotas.guaranteed}
            if first_excess(used[pod.namespace], shared, owed, 0) is None:
                used[pod.namespace] = sum_amounts((used[pod.namespace], request))
                yield pod
