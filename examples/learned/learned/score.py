"""LearnedScore: prefer the nodes that will slow a pod down least, as a model says that was fitted to a history."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from kframework import (
    CycleState,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Rows,
    Scores,
    hookimpl,
    min_max_normalize,
)
from learned.model import read_model

__all__ = ["LearnedScore", "LearnedScoreArgs"]

#: Scores are integers: a slowdown of one thousandth is still told apart.
STEPS = 1000


class LearnedScoreArgs(PluginArgs):
    """What `pluginConfig` may say: `model`, the file that `python -m learned.train` wrote."""

    model: Path

    @field_validator("model")
    @classmethod
    def check_model(cls, file: Path) -> Path:
        # Read already when the configuration is checked: the error then names its line too, and no scheduler starts.
        read_model(file)
        return file


class LearnedScore(Plugin[LearnedScoreArgs]):
    """Score nodes by what the model predicts of them."""

    name = "LearnedScore"
    # The features are those of a node and the pods on it, so its score is remembered until a pod comes or goes.
    reads = "pods"

    def __init__(self, args: LearnedScoreArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        # Read once: who has trained anew starts the scheduler anew.
        self.model = read_model(args.model)

    @hookimpl
    def sign(self, pod: PendingPod) -> tuple[()]:
        # To the model all pods are equal; one with features of the pod would sign these.
        return ()

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        cpu, memory = (min(node.requested(each) / max(node.allocatable(each), 1), 1.0) for each in ("cpu", "memory"))
        return -round(STEPS * self.model.slowdown(cpu, memory, node.requested("pods")))

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        # The same in the same order, for all nodes at once, which is much faster; `check_plugin` compares the two.
        def share(resource: str) -> NDArray[np.float64]:
            offered = np.maximum(nodes.allocatable(resource)[rows], 1)
            shares: NDArray[np.float64] = np.minimum(nodes.requested(resource)[rows] / offered, 1.0)
            return shares

        pods = nodes.requested("pods")[rows].astype(np.float64)
        slowdown = self.model.slowdown(share("cpu"), share("memory"), pods)
        return -(STEPS * slowdown).round().astype(np.int64)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # The best of the feasible nodes gets 100, the worst 0.
        return min_max_normalize(scores)
