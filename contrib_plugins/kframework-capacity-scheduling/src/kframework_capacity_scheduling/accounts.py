"""The books at one moment: what quotas use, what they will use once leaving pods have left, and what is promised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kframework import Handle, PendingPod, PodInfo
from kframework_capacity_scheduling.amounts import UNLIMITED, Amounts, first_excess, sum_amounts
from kframework_capacity_scheduling.quotas import Quotas
from kframework_capacity_scheduling.usage import Usage, amounts_by_namespace

_NOTHING: Amounts = {}
_NO_NAMESPACES: Mapping[str, Amounts] = {}


class Demand(NamedTuple):
    """The request of a pod, and those of nominated pods that go first: `reserved` of its quota, and of all quotas."""

    namespace: str
    request: Amounts
    reserved: Amounts
    reserved_by_all: Amounts


class Accounts:
    """The usage of quotas now, and the settled one: without the pods that are `leaving`."""

    def __init__(self, handle: Handle, quotas: Quotas, usage: Usage) -> None:
        self._handle = handle
        self._usage = usage
        self.leaving: Mapping[str, PodInfo] = usage.leaving()
        self._quotas = quotas.by_namespace
        self._guaranteed = quotas.guaranteed
        self._leaving_amounts = amounts_by_namespace(self.leaving.values()) if self.leaving else _NO_NAMESPACES

    def demand(self, pod: PendingPod) -> Demand:
        """Return what a pod of a quota needs, without taking what is promised to others.

        Pods of its namespace that are at least as important go first, and so do pods of namespaces that do not borrow.
        """
        own, others = list[PodInfo](), list[PodInfo]()
        for other, _ in self._nominated():
            if other.namespace != pod.namespace and not self.borrows(other.namespace):
                others.append(other)
            elif other.namespace == pod.namespace and other.priority >= pod.priority and other.uid != pod.uid:
                own.append(other)
        reserved = sum_amounts(dict(other.on_node) for other in own)
        promised = sum_amounts((reserved, *(dict(other.on_node) for other in others)))
        return Demand(pod.namespace, dict(pod.on_node), reserved, promised)

    def reclaimed_nodes(self, pod: PendingPod) -> set[str]:
        """Return the nodes where less important pods of other quotas wait for what these are owed."""
        return {
            node_name
            for other, node_name in self._nominated()
            if other.namespace != pod.namespace and other.priority < pod.priority and not self.borrows(other.namespace)
        }

    def _nominated(self) -> Iterator[tuple[PodInfo, str]]:
        """List the pods of quotas that are nominated to nodes, and not assumed there yet."""
        pending, placed = self._handle.pending, self._handle.pods
        for uid, node_name in self._handle.nominations.items():
            other = pending.get(uid)
            if other is not None and uid not in placed and other.namespace in self._quotas:
                yield other, node_name

    # -- one quota -------------------------------------------------------------------------------------------------

    def borrows(self, namespace: str, removed: Mapping[str, Amounts] = _NO_NAMESPACES) -> bool:
        """Return whether a namespace uses more than its `min` of a shared resource, without the pods that leave."""
        settled, owed = self._settled(namespace, removed), self._quotas[namespace].min
        return any(settled.get(name, 0) > owed.get(name, 0) for name in self._guaranteed)

    def would_borrow(self, demand: Demand) -> bool:
        """Return whether a namespace uses more than its `min` with the pod and those that go first.

        Its own leaving pods count: their room is what the pod waits for, before it takes any from others.
        """
        used = sum_amounts((self._usage.used[demand.namespace], demand.reserved))
        return first_excess(used, self._shared(demand.request), self._quotas[demand.namespace].min, 0) is not None

    def _settled(self, namespace: str, removed: Mapping[str, Amounts]) -> Amounts:
        less = [each for by_namespace in (self._leaving_amounts, removed) if (each := by_namespace.get(namespace))]
        return _subtract(self._usage.used[namespace], less)

    # -- all quotas ------------------------------------------------------------------------------------------------

    def excess(self, demand: Demand, removed: Mapping[str, Amounts] = _NO_NAMESPACES) -> str | None:
        """Return what forbids a pod even when the leaving pods have left, and those `removed`; None if nothing does."""
        less = [each for by_namespace in (self._leaving_amounts, removed) for each in self._of_quotas(by_namespace)]
        total = _subtract(self._usage.total(self._quotas), less)
        own = self._settled(demand.namespace, removed)
        return self._excess(demand, sum_amounts((own, demand.reserved)), sum_amounts((total, demand.reserved_by_all)))

    def excess_now(self, demand: Demand) -> str | None:
        """Return what forbids a pod as long as all other pods stay; None if nothing does."""
        return self._excess(demand, self._usage.used[demand.namespace], self._usage.total(self._quotas))

    def _excess(self, demand: Demand, own: Amounts, total: Amounts) -> str | None:
        resource = first_excess(own, demand.request, self._quotas[demand.namespace].max, UNLIMITED)
        if resource is not None:
            return f"ElasticQuota {demand.namespace} is more than Max ({resource})"
        resource = first_excess(total, self._shared(demand.request), self._guaranteed, 0)
        return None if resource is None else f"total ElasticQuota used is more than min ({resource})"

    def _shared(self, request: Amounts) -> Amounts:
        return {name: amount for name, amount in request.items() if name in self._guaranteed}

    def _of_quotas(self, by_namespace: Mapping[str, Amounts]) -> Iterator[Amounts]:
        return (amounts for namespace, amounts in by_namespace.items() if namespace in self._quotas)


def _subtract(amounts: Amounts, less: Iterable[Amounts]) -> Amounts:
    rest = dict(amounts)
    for part in less:
        for name, amount in part.items():
            rest[name] = rest.get(name, 0) - amount
    return rest
