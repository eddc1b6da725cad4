"""What the three plugins share: a source of measured load, and numbers of each node that follow from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kframework import (
    MAX_SCORE,
    NOTHING,
    CycleState,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PodInfo,
    Rows,
    Scores,
    hookimpl,
)
from kframework.clock import rfc3339, seconds_of
from kframework_load_aware.args import TrimaranArgs
from kframework_load_aware.providers import NodeLoad, NodeMetrics, Provider, open_provider

#: How often the load is fetched and after how long it is too old, in seconds, as in scheduler-plugins.
_EVERY, _STALE_AFTER = 30, 300

A = TypeVar("A", bound=TrimaranArgs)
D = TypeVar("D", bound=Hashable)

#: Numbers of nodes, an array for each; the last axis is that of the nodes.
Figures = NDArray[np.float64]


class LoadAware(Plugin[A], Generic[A, D]):
    """Score nodes by a pod's demand and by figures of each node, which follow from its load, its pods and its size.

    So a score depends on nothing but the node and what was measured of it: answers are remembered, and the figures are
    worked out again only for nodes that changed.
    """

    reads = "pods"
    sign_reads = ()
    lists = (NodeMetrics,)

    def __init__(self, args: A, handle: Handle) -> None:
        super().__init__(args, handle)
        self._provider: Provider | None = None
        self._load = handle.source(
            "load",
            NodeLoad,
            self._fetch,
            keyed_by="node",
            every=_EVERY,
            stale_after=_STALE_AFTER,
            when_stale="ignore",
        )
        self._figures: Figures = np.zeros((0, 0))
        self._known: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._updates = 0
        self._changed = handle.nodes.pod_log.reader()

    @abstractmethod
    def demand(self, pod: PodInfo) -> D | None:
        """Return the part of the pod that its score depends on; None if the plugin has no opinion about it."""

    @abstractmethod
    def measure(self, nodes: Sequence[NodeInfo]) -> Figures:
        """Return the figures of these nodes."""

    @abstractmethod
    def rate(self, demand: D, figures: Figures) -> NDArray[np.float64]:
        """Return the scores, from 0 to 100 and not yet rounded, for a demand."""

    async def start(self) -> None:
        self._provider = open_provider(self.args, self.handle)

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()

    async def _fetch(self) -> dict[str, NodeLoad]:
        assert self._provider is not None
        oldest = self.handle.clock.now() - _STALE_AFTER
        return {name: load for name, load in (await self._provider.fetch()).items() if load.at > oldest}

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        demand = self.demand(pod)
        return NOTHING if demand is None else demand

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return int(self._scores(pod, np.array([node.row]))[0])

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        return self._scores(pod, np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)

    def _scores(self, pod: PendingPod, rows: NDArray[np.int64]) -> Scores:
        demand = self.demand(pod)
        if demand is None:
            return np.zeros(len(rows), dtype=np.int64)
        self._catch_up(rows)
        scores = self.rate(demand, self._figures[..., rows])
        return np.floor(np.clip(np.nan_to_num(scores), 0, MAX_SCORE) + 0.5).astype(np.int64)

    def _catch_up(self, rows: NDArray[np.int64]) -> None:
        nodes, changed = self.handle.nodes, self._changed.read_new()
        if changed is None or len(self._known) != nodes.capacity or self._updates != self._load.updates:
            self._known, self._updates = np.zeros(nodes.capacity, dtype=bool), self._load.updates
        else:
            self._known[changed] = False
        unknown = rows[~self._known[rows]]
        if not len(unknown):
            return
        figures = self.measure([nodes[row] for row in unknown.tolist()])
        if self._figures.shape[-1] != nodes.capacity:
            self._figures = np.zeros((*figures.shape[:-1], nodes.capacity))
        self._figures[..., unknown], self._known[unknown] = figures, True

    def load(self, node: NodeInfo) -> NodeLoad:
        """Return the node's load; if it was not measured, that of a node which had no pods when time began."""
        return self._load.get(node.name, _NEVER)

    def unmeasured(self, node: NodeInfo, load: NodeLoad) -> Iterator[tuple[PodInfo, float]]:
        """Yield the pods of the node that are not yet in its load, with the part of them that is missing.

        A mean over a quarter of an hour contains a third of what a pod uses that started five minutes ago.
        """
        begin = rfc3339(max(load.at - load.window, 0))
        for pod in node.pods:
            if pod.start_time is None:  # assumed, or not yet seen by its kubelet
                yield pod, 1.0
            elif pod.start_time > begin:  # both are in UTC and of one length, so they compare as text
                yield pod, min((seconds_of(pod.start_time) - load.at) / load.window + 1, 1.0)


_NEVER = NodeLoad(at=0, cpu=0.0, memory=0.0)
