"""The disruption controller of a cluster in memory: it says how many pods each PodDisruptionBudget lets go.

The rules are those of kube-controller-manager, but for pods that no controller owns: here they count as their own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from itertools import chain
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended, is_ready
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

#: Pods come and go in crowds, and each look goes through all pods of a namespace: so long it rests in between, seconds.
_REST = 0.1


class DisruptionController(MemoryController):
    """Keeps the status of PodDisruptionBudgets in step with the pods that they cover.

    Nobody stays on a budget's list of disrupted pods, those who are evicted but not yet gone: here an eviction is done
    before the controller looks.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod, PodDisruptionBudget, *_OWNERS)

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self._unseen: dict[str, None] = {}  # namespaces in which something changed, in order

    @property
    def idle(self) -> bool:
        return not self._unseen

    async def _wait(self) -> None:
        await asyncio.sleep(_REST)
        await super()._wait()

    def _receive(self, change: Change) -> None:
        self._unseen[change.subject.metadata.namespace] = None
        self._wake.set()

    def _work(self) -> None:
        unseen, self._unseen = self._unseen, {}
        budgets = [each for each in self._cluster.objects(PodDisruptionBudget) if each.metadata.namespace in unseen]
        for namespace in dict.fromkeys(budget.metadata.namespace for budget in budgets):
            pods = self._cluster.objects(Pod, namespace)
            owners = chain.from_iterable(self._cluster.objects(kind, namespace) for kind in _OWNERS)
            scales = {each.metadata.uid: 1 if each.spec.replicas is None else each.spec.replicas for each in owners}
            for budget in budgets:
                if budget.metadata.namespace == namespace:
                    self._cluster.replace(replace(budget, status=_status(budget, pods, scales)))


def _status(budget: PodDisruptionBudget, pods: Iterable[Pod], scales: dict[str, int]) -> PodDisruptionBudgetStatus:
    """Work out what a budget allows; one that cannot be understood, or sets no limit, allows nothing."""
    selector = selector_of(budget)
    covered = [pod for pod in pods if selector.matches(pod.metadata.labels)]
    lowest, highest = budget.spec.min_available, budget.spec.max_unavailable
    try:
        if highest is not None:
            expected = _expected(covered, scales)
            desired = max(0, expected - _number_of(highest, expected))
        elif isinstance(lowest, str):
            expected = _expected(covered, scales)
            desired = _number_of(lowest, expected)
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


def selector_of(budget: PodDisruptionBudget) -> Selector:
    """Compile the selector of a budget, one that cannot be read as one that matches nothing."""
    try:
        return label_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING


def _expected(pods: Iterable[Pod], scales: dict[str, int]) -> int:
    """Say how many pods there should be: what their controllers want, and those that have none that is known."""
    controllers: set[str] = set()
    alone = 0
    for pod in pods:
        owner = next((each.uid for each in pod.metadata.owner_references if each.controller), "")
        if owner in scales:
            controllers.add(owner)
        elif not has_ended(pod):
            alone += 1
    return alone + sum(scales[uid] for uid in controllers)


def _number_of(pods: int | str, expected: int) -> int:
    """Return a number of pods, of a percentage the next whole one up; ValueError for text that is no percentage."""
    if isinstance(pods, int):
        return pods
    if not _PERCENTAGE.fullmatch(pods):
        raise ValueError(pods)
    return -(-int(pods[:-1]) * expected // 100)
