"""MeasuredLoad: prefer nodes that Prometheus says are idle, and keep away from those that are busy.

What pods request says how much they may use, not how much they do. This plugin goes by what was measured: a query to a
server that speaks Prometheus' HTTP API, whose answer has one sample a node.
"""

from __future__ import annotations

from typing import Annotated

import httpx
from pydantic import Field, PositiveFloat

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    SourceChange,
    Status,
    hookimpl,
    unschedulable,
)

__all__ = ["MeasuredLoad", "MeasuredLoadArgs"]

#: The share of a node's cpu that was busy in the last five minutes, by the label `node`.
QUERY = '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'


class MeasuredLoadArgs(PluginArgs):
    """What `pluginConfig` may say.

    `url` of the server; `query` for one sample a node, 0..1, with the node's name in `label`; a node that is
    busier than `most` is left alone. The data are polled `everySeconds` and no good after `staleSeconds`.
    """

    url: str
    query: str = QUERY
    label: str = "node"
    most: Annotated[float, Field(gt=0, le=1)] = 0.9
    every_seconds: PositiveFloat = 15
    timeout_seconds: PositiveFloat = 5
    stale_seconds: PositiveFloat = 120


class MeasuredLoad(Plugin[MeasuredLoadArgs]):
    """Filter out busy nodes; score the others by how idle they are."""

    name = "MeasuredLoad"
    # Beside its source the plugin looks at nothing but the node's name: a node's answers are remembered until its load
    # changes, or all data are stale.
    reads = "node"

    def __init__(self, args: MeasuredLoadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        # Without measurements pods go where they would without this plugin: better than nowhere.
        self.load = handle.source(
            "load",
            float,
            self.fetch,
            keyed_by="node",
            every=args.every_seconds,
            timeout=args.timeout_seconds,
            stale_after=args.stale_seconds,
            when_stale="ignore",
            wakes_pod=self.has_idle_node,
        )

    async def start(self) -> None:
        self._prometheus = httpx.AsyncClient(base_url=self.args.url)

    async def close(self) -> None:
        await self._prometheus.aclose()

    async def fetch(self) -> dict[str, float]:
        answer = await self._prometheus.get("/api/v1/query", params={"query": self.args.query})
        samples = answer.raise_for_status().json()["data"]["result"]
        load = {sample["metric"][self.args.label]: float(sample["value"][1]) for sample in samples}
        # Prometheus says NaN where it divided by nothing: of that node nothing is known.
        return {node: share for node, share in load.items() if share == share}

    def has_idle_node(self, pod: PendingPod, change: SourceChange[float]) -> bool:
        return bool(change.removed) or any(share <= self.args.most for share in change.values.values())

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        # Its source wakes the pods that it rejected; beside it only a node that was not there can help.
        return [ClusterEvent(EventResource.NODE, ActionType.ADD)]

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        busy = self.load.get(node.name, 0.0) > self.args.most
        return unschedulable(f"node(s) were more than {self.args.most:.0%} busy") if busy else None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        # A node that was not measured is neither idle nor busy.
        return round(100 * (1 - min(max(self.load.get(node.name, 0.5), 0.0), 1.0)))
