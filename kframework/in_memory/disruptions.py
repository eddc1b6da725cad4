"""Evictions within PodDisruptionBudgets, and the controller that maintains the status of these.

The rules are kube-controller-manager's, except that pods without a controller count as their own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from itertools import chain
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended, is_ready
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import MemoryController
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kframework.objects.label_selectors import NOTHING, Selector, SelectorError, label_selector

_Owner = ReplicaSet | StatefulSet | ReplicationController
_OWNERS: tuple[type[_Owner], ...] = (ReplicaSet, StatefulSet, ReplicationController)
_PERCENTAGE = re.compile(r"[0-9]+%")

#: Seconds between two passes: each one reads all pods of a namespace, and pods change in large numbers.
_SYNC_INTERVAL = 0.1


class DisruptionController(MemoryController):
    """Updates the status of PodDisruptionBudgets for the pods that they cover.

    `disruptedPods` (evicted but not yet deleted) is always cleared: evictions complete before the controller runs.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod, PodDisruptionBudget, *_OWNERS)

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self._changed_namespaces: dict[str, None] = {}  # namespaces, in order of their changes

    @property
    def idle(self) -> bool:
        return not self._changed_namespaces

    async def _wait(self) -> None:
        await asyncio.sleep(_SYNC_INTERVAL)
        await super()._wait()

    def _receive(self, change: Change) -> None:
        self._changed_namespaces[change.subject.metadata.namespace] = None
        self._wake.set()

    def _work(self) -> None:
        namespaces, self._changed_namespaces = self._changed_namespaces, {}
        budgets = [each for each in self._cluster.objects(PodDisruptionBudget) if each.metadata.namespace in namespaces]
        for namespace in dict.fromkeys(budget.metadata.namespace for budget in budgets):
            pods = self._cluster.objects(Pod, namespace)
            owners = chain.from_iterable(self._cluster.objects(kind, namespace) for kind in _OWNERS)
            scales = {each.metadata.uid: 1 if each.spec.replicas is None else each.spec.replicas for each in owners}
            for budget in budgets:
                if budget.metadata.namespace == namespace:
                    self._cluster.replace(replace(budget, status=_status(budget, pods, scales)))


def _status(budget: PodDisruptionBudget, pods: Iterable[Pod], scales: dict[str, int]) -> PodDisruptionBudgetStatus:
    """Compute the status of a budget; an invalid one, or one without a limit, allows no disruption."""
    selector = _budget_selector(budget)
    covered = [pod for pod in pods if selector.matches(pod.metadata.labels)]
    lowest, highest = budget.spec.min_available, budget.spec.max_unavailable
    try:
        if highest is not None:
            expected = _expected_pods(covered, scales)
            desired = max(0, expected - _resolve_percentage(highest, expected))
        elif isinstance(lowest, str):
            expected = _expected_pods(covered, scales)
            desired = _resolve_percentage(lowest, expected)
        else:
            expected, desired = (len(covered), lowest) if lowest is not None else (0, 0)
    except ValueError:
        return replace(budget.status, disruptions_allowed=0)
    healthy = sum(is_ready(pod) and pod.metadata.deletion_timestamp is None for pod in covered)
    return PodDisruptionBudgetStatus(
        disruptions_allowed=max(0, healthy - desired) if expected > 0 else 0,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        observed_generation=budget.metadata.generation,
    )


def find_budget(cluster: MemoryCluster, pod: Pod) -> PodDisruptionBudget | None:
    """Return the budget that the eviction of a pod is charged to, None if there is none; ClusterError for several."""
    if not pod.spec.node_name or has_ended(pod) or pod.metadata.deletion_timestamp is not None:
        return None
    budgets = cluster.objects(PodDisruptionBudget, pod.metadata.namespace)
    covering = [each for each in budgets if _budget_selector(each).matches(pod.metadata.labels)]
    if len(covering) > 1:  # API servers cannot charge several budgets at once
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ClusterError(message, status=500, reason="InternalError")
    return covering[0] if covering else None


def evict(cluster: MemoryCluster, pod: Pod, budget: PodDisruptionBudget | None, grace: int | None = None) -> None:
    """Delete a pod, and charge that to its budget, which allows it."""
    if budget is not None:
        status = replace(
            budget.status,
            disruptions_allowed=budget.status.disruptions_allowed - 1,
            disrupted_pods=budget.status.disrupted_pods | {pod.metadata.name: cluster.timestamp()},
        )
        cluster.replace(replace(budget, status=status))
    cluster.remove_object(pod, grace=grace)


def _budget_selector(budget: PodDisruptionBudget) -> Selector:
    try:
        return label_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING


def _expected_pods(pods: Iterable[Pod], scales: dict[str, int]) -> int:
    controllers: set[str] = set()
    alone = 0
    for pod in pods:
        owner = pod.metadata.controlling_owner
        if owner is not None and owner.uid in scales:
            controllers.add(owner.uid)
        elif not has_ended(pod):
            alone += 1
    return alone + sum(scales[uid] for uid in controllers)


def _resolve_percentage(pods: int | str, expected: int) -> int:
    """Resolve a number or percentage of pods, rounded up; raises ValueError."""
    if isinstance(pods, int):
        return pods
    if not _PERCENTAGE.fullmatch(pods):
        raise ValueError(pods)
    return -(-int(pods[:-1]) * expected // 100)
