"""Quota: no pod is bound before a service outside has granted its namespace the cpu.

The free amount is a source: polled, a little old, and good enough to avoid most failed claims. `pre_bind` makes the
claim itself, since a hook may wait there; only its answer counts. If the pod is not bound after all, it is given back.

    GET    /free                    {"team-a": 4000, ...}   milli-CPU by namespace
    PUT    /claims/NAMESPACE/UID    {"cpu": 500}            2xx, or 409 and the reason; to claim twice is to claim once
    DELETE /claims/NAMESPACE/UID
"""

from __future__ import annotations

import httpx
from pydantic import PositiveFloat

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    Handle,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Status,
    error,
    hookimpl,
    unresolvable,
    unschedulable,
)


class QuotaArgs(PluginArgs):
    """What `pluginConfig` may say: the `url` of the service, how often it is polled, how long it may take to answer."""

    url: str
    every_seconds: PositiveFloat = 15
    timeout_seconds: PositiveFloat = 5


class Quota(Plugin[QuotaArgs]):
    """Bind a pod once its namespace's quota covers its cpu."""

    name = "Quota"

    def __init__(self, args: QuotaArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        stale = 4 * args.every_seconds
        self.free = handle.source(
            "free", int, self.fetch, every=args.every_seconds, stale_after=stale, when_stale="ignore"
        )
        # Pods with a place, and how often the service had been heard when each was last seen without a node.
        self._reserved: dict[str, tuple[PendingPod, int]] = {}
        # Pods that may have a claim: from before it is made until they are bound, or it is given back.
        self._claimed: set[str] = set()

    async def start(self) -> None:
        self._service = httpx.AsyncClient(base_url=self.args.url, timeout=self.args.timeout_seconds)

    async def close(self) -> None:
        await self._service.aclose()

    async def fetch(self) -> dict[str, int]:
        return dict((await self._service.get("/free")).raise_for_status().json())

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        # Beside its source: a pod that gives its place back, and one that asks for less.
        return [ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)]

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        free = self.free.get(pod.namespace, 0) - self._uncounted(pod.namespace)
        exceeded = pod.namespace in self.free and _cpu(pod) > free
        return unresolvable(f"quota of {pod.namespace}: {free}m of cpu are free") if exceeded else None

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._reserved[pod.uid] = pod, self.free.updates

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._reserved.pop(pod.uid, None)
        if pod.uid in self._claimed:
            self.handle.spawn(self.give_back(pod))

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        if pod.uid in self._claimed:
            return error("the claim of the last attempt is still being given back")
        self._claimed.add(pod.uid)  # before the answer: a request that timed out may have been granted
        answer = await self._service.put(f"/claims/{pod.namespace}/{pod.uid}", json={"cpu": _cpu(pod)})
        if answer.status_code == httpx.codes.CONFLICT:
            return unschedulable(f"quota of {pod.namespace}: {answer.text}")
        answer.raise_for_status()
        return None

    @hookimpl
    def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._claimed.discard(pod.uid)

    async def give_back(self, pod: PendingPod) -> None:
        try:
            (await self._service.delete(f"/claims/{pod.namespace}/{pod.uid}")).raise_for_status()
        finally:
            self._claimed.discard(pod.uid)

    def _uncounted(self, namespace: str) -> int:
        """Return the milli-CPU of pods with a place that the service may not have counted when it was last heard."""
        # What `pre_bind` and `post_bind` note has no say here: a replay does not call them.
        pending, updates = self.handle.pending, self.free.updates
        seen = {uid: (pod, updates if uid in pending else last) for uid, (pod, last) in self._reserved.items()}
        self._reserved = {uid: (pod, last) for uid, (pod, last) in seen.items() if last == updates}
        return sum(_cpu(pod) for pod, _ in self._reserved.values() if pod.namespace == namespace)


def _cpu(pod: PendingPod) -> int:
    return dict(pod.on_node).get("cpu", 0)
