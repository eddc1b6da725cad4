"""What the pods of each namespace use, kept current by every change of a pod.

It follows from the pods alone, whichever scheduler bound them: a restart finds what the last scheduler left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from kframework import Handle, PendingPod, PodInfo
from kframework_capacity_scheduling.amounts import Amounts, sum_amounts

Tally = defaultdict[str, dict[str, int]]


class Usage:
    """The requests of the pods on nodes by namespace: `used` with pods about to be bound, `bound` without them.

    A pod counts until it has ended or is deleted.
    """

    def __init__(self, handle: Handle) -> None:
        self.used: Tally = defaultdict(dict)
        self.bound: Tally = defaultdict(dict)
        self._handle = handle
        #: Called with the namespace whenever `bound` changes.
        self.on_bound: list[Callable[[str], None]] = []
        self._terminating: dict[str, PodInfo] = {}
        #: `_total` is the sum over these namespaces.
        self._summed: Collection[str] = ()
        self._total: dict[str, int] = {}
        for pod in handle.pods.values():
            self._on_pod_change(None, pod)
        handle.on_pod_change(self._on_pod_change)

    def total(self, namespaces: Collection[str]) -> Amounts:
        """Return what these namespaces use together; cheap for the same collection as the last time."""
        if self._summed is not namespaces:
            self._summed = namespaces
            self._total = sum_amounts(self.used[namespace] for namespace in namespaces)
        return self._total

    def leaving(self) -> Mapping[str, PodInfo]:
        """Return the pods that give back what they use anyway, by uid: terminating, or chosen as victims."""
        chosen, pods = self._handle.preemption.chosen_victims, self._handle.pods
        if not chosen:
            return self._terminating
        return self._terminating | {uid: pods[uid] for uid in chosen if uid in pods}

    def _on_pod_change(self, old: PodInfo | None, new: PodInfo | None) -> None:
        if old is not None:
            self._terminating.pop(old.uid, None)
        if new is not None and new.terminating:
            self._terminating[new.uid] = new
        if old is not None and new is not None and _counts_alike(old, new):
            return
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None:
                self._count(pod, sign)

    def _count(self, pod: PodInfo, sign: int) -> None:
        _add(self.used[pod.namespace], pod, sign)
        if pod.namespace in self._summed:
            _add(self._total, pod, sign)
        if not isinstance(pod, PendingPod):
            _add(self.bound[pod.namespace], pod, sign)
            for callback in self.on_bound:
                callback(pod.namespace)


def amounts_by_namespace(pods: Iterable[PodInfo]) -> Mapping[str, Amounts]:
    """Add up the requests of pods."""
    tally: Tally = defaultdict(dict)
    for pod in pods:
        _add(tally[pod.namespace], pod, 1)
    return tally


def _counts_alike(old: PodInfo, new: PodInfo) -> bool:
    return old.on_node == new.on_node and isinstance(old, PendingPod) == isinstance(new, PendingPod)


def _add(amounts: dict[str, int], pod: PodInfo, sign: int) -> None:
    for name, amount in pod.on_node:
        amounts[name] = amounts.get(name, 0) + sign * amount
