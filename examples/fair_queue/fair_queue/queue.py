"""FairQueue: namespaces take turns in the queue, by how much cpu their pods request.

Start-time fair queueing, as networks use it for packets. Each namespace is a flow: a pod starts where the one before it
finishes, and costs its cpu divided by the weight of the namespace. The pod with the lowest start is tried
first. A namespace that had no pods for a while starts at the current virtual time, neither ahead of the others because
it waited, nor behind all that they have submitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import count

from pydantic import PositiveFloat

from kframework import Handle, PendingPod, Plugin, PluginArgs, QueuedPod, hookimpl

__all__ = ["FairQueue", "FairQueueArgs"]

#: The sort key of a pod: the priority, highest first; the start of the pod in its flow; the order of arrival.
Key = tuple[int, float, int]

#: Keys of deleted pods are removed once there are this many keys more than twice the pending pods.
SPARE_KEYS = 100


class FairQueueArgs(PluginArgs):
    """What `pluginConfig` may say: `weights` by namespace, 1 for all others; with 2 it gets twice as much as with 1."""

    weights: dict[str, PositiveFloat] = {}


class Flows:
    """The flows of all namespaces, for pods of one priority.

    `virtual_time` is the start of the pod that was tried last.
    """

    def __init__(self) -> None:
        self.virtual_time = 0.0
        self.finish_tags: dict[str, float] = {}
        self.waiting: list[tuple[float, int, QueuedPod]] = []

    def add(self, queued: QueuedPod, cost: float, number: int) -> float:
        """Add a pod behind the others of its namespace, no earlier than the virtual time; return its start."""
        namespace = queued.pod.namespace
        start = max(self.virtual_time, self.finish_tags.get(namespace, 0.0))
        self.finish_tags[namespace] = start + cost
        heappush(self.waiting, (start, number, queued))
        return start

    def advance(self, pending: Mapping[str, PendingPod]) -> None:
        """Advance the virtual time to the start of the last pod that was tried or deleted."""
        while self.waiting and _has_left(self.waiting[0][2], pending):
            self.virtual_time, _, _ = heappop(self.waiting)

    def forget(self, pending: Mapping[str, PendingPod]) -> None:
        """Remove deleted pods, and namespaces without pods: these would start at about the virtual time."""
        self.waiting = [each for each in self.waiting if each[2].pod.uid in pending]
        heapify(self.waiting)
        namespaces = {pod.namespace for pod in pending.values()}
        self.finish_tags = {namespace: end for namespace, end in self.finish_tags.items() if namespace in namespaces}


class FairQueue(Plugin[FairQueueArgs]):
    """Let namespaces take turns within a priority; a pod keeps its key over all attempts."""

    name = "FairQueue"

    def __init__(self, args: FairQueueArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._numbers = count()
        # By uid. After a restart the flows are built again from the pending pods.
        self._keys: dict[str, Key] = {}
        self._flows: dict[int, Flows] = {}

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> Key:
        # Called whenever the pod returns to the queue. The key stays the same, so a pod that failed is next when it
        # returns: its namespace has waited for it long enough.
        key = self._keys.get(queued.pod.uid)
        if key is None:
            self._forget_deleted()
            key = self._keys[queued.pod.uid] = self._create_key(queued)
        return key

    def _create_key(self, queued: QueuedPod) -> Key:
        pod, number = queued.pod, next(self._numbers)
        # In milli-CPU; containers without a request count as 100, as in kube-scheduler. Pods without cost could
        # be submitted in any number.
        cost = max(pod.non_zero[0], 1) / self.args.weights.get(pod.namespace, 1.0)
        flows = self._flows.setdefault(pod.priority, Flows())
        # The queued pods themselves tell which were tried: only the first profile's instance sorts, while the hooks of
        # an attempt are called on the instance of the pod's own profile.
        flows.advance(self.handle.pending)
        return -pod.priority, flows.add(queued, cost, number), number

    def _forget_deleted(self) -> None:
        pending = self.handle.pending
        if len(self._keys) <= 2 * len(pending) + SPARE_KEYS:
            return
        self._keys = {uid: key for uid, key in self._keys.items() if uid in pending}
        priorities = {pod.priority for pod in pending.values()}
        self._flows = {priority: flows for priority, flows in self._flows.items() if priority in priorities}
        for flows in self._flows.values():
            flows.forget(pending)


def _has_left(queued: QueuedPod, pending: Mapping[str, PendingPod]) -> bool:
    return queued.attempts > 0 or queued.pod.uid not in pending
