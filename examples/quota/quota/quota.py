"""Quota: no pod is bound before a service outside has granted its namespace the cpu.

What is free is a source: polled, a little old, and good enough not to try in vain. The claim itself is made in
`pre_bind`, where a hook may wait; only its answer counts. If the pod is not bound after all, it is given back.

    GET    /free                    {"team-a": 4000, ...}   milli-CPU by namespace
    PUT    /claims/NAMESPACE/UID    {"cpu": 500}            2xx, or 409 and the reason; to claim twice is to claim once
    DELETE /claims/NAMESPACE/UID
"""

from __future__ import annotations

import httpx
from pydantic import PositiveFloat

from kframework import (
    CycleState,
    Handle,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    PodInfo,
    SourceChange,
    Status,
    hookimpl,
    unresolvable,
    unschedulable,
)

__all__ = ["Quota", "QuotaArgs"]


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
        # If the service is away nothing is known in advance, and `pre_bind` asks in any case.
        every, timeout = args.every_seconds, args.timeout_seconds
        stale = 4 * every
        self.free = handle.source(
            "free",
            int,
            self.fetch,
            every=every,
            timeout=timeout,
            stale_after=stale,
            when_stale="ignore",
            wakes=self.helps,
        )
        # Milli-CPU reserved for pods whose claim is not made yet, by namespace and uid; and who may have a claim.
        self._reserved: dict[str, dict[str, int]] = {}
        self._claimed: set[str] = set()

    async def start(self) -> None:
        self._service = httpx.AsyncClient(base_url=self.args.url, timeout=self.args.timeout_seconds)

    async def close(self) -> None:
        await self._service.aclose()

    async def fetch(self) -> dict[str, int]:
        answer = await self._service.get("/free")
        free: dict[str, int] = answer.raise_for_status().json()
        return free

    def helps(self, pod: PendingPod, change: SourceChange[int]) -> bool:
        return change.values.get(pod.namespace, 0) > change.old.get(pod.namespace, 0)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        # Two pods in a row must not go for the same last core: what is reserved but not claimed yet is counted here.
        free = self.free.get(pod.namespace)
        reserved = sum(self._reserved.get(pod.namespace, {}).values())
        if free is not None and reserved + _cpu(pod) > free:
            return unresolvable(f"quota of {pod.namespace}: {free - reserved}m of cpu are free")
        return None

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._reserved.setdefault(pod.namespace, {})[pod.uid] = _cpu(pod)

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._reserved.get(pod.namespace, {}).pop(pod.uid, None)
        if pod.uid in self._claimed:
            self._claimed.discard(pod.uid)
            self.handle.spawn(self.give_back(pod))

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        self._claimed.add(pod.uid)  # before the answer: a request that timed out may have been granted
        answer = await self._service.put(_claim(pod), json={"cpu": _cpu(pod)})
        if answer.status_code == httpx.codes.CONFLICT:
            self._claimed.discard(pod.uid)
            return unschedulable(f"quota of {pod.namespace}: {answer.text}")
        answer.raise_for_status()
        return None

    @hookimpl
    def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._reserved.get(pod.namespace, {}).pop(pod.uid, None)
        self._claimed.discard(pod.uid)

    async def give_back(self, pod: PodInfo) -> None:
        (await self._service.delete(_claim(pod))).raise_for_status()


def _claim(pod: PodInfo) -> str:
    return f"/claims/{pod.namespace}/{pod.uid}"


def _cpu(pod: PodInfo) -> int:
    return dict(pod.on_node).get("cpu", 0)
