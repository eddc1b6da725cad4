"""Evaluates a pod on all nodes, in slices of time, as explanations do."""

from __future__ import annotations

from collections.abc import Generator

from kframework.core.pod_engine import PodEngine
from kframework.explain.full_evaluation import FullEvaluation
from kframework.scheduler.cooperative import time_sliced
from kframework.state.pods import PendingPod

__all__ = ["evaluate"]


def evaluate(engine: PodEngine, pod: PendingPod) -> Generator[None, None, FullEvaluation]:
    """Call all plugins for the pod on all nodes, in slices; a pod on a node is treated as if it were not there."""
    evaluation = FullEvaluation(engine, pod)
    yield from time_sliced(evaluation.work(), evaluation.isolated)
    return evaluation
