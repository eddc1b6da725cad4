"""LearnedPacking: score nodes by a scorer that was trained in simulations."""

from __future__ import annotations

from pathlib import Path

from pydantic import field_validator

from kframework import (
    CycleState,
    Handle,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Rows,
    Scores,
    hookimpl,
    min_max_normalize,
)
from learned_packing.scorer import FEATURES, read_scorer

__all__ = ["LearnedPacking", "LearnedPackingArgs"]


class LearnedPackingArgs(PluginArgs):
    """The args: `scorer`, the file that `python -m learned_packing.train` wrote."""

    scorer: Path

    @field_validator("scorer")
    @classmethod
    def check_scorer(cls, file: Path) -> Path:
        # Read already when the configuration is checked: the error then names its line.
        read_scorer(file)
        return file


class LearnedPacking(Plugin[LearnedPackingArgs]):
    """Score nodes by what the scorer expects of them."""

    name = "LearnedPacking"
    # A rating depends on the pod's requests, the node and the pods there, so it is cached until one comes or goes.
    reads = "pods"

    def __init__(self, args: LearnedPackingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.scorer = read_scorer(args.scorer)

    @hookimpl
    def sign(self, pod: PendingPod) -> tuple[float, ...]:
        return tuple(FEATURES.encode_pod(pod).tolist())

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return self.scorer.rate(FEATURES.encode_nodes(nodes, rows), FEATURES.encode_pod(pod))

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        # Fractions are dropped, so that only the best node gets 100.
        return min_max_normalize(scores)
