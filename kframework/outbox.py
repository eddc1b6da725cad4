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
from kframework.objects import Event, PodCondition
from kframework.state.pods import PendingPod, PodInfo

__all__ = ["Outbox", "Written", "patch_status"]

_log = logging.getLogger(__name__)

#: Events beyond this number are dropped, oldest first, as kube-scheduler's recorder does.
MAX_EVENTS = 1000

#: How long to wait before each further try to write a status, in seconds, and what is worth one: a conflict, an
#: internal error, a service or a server that is not there. As in kube-scheduler.
PAUSES = (0.01, 0.05, 0.25)
WORTH_ANOTHER_TRY = frozenset({409, 500, 503, 0})

#: Tells when something has been written: what went wrong, None if nothing did.
Written = asyncio.Future[ClusterError | None]


class _Status:
    """What waits to be written about one pod."""

    __slots__ = ("condition", "nominated_node_name", "pod", "written")

    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod
        self.condition: PodCondition | None = None
        self.nominated_node_name: str | None = None
        self.written: Written = asyncio.get_running_loop().create_future()

    def end(self, error: ClusterError | None) -> None:
        if not self.written.done():  # whoever waited for it may have been cancelled
            self.written.set_result(error)


class Outbox:
    """Writes that wait, and the one coroutine that makes them; it calls `on_empty` when it has made the last one."""

    def __init__(self, cluster: Cluster, on_empty: Callable[[], None] = lambda: None) -> None:
        self._cluster = cluster
        self._on_empty = on_empty
        self._statuses: dict[str, _Status] = {}
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._woken = asyncio.Event()
        self._writing = False
        #: The pod whose status is being written.
        self._patching = ""

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> Written:
        """Write a pod's condition, its nominated node or both; None leaves as it is."""
        status = self._statuses.get(pod.uid) or _Status(pod)
        said = isinstance(pod, PendingPod) and _says(pod, condition, nominated_node_name)
        if said and pod.uid not in self._statuses and pod.uid != self._patching:
            status.end(None)
            return status.written
        status.pod = pod
        status.condition = condition or status.condition
        if nominated_node_name is not None:
            status.nominated_node_name = nominated_node_name
        self._statuses[pod.uid] = status
        self._woken.set()
        return status.written

    def drop_status(self, uid: str) -> None:
        """Do not write what waits about this pod's status: it is being bound."""
        status = self._statuses.pop(uid, None)
        if status is not None:
            status.end(None)

    def record(self, event: Event) -> None:
        """Write an Event."""
        self._events.append(event)
        self._woken.set()

    @property
    def empty(self) -> bool:
        """Whether everything has been written."""
        return not (self._statuses or self._events or self._writing)

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
            while self._statuses or self._events:
                if self._statuses:
                    await self._write_status(self._statuses.pop(next(iter(self._statuses))))
                else:
                    await _made(self._cluster.record_event(self._events.popleft()))
        finally:
            self._writing = False
        self._on_empty()

    async def _write_status(self, status: _Status) -> None:
        self._patching = status.pod.uid
        error = await _made(patch_status(self._cluster, status.pod, status.condition, status.nominated_node_name))
        self._patching = ""
        status.end(error)

    def __repr__(self) -> str:
        return f"<Outbox {len(self._statuses)} statuses, {len(self._events)} events waiting>"


def _says(pod: PendingPod, condition: PodCondition | None, nominated_node_name: str | None) -> bool:
    """Tell whether the pod's status says so already; the times of a condition do not count."""
    same = (
        (old.status, old.reason, old.message) == (condition.status, condition.reason, condition.message)
        for old in pod.status.conditions
        if condition is not None and old.type == condition.type
    )
    return nominated_node_name in (None, pod.status.nominated_node_name) and (condition is None or any(same))


async def patch_status(
    cluster: Cluster, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None = None
) -> None:
    """Write a pod's condition, its nominated node or both, if need be several times; raises the last ClusterError."""
    for pause in PAUSES:
        try:
            return await _patched(cluster, pod, condition, nominated_node_name)
        except ClusterError as error:
            if error.status not in WORTH_ANOTHER_TRY:
                raise
        await asyncio.sleep(pause)
    return await _patched(cluster, pod, condition, nominated_node_name)


async def _patched(
    cluster: Cluster, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None
) -> None:
    await cluster.patch_pod_status(
        pod.namespace, pod.name, pod.uid, condition=condition, nominated_node_name=nominated_node_name
    )


async def _made(write: Awaitable[None]) -> ClusterError | None:
    try:
        await write
    except ClusterError as error:
        if error.status != 404:
            _log.warning("a write was refused: %s", error)
        return error
    return None
