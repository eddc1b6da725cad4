"""What the scheduler writes back, in the background: pod statuses first, events last.

A later status of a pod replaces an earlier one that is still waiting, and a binding takes its place; what a pod says
already is not written. A write that fails is logged and dropped: the next attempt says it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from kframework.cluster import Cluster
from kframework.errors import ClusterError
from kframework.objects import Event, Pod, PodCondition
from kframework.state.pods import PendingPod, PodInfo

__all__ = ["Outbox"]

_log = logging.getLogger(__name__)

#: Events beyond this number are dropped, oldest first, as kube-scheduler's recorder does.
MAX_EVENTS = 1000


class Outbox:
    """Writes that wait, and the one coroutine that makes them; it calls `on_empty` when it has made the last one."""

    def __init__(self, cluster: Cluster, on_empty: Callable[[], None] = lambda: None) -> None:
        self._cluster = cluster
        self._on_empty = on_empty
        self._statuses: dict[str, tuple[PodInfo, PodCondition | None, str | None]] = {}
        self._evictions: deque[tuple[PodInfo, PodCondition]] = deque()
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._woken = asyncio.Event()
        self._writing = False
        #: The pod whose status is being written.
        self._patching = ""

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        """Write a pod's condition, its nominated node or both; None leaves as it is."""
        under_way = pod.uid in self._statuses or pod.uid == self._patching
        if not under_way and isinstance(pod, PendingPod) and _says(pod, condition, nominated_node_name):
            return
        _, older_condition, older_nominated = self._statuses.get(pod.uid, (pod, None, None))
        if nominated_node_name is None:
            nominated_node_name = older_nominated
        self._statuses[pod.uid] = (pod, condition or older_condition, nominated_node_name)
        self._woken.set()

    def drop_status(self, uid: str) -> None:
        """Do not write what waits about this pod's status: it is being bound."""
        self._statuses.pop(uid, None)

    def evict(self, pod: PodInfo, condition: PodCondition) -> None:
        """Mark a pod as disrupted, then delete it."""
        self._evictions.append((pod, condition))
        self._woken.set()

    def record(self, event: Event) -> None:
        """Write an Event."""
        self._events.append(event)
        self._woken.set()

    @property
    def empty(self) -> bool:
        """Whether everything has been written."""
        return not (self._statuses or self._evictions or self._events or self._writing)

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self.flush()

    async def flush(self) -> None:
        """Write all that waits."""
        self._writing = True
        try:
            while (write := self._next()) is not None:
                await _made(write)
                self._patching = ""
        finally:
            self._writing = False
        self._on_empty()

    def _next(self) -> Callable[[], Awaitable[None]] | None:
        cluster = self._cluster
        if self._statuses:
            uid = next(iter(self._statuses))
            pod, condition, nominated = self._statuses.pop(uid)
            self._patching = uid
            return lambda: cluster.patch_pod_status(
                pod.namespace, pod.name, uid, condition=condition, nominated_node_name=nominated
            )
        if self._evictions:
            victim, disrupted = self._evictions.popleft()
            return lambda: self._evict(victim, disrupted)
        if self._events:
            event = self._events.popleft()
            return lambda: cluster.record_event(event)
        return None

    async def _evict(self, pod: PodInfo, condition: PodCondition) -> None:
        await self._cluster.patch_pod_status(pod.namespace, pod.name, pod.uid, condition=condition)
        await self._cluster.delete(Pod, pod.name, pod.namespace, uid=pod.uid)

    def __repr__(self) -> str:
        waiting = f"{len(self._statuses)} statuses, {len(self._evictions)} evictions, {len(self._events)} events"
        return f"<Outbox {waiting} waiting>"


def _says(pod: PendingPod, condition: PodCondition | None, nominated_node_name: str | None) -> bool:
    """Tell whether the pod's status says so already; the times of a condition do not count."""
    same = (
        (old.status, old.reason, old.message) == (condition.status, condition.reason, condition.message)
        for old in pod.status.conditions
        if condition is not None and old.type == condition.type
    )
    return nominated_node_name in (None, pod.status.nominated_node_name) and (condition is None or any(same))


async def _made(write: Callable[[], Awaitable[None]]) -> None:
    try:
        await write()
    except ClusterError as error:
        if error.status != 404:
            _log.warning("a write was refused: %s", error)
