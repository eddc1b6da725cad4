"""CacheLocality: prefer nodes that have what a pod reads in their cache.

A pod names what it reads in its label `cache.example.com/dataset`. The datasets a node has read lately are in its
annotation `cache.example.com/datasets`, the newest first, which this plugin writes. So it is known after a restart, to
other schedulers and to kubectl, and it goes with the node.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from kframework import (
    MAX_SCORE,
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Rows,
    Skip,
    Status,
    Watch,
    hookimpl,
)
from kframework.objects import Node

__all__ = ["DATASET", "DATASETS", "CacheLocality", "CacheLocalityArgs"]

DATASET = "cache.example.com/dataset"
DATASETS = "cache.example.com/datasets"


class CacheLocalityArgs(PluginArgs):
    """What `pluginConfig` may say: how many `datasets` the cache of a node holds."""

    datasets: Annotated[int, Field(ge=1, le=100)] = 10


class CacheLocality(Plugin[CacheLocalityArgs]):
    """Score nodes by how lately they read the pod's dataset, and write down what they read."""

    name = "CacheLocality"
    reads = "node"  # its annotation
    watches = (Watch(Node, verbs=("patch",)),)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        return pod.labels.get(DATASET)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        return None if pod.labels.get(DATASET) else Skip

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        # What was read long ago is the next to be dropped from the cache.
        cached, dataset = self._cached(node.annotations), pod.labels[DATASET]
        return MAX_SCORE - MAX_SCORE * cached.index(dataset) // self.args.datasets if dataset in cached else 0

    @hookimpl
    async def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        dataset, node = pod.labels.get(DATASET), self.handle.nodes.find(node_name)
        if not dataset or node is None:
            return
        cached = self._cached(node.annotations)
        # Two pods bound at once write at once, and either write may come last. So each has what all pods on the node
        # read, and is compared with that again when it is done: who came meanwhile may have been overwritten.
        while node is not None and cached != (recent := self._recent_datasets(dataset, node, cached)):
            cached = await self.write(node_name, recent)
            node = self.handle.nodes.find(node_name)

    async def write(self, node_name: str, datasets: Sequence[str]) -> list[str]:
        """Write the annotation; return what it says then."""
        changes = {"metadata": {"annotations": {DATASETS: ",".join(datasets)}}}
        return self._cached((await self.handle.api.patch(Node, node_name, changes)).metadata.annotations)

    def _recent_datasets(self, dataset: str, node: NodeInfo, cached: Sequence[str]) -> list[str]:
        """List the pod's dataset, what the other pods on the node read, and what it read before; each once."""
        running = [other.labels.get(DATASET) for other in node.pods]
        names = dict.fromkeys([dataset, *filter(None, reversed(running)), *cached])
        return list(names)[: self.args.datasets]

    def _cached(self, annotations: Mapping[str, str]) -> list[str]:
        """Read the annotation; any client may have written anything there."""
        names = dict.fromkeys(name.strip() for name in annotations.get(DATASETS, "").split(","))
        return [name for name in names if name][: self.args.datasets]
