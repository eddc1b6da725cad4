"""The clusters of the training: nodes of two shapes, and pods of four kinds that come and go."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kframework.objects import ApiObject
from kframework.testing import make_node, make_pod

__all__ = ["NODES", "create_cluster"]

#: The number of nodes.
NODES = 16
#: The number of pods, the seconds between two arrivals and those that a pod runs, on average.
PODS, INTERVAL, DURATION = 200, 5.0, 300.0

#: cpu, memory in Gi, and how many of 100 pods are of the kind.
_KINDS = ((1, 4, 45), (6, 8, 20), (2, 28, 20), (14, 48, 15))


def create_cluster(random: np.random.Generator) -> Iterator[ApiObject]:
    """Draw an episode."""
    for index in range(NODES):
        size = 2 if index % 4 == 0 else 1
        yield make_node(f"node-{index}", cpu=16 * size, memory=f"{64 * size}Gi")
    arrivals = random.exponential(INTERVAL, PODS).cumsum()
    durations = random.exponential(DURATION, PODS) + 30.0
    kinds = random.choice(len(_KINDS), PODS, p=[share / 100 for _, _, share in _KINDS])
    for index, (arrives, runs, kind) in enumerate(zip(arrivals, durations, kinds, strict=True)):
        cpu, memory, _ = _KINDS[kind]
        times = {"kframework.dev/arrives-seconds": f"{arrives:.3f}", "kframework.dev/run-seconds": f"{runs:.3f}"}
        yield make_pod(f"pod-{index}", cpu=cpu, memory=f"{memory}Gi", annotations=times)
