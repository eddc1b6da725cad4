"""Pods in and out: what a scheduler holds once they have gone is what it held before, whatever was their own."""

from __future__ import annotations

from types import ModuleType

import pytest

from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.observe.metrics import attempts, series
from kframework.state import counters, nodes
from kframework.state.pods import PendingPod
from tests.soak.churn import Shape
from tests.soak.virtual import MemorySample, growing_containers, soak

#: Hardly two pods have anything in common that lasts.
SHAPE = Shape(nodes=8, rate=50.0, stay=1.0, pods_per_template=3, pods_per_namespace=6, pods_per_node=3)

#: What is tidied now and then is tidied often here, so that it has reached its bound when it is looked at first.
SOONER: tuple[tuple[ModuleType, str, int], ...] = (
    (nodes, "_WRITES", 16),
    (nodes, "_RESOURCES", 4),
    (counters, "_BUDGET", 0),
    (series, "_MAX_PENDING", 8),
    (attempts, "_FLUSH_ATTEMPTS", 50),
)

#: More than so many of what came with a pod each may not stay for every pod that passed.
SPARE = 0.1


@pytest.fixture(autouse=True)
def _sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in SOONER:
        monkeypatch.setattr(module, name, value)


def looks(seed: int) -> list[MemorySample]:
    found: list[MemorySample] = []
    soak(seed, SHAPE, (6.0, 14.0), found.append)
    return found


@pytest.mark.slow
def test_memory_does_not_grow_with_scheduled_pods() -> None:
    before, after = looks(1)
    assert after.pods - before.pods > 300
    assert not growing_containers(before, after, SPARE)


@pytest.mark.long
def test_growing_container_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    add = SchedulingQueue.add

    def hoarding(self: SchedulingQueue, pod: PendingPod) -> None:
        self.hoard = getattr(self, "hoard", {}) | {pod.uid: pod.name}  # type: ignore[attr-defined]  # planted
        add(self, pod)

    monkeypatch.setattr(SchedulingQueue, "add", hoarding)
    before, after = looks(2)
    assert any(line.startswith("scheduler.engine.queue.hoard:") for line in growing_containers(before, after, SPARE))
