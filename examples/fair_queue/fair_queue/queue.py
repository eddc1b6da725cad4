"""FairQueue: namespaces take turns in the queue, by how much cpu their pods request.

Start-time fair queueing, as networks have it for packets. Each namespace has a line on which its pods stand one behind
the other, each as long as its cpu divided by the weight of the namespace. Whose place begins first is tried first. A
namespace that had nothing to run for a while begins where the others are by now: neither ahead of them because it
waited, nor behind all that they have submitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import count

from pydantic import PositiveFloat

from kframework import Handle, PendingPod, Plugin, PluginArgs, QueuedPod, hookimpl

__all__ = ["FairQueue", "FairQueueArgs"]

#: What orders the queue: the priority, highest first; where the pod's place begins; who came first.
Key = tuple[int, float, int]

#: So many keys more than twice the pods that wait are kept before those of pods that are gone are looked for.
SPARE = 100


class FairQueueArgs(PluginArgs):
    """What `pluginConfig` may say: `weights` by namespace, 1 for all others; with 2 it gets twice as much as with 1."""

    weights: dict[str, PositiveFloat] = {}


class Lines:
    """The lines of all namespaces, for pods of one priority: urgent pods are served ahead of all lines but their own.

    `now` is where the pod began that was tried last, the virtual time of the literature.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.ends: dict[str, float] = {}
        self.untried: list[tuple[float, int, QueuedPod]] = []

    def join(self, queued: QueuedPod, length: float, number: int) -> float:
        """Give a pod a place behind its namespace's others, but not behind where all are by now; return its start."""
        namespace = queued.pod.namespace
        start = max(self.now, self.ends.get(namespace, 0.0))
        self.ends[namespace] = start + length
        heappush(self.untried, (start, number, queued))
        return start

    def move_on(self, pending: Mapping[str, PendingPod]) -> None:
        """Bring `now` up to date: to the last place whose pod was tried, or left without a try."""
        while self.untried and _is_past(self.untried[0][2], pending):
            self.now, _, _ = heappop(self.untried)

    def forget(self, pending: Mapping[str, PendingPod]) -> None:
        """Forget pods that are gone, and namespaces that have none: these would begin at `now`, or nearly."""
        self.untried = [each for each in self.untried if each[2].pod.uid in pending]
        heapify(self.untried)
        namespaces = {pod.namespace for pod in pending.values()}
        self.ends = {namespace: end for namespace, end in self.ends.items() if namespace in namespaces}


class FairQueue(Plugin[FairQueueArgs]):
    """Let namespaces take turns within a priority; a pod keeps its place over all attempts."""

    name = "FairQueue"

    def __init__(self, args: FairQueueArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._numbers = count()
        # By uid. A restart forgets them: the lines are made anew from the pods that wait then.
        self._keys: dict[str, Key] = {}
        self._lines: dict[int, Lines] = {}

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> Key:
        # Asked at every return to the queue. The answer stays what it was, so a pod that was tried in vain is next when
        # it comes back: its namespace has waited for it long enough.
        key = self._keys.get(queued.pod.uid)
        if key is None:
            self._forget()
            key = self._keys[queued.pod.uid] = self._join(queued)
        return key

    def _join(self, queued: QueuedPod) -> Key:
        pod, number = queued.pod, next(self._numbers)
        # In milli-CPU; containers that request none count as 100, as they do where kube-scheduler scores. A pod of no
        # length at all would let its namespace submit any number of them.
        length = max(pod.non_zero[0], 1) / self.args.weights.get(pod.namespace, 1.0)
        lines = self._lines.setdefault(pod.priority, Lines())
        # Who was tried is read off the queued pods themselves: only the first profile's instance sorts, while the hooks
        # of an attempt are called on the instance of the pod's own profile.
        lines.move_on(self.handle.pending)
        return -pod.priority, lines.join(queued, length, number), number

    def _forget(self) -> None:
        pending = self.handle.pending
        if len(self._keys) <= 2 * len(pending) + SPARE:
            return
        self._keys = {uid: key for uid, key in self._keys.items() if uid in pending}
        priorities = {pod.priority for pod in pending.values()}
        self._lines = {priority: lines for priority, lines in self._lines.items() if priority in priorities}
        for lines in self._lines.values():
            lines.forget(pending)


def _is_past(queued: QueuedPod, pending: Mapping[str, PendingPod]) -> bool:
    return queued.attempts > 0 or queued.pod.uid not in pending
