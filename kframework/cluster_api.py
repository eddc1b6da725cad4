"""The cluster's API as plugins get it: nothing is written once the scheduler has stopped, and a bind ends in certainty.

A bind that gets no answer may have been done, or be done later. Were its pod put back at once, the room on the node
would be given to another pod meanwhile. So the pod is read back, and bound again to the same node, until it is known
where it is: the API binds a pod once, whichever of the requests comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from kframework.cluster import Cluster
from kframework.errors import ClusterError
from kframework.objects import ApiObject, Pod
from kframework.outbox import Outbox
from kframework.state.pods import PendingPod

__all__ = ["ClusterApi"]

T = TypeVar("T", bound=ApiObject)

#: After how many seconds a bind that got no answer is made again. After the last one the attempt fails, as it does in
#: kube-scheduler at once.
PAUSES = (0.01, 0.05, 0.25, 1.25)

#: No answer came, or the server says that it gave up waiting for its own.
UNANSWERED = frozenset({0, 504})

#: Reading back goes on until there is an answer; each pause, in seconds, is five times the one before, up to the last.
FIRST_PAUSE, LAST_PAUSE = 0.01, 10.0


class ClusterApi:
    """The cluster's API as plugins get it; every call may raise ClusterError."""

    def __init__(self, cluster: Cluster, outbox: Outbox) -> None:
        self._cluster = cluster
        self._outbox = outbox

    async def bind(self, pod: PendingPod, node_name: str) -> None:
        """Bind the pod; its uid is a precondition."""
        await self._outbox.make_way(pod.uid)
        pauses, in_doubt = iter(PAUSES), False
        while True:
            self._outbox.check()
            try:
                return await self._cluster.bind(pod.namespace, pod.name, pod.uid, node_name)
            except ClusterError as error:
                in_doubt = in_doubt or error.status == 0 or error.status >= 500
                if in_doubt and await self._is_on(pod, node_name):
                    return None
                pause = next(pauses, None) if error.status in UNANSWERED else None
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def _is_on(self, pod: PendingPod, node_name: str) -> bool:
        """Read back whether the pod is on this node; where reading is refused, believe that it is not."""
        pause = FIRST_PAUSE
        while True:
            self._outbox.check()
            try:
                found = await self._cluster.get(Pod, pod.name, pod.namespace)
                return (found.metadata.uid, found.spec.node_name) == (pod.uid, node_name)
            except ClusterError as error:
                if 0 < error.status < 500 and error.status != 429:
                    return False
            await asyncio.sleep(pause)
            pause = min(5 * pause, LAST_PAUSE)

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """Read one object."""
        return await self._cluster.get(kind, name, namespace)

    async def create(self, obj: T) -> T:
        """Create the object and return it as stored."""
        self._outbox.check()
        return await self._cluster.create(obj)

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        """Merge-patch the object and return it as stored."""
        self._outbox.check()
        return await self._cluster.patch(kind, name, patch, namespace)

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "") -> None:
        """Delete the object."""
        self._outbox.check()
        await self._cluster.delete(kind, name, namespace)
