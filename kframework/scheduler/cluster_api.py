"""The cluster's API for plugins: it rejects writes after the scheduler stops, and every bind has a known outcome.

A bind without an answer may have been done, or be done later. If its pod were requeued at once, the room on the node
would be given to another pod. So the pod is read back, and bound again to the same node, until its state is known: the
API binds a pod once, whichever of the requests comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from kframework.client.cluster import Cluster
from kframework.errors import ClusterError
from kframework.framework.handle import COMPLETED, Api
from kframework.objects import ApiObject, Pod
from kframework.scheduler.outbox import DENIALS, RETRY_DELAYS, RETRYABLE, Outbox
from kframework.scheduler.timeouts import without_timeout
from kframework.state.pods import PendingPod
from kframework.values.feature_gates import FeatureGates

T = TypeVar("T", bound=ApiObject)

#: No answer, a gateway timeout, or a conflict: the server reports any failed binding as a conflict, even if etcd did
#: not answer and may have written it.
UNKNOWN_OUTCOMES = frozenset({0, 409, 504})


#: The number of binds that keep an API server busy, with up to 128 in flight. No more pods are placed meanwhile: each
#: that waits for its bind takes 14 KB, and a later pod of a higher priority would be bound after all of them.
ENOUGH_BINDS = 256

#: Reading back is retried until there is an answer; each pause, in seconds, is five times the previous, up to the last.
FIRST_READ_DELAY, MAX_READ_DELAY = 0.01, 10.0

#: How many denied reads are retried: a server that has just started denies everything until it has read its roles.
MAX_DENIED_READS = 4


class ClusterApi(Api):
    """The cluster's API as plugins get it."""

    def __init__(self, cluster: Cluster, outbox: Outbox, gates: FeatureGates) -> None:
        self._cluster = cluster
        self._outbox = outbox
        # Kubernetes 1.37 repeats a bind after the same answers as a status, 1.36 never; an unknown outcome must become
        # known.
        self._retried = UNKNOWN_OUTCOMES if gates.is_1_36 else UNKNOWN_OUTCOMES | RETRYABLE
        self._binds = 0

    @property
    def is_busy(self) -> bool:
        """Whether it has enough pods to bind for now."""
        return self._binds >= ENOUGH_BINDS

    def bind(self, pod: PendingPod, node_name: str) -> Awaitable[None]:
        previous_write = self._outbox.wait_for_write(pod.uid)
        if previous_write is not COMPLETED or not self._outbox.fence.is_open:
            return self._bind_following(previous_write, pod, node_name)
        binding = self._cluster.bind(pod.namespace, pod.name, pod.uid, node_name)
        return COMPLETED if binding is COMPLETED else self._bind_until_known(pod, node_name, binding)

    async def _bind_following(self, previous_write: Awaitable[None], pod: PendingPod, node_name: str) -> None:
        await previous_write
        await self._bind_until_known(pod, node_name, None)

    async def _bind_until_known(self, pod: PendingPod, node_name: str, binding: Awaitable[None] | None) -> None:
        self._binds += 1
        try:
            with without_timeout():
                await self._bind_with_retries(pod, node_name, binding)
        finally:
            self._binds -= 1

    async def _bind_with_retries(self, pod: PendingPod, node_name: str, binding: Awaitable[None] | None) -> None:
        pauses, unanswered = iter(RETRY_DELAYS), False
        while True:
            if binding is None:
                self._outbox.fence.check()
                binding = self._cluster.bind(pod.namespace, pod.name, pod.uid, node_name)
            try:
                return await binding
            except ClusterError as error:
                binding, unanswered = None, unanswered or error.status in UNKNOWN_OUTCOMES
                if not unanswered and error.status < 500:
                    raise
                node = await self.read_back(pod)
                if node == node_name:
                    return None
                # While the pod has no node, a bind without an answer may still be done, whatever the answers to
                # later ones.
                is_retried = node == "" and (unanswered or error.status in self._retried)
                pause = next(pauses, None) if is_retried else None
                if pause is None:
                    raise
            await asyncio.sleep(self._outbox.with_jitter(pause))

    async def read_back(self, pod: PendingPod) -> str | None:
        """Return the pod's node, "" while there is none, None if it cannot be bound any more.

        It is retried until there is an answer; if reading stays forbidden, the pod is assumed to have no node.
        ClusterError once writes are blocked.
        """
        pause, denied = FIRST_READ_DELAY, 0
        while True:
            self._outbox.fence.check()
            try:
                current = await self._cluster.get(Pod, pod.name, pod.namespace)
            except ClusterError as error:
                if error.status == 404:
                    return None
                denied += error.status in DENIALS
                if denied > MAX_DENIED_READS or (0 < error.status < 500 and error.status not in (429, *DENIALS)):
                    return ""
            else:
                if current.metadata.uid != pod.uid:
                    return None
                return current.spec.node_name or (None if current.metadata.deletion_timestamp is not None else "")
            await asyncio.sleep(pause)
            pause = min(5 * pause, MAX_READ_DELAY)

    # Passed on as they are: calls to a cluster in memory are complete, and need no coroutine.

    def get(self, kind: type[T], name: str, namespace: str = "") -> Coroutine[Any, Any, T]:
        return self._cluster.get(kind, name, namespace)

    def list(
        self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str]
    ) -> Coroutine[Any, Any, Sequence[T]]:
        return self._cluster.list(kind, namespace, labels=labels)

    def create(self, obj: T) -> Coroutine[Any, Any, T]:
        return self._cluster.create(obj) if self._outbox.fence.is_open else self._outbox.fence.refuse()

    def patch(
        self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = ""
    ) -> Coroutine[Any, Any, T]:
        is_open = self._outbox.fence.is_open
        return self._cluster.patch(kind, name, patch, namespace) if is_open else self._outbox.fence.refuse()

    def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> Coroutine[Any, Any, T]:
        if not self._outbox.fence.is_open:
            return self._outbox.fence.refuse()
        return self._cluster.patch_status(kind, name, patch, namespace, uid=uid, resource_version=resource_version)

    def delete(
        self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = ""
    ) -> Coroutine[Any, Any, None]:
        is_open = self._outbox.fence.is_open
        return self._cluster.delete(kind, name, namespace, uid=uid) if is_open else self._outbox.fence.refuse()
