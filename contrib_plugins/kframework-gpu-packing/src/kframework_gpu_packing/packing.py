"""GpuPacking: put a pod where it leaves the fewest GPUs that the typical pods could not use."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
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
    Scores,
    hookimpl,
)

#: The score of a node without room; Filter has rejected it, but Score may still be called.
_NO_ROOM = -(1 << 62)
#: A raw score is made of three numbers, the second and third of this many bits.
_BITS = 16
_MAX_VALUE = (1 << _BITS) - 1

Amount = TypeVar("Amount", int, NDArray[np.int64])


class TypicalPods(PluginArgs):
    """Pods that request `gpus` GPUs each, and their `share` of all pods, relative to the others'."""

    gpus: Annotated[int, Field(ge=1, le=1024)]
    share: Annotated[int, Field(ge=1, le=1000)] = 1


class GpuPackingArgs(PluginArgs):
    """What `pluginConfig` may say: the name of the `resource`, and the `typicalPods` for which room is to be kept.

    By default each size of typical pods asks for as many GPUs in all as every other.
    """

    resource: Annotated[str, Field(min_length=1)] = "nvidia.com/gpu"
    typical_pods: Annotated[tuple[TypicalPods, ...], Field(min_length=1, max_length=64)] = (
        TypicalPods(gpus=1, share=8),
        TypicalPods(gpus=2, share=4),
        TypicalPods(gpus=4, share=2),
        TypicalPods(gpus=8, share=1),
    )


class GpuPacking(Plugin[GpuPackingArgs]):
    """Score nodes such that large pods still find room, and keep pods without GPUs off GPU nodes.

    For a pod with GPUs three things count, one after the other: how many more GPUs the typical pods could not use if
    it came to the node (fewer is better); how many pods the node runs (more is better: a node of many pods is the last
    to become empty by itself); and how many GPUs would be left (fewer is better).
    """

    name: ClassVar[str] = "GpuPacking"
    # The score depends on what the node offers and what its pods take, and on nothing outside it.
    reads = "pods"

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        return self._requested_gpus(pod)

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        requested, offered = self._requested_gpus(pod), node.allocatable(self.args.resource)
        if not requested:
            return int(offered == 0)
        free = offered - node.requested(self.args.resource)
        if free < requested:
            return _NO_ROOM
        left = free - requested
        pods = min(node.requested("pods"), _MAX_VALUE)
        return self._raw_score(self._unusable(left) - self._unusable(free), pods, min(left, _MAX_VALUE))

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        requested, offered = self._requested_gpus(pod), nodes.allocatable(self.args.resource)[rows]
        if not requested:
            without: Scores = np.equal(offered, 0).astype(np.int64)
            return without
        free = offered - nodes.requested(self.args.resource)[rows]
        left = free - requested
        pods = np.minimum(nodes.requested("pods")[rows], _MAX_VALUE)
        raw: Scores = self._raw_score(self._unusable(left) - self._unusable(free), pods, np.minimum(left, _MAX_VALUE))
        raw[left < 0] = _NO_ROOM
        return raw

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # Raw scores show which node is better, not by how much: spread their ranks evenly over 0..100.
        ordered = np.sort(scores)
        distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])]  # np.unique takes twenty times as long
        if len(distinct) == 1:
            return 0
        ranks: Scores = np.searchsorted(distinct, scores)
        return ranks * MAX_SCORE // (len(distinct) - 1)

    def _requested_gpus(self, pod: PendingPod) -> int:
        return dict(pod.on_node).get(self.args.resource, 0)

    def _unusable(self, free: Amount) -> Amount:
        """Return how many of a node's free GPUs the typical pods could not use, times the sum of their shares.

        Pods of 4 GPUs each, as many as fit, leave the remainder of the division by 4; the mix leaves the mean.
        """
        # Written without %, which takes NumPy six times as long.
        leftovers = [each.share * (free - free // each.gpus * each.gpus) for each in self.args.typical_pods]
        return sum(leftovers[1:], start=leftovers[0])

    @staticmethod
    def _raw_score(growth: Amount, pods: Amount, left: Amount) -> Amount:
        return (-growth << 2 * _BITS) + (pods << _BITS) - left
