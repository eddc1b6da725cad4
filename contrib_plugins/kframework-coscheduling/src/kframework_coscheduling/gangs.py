"""Gangs: the members of each PodGroup, and which of them found no node since one last started to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from kframework import Handle, NodeTable, PendingPod, PodInfo
from kframework.objects import parse_amounts
from kframework_coscheduling.pod_groups import LABEL, PodGroup

#: Namespace and name of a group.
GangKey = tuple[str, str]


def gang_key(pod: PodInfo) -> GangKey | None:
    """Return the group that a pod names, in its own namespace; None without one."""
    name = pod.labels.get(LABEL)
    return (pod.namespace, name) if name else None


class PodGang:
    """The pods that name one group, by uid, and how far the scheduler has come with them.

    Attributes:
        pending: the pods of this scheduler that are not bound yet, those that wait at Permit included.
        placed: the pods on nodes, those that wait at Permit included.
        failed: the uids of pending pods that found no node. Until an event brings such a pod back it counts as missing.
        waiting: the uids of the pods that hold a node for the others at Permit.
        beaten: the uids of the pods that were in the gang when it gave up; empty once something may have made room.
        failed_at: when the gang last gave up, in seconds since 1970; None if it has not since it last started.
        backs_off_until: when it may be tried again, in seconds since 1970.
    """

    def __init__(self) -> None:
        self.pending: dict[str, PendingPod] = {}
        self.placed: dict[str, PodInfo] = {}
        self.failed: set[str] = set()
        self.waiting: set[str] = set()
        self.beaten: set[str] = set()
        self.failed_at: float | None = None
        self.backs_off_until: float = 0.0

    @property
    def assigned(self) -> int:
        """The number of pods that are on a node and stay."""
        return sum(not pod.terminating for pod in self.placed.values())

    def candidates(self) -> Iterator[PendingPod]:
        """Yield the pods that still need a node and may be tried, whether or not they have failed."""
        for uid, pod in self.pending.items():
            if uid not in self.placed and not pod.terminating and not pod.spec.scheduling_gates:
                yield pod

    @property
    def size(self) -> int:
        """The number of pods that exist, those with scheduling gates included."""
        waiting = sum(uid not in self.placed and not pod.terminating for uid, pod in self.pending.items())
        return waiting + self.assigned

    def reachable(self, tried: str = "") -> int:
        """Return how many pods can have a node at best, if the one of the uid `tried` finds one."""
        return self.assigned + sum(pod.uid not in self.failed or pod.uid == tried for pod in self.candidates())


class Gangs:
    """All gangs, kept current; `on_change` is called with the key of one that gains, loses or changes a pod."""

    def __init__(self, handle: Handle, on_change: Callable[[GangKey], None]) -> None:
        self._gangs: dict[GangKey, PodGang] = {}
        self._store = handle.objects(PodGroup)
        self._on_change = on_change
        for pending in handle.pending.values():
            self._pending_changed(None, pending)
        for placed in handle.pods.values():
            self._placed_changed(None, placed)
        handle.on_pending_change(self._pending_changed)
        handle.on_pod_change(self._placed_changed)

    def find(self, pod: PodInfo) -> PodGang:
        """Return the gang of a pod; an empty one if it names no group."""
        key = gang_key(pod)
        return self.get(key) if key is not None else PodGang()

    def get(self, key: GangKey) -> PodGang:
        """Return the gang of a group; an empty one if no pod names it."""
        return self._gangs.get(key) or PodGang()

    def group(self, pod: PodInfo) -> PodGroup | None:
        """Return the PodGroup that a pod names; None if it names none, or one that does not exist."""
        key = gang_key(pod)
        return self._store.get(key[1], key[0]) if key is not None else None

    def _pending_changed(self, old: PendingPod | None, new: PendingPod | None) -> None:
        before, after = _key_of(old), _key_of(new)
        if after is not None and new is not None:
            self._gangs.setdefault(after, PodGang()).pending[new.uid] = new
        if before is not None and old is not None and before != after:
            gang = self._gangs[before]
            del gang.pending[old.uid]
            gang.failed.discard(old.uid)
            self._forget_if_empty(before)
        if before != after:
            self._report(before, after)

    def _placed_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        before, after = _key_of(old), _key_of(new)
        if after is not None and new is not None:
            self._gangs.setdefault(after, PodGang()).placed[new.uid] = new
        if before is not None and old is not None and before != after:
            del self._gangs[before].placed[old.uid]
            self._forget_if_empty(before)
        # A pod that is only assumed on a node is as pending for the API server as before.
        if not isinstance(new or old, PendingPod):
            self._report(before, after)

    def _report(self, *keys: GangKey | None) -> None:
        for key in dict.fromkeys(keys):
            if key is not None:
                self._on_change(key)

    def _forget_if_empty(self, key: GangKey) -> None:
        gang = self._gangs[key]
        if not gang.pending and not gang.placed:
            del self._gangs[key]


def _key_of(pod: PodInfo | None) -> GangKey | None:
    return None if pod is None else gang_key(pod)


def missing_room(group: PodGroup, members: Iterable[PodInfo], nodes: NodeTable) -> str:
    """Say which of a group's minimum all nodes together have too little of; "" if none.

    What its own `members` use counts as left. A node that others overcommit has nothing left.
    """
    own, minimum = [(nodes.row(pod.node_name), pod) for pod in members], parse_amounts(group.spec.min_resources or {})
    gaps = []
    for resource, needed in (*minimum.items(), ("pods", group.spec.min_member)):
        free = nodes.allocatable(resource) - nodes.requested(resource)
        for row, pod in own:
            if row is not None:
                free[row] += _usage(pod, resource)
        left = int(np.maximum(free, 0).sum())
        if left < needed:
            gaps.append(f"{resource}: {_format(resource, needed - left)}")
    return ", ".join(gaps)


def _usage(pod: PodInfo, resource: str) -> int:
    return 1 if resource == "pods" else dict(pod.on_node).get(resource, 0)


def _format(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == "cpu" else str(amount)
