"""A cluster and its scheduler in this process, on virtual time; what the scheduler holds when all pods have gone."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import anyio
import msgspec

from kframework.clock import LoopClock, run_virtual
from kframework.config.load import default_configuration
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import Event
from kframework.observe.journal import Journal
from kframework.process.observers import PodObservers
from kframework.scheduler.scheduler import Scheduler
from tests.soak.churn import PodChurn, Shape
from tests.soak.container_sizes import container_sizes, module_roots

__all__ = ["BOUNDS", "MemorySample", "growing_containers", "resident", "soak"]

#: How long nothing happens before a census, in seconds: what is remembered for a time is forgotten by then.
QUIET = 1000.0

#: The rooms whose objects are counted, reached or not: those of a cluster in memory live in others.
_OWN = tuple(f"kframework.{room}." for room in ("framework", "state", "core", "plugins", "scheduler", "observe"))

#: What may hold more than it did, and how much at most, where the table of nodes has 64 rows: what keeps the last of
#: something, is tidied now and then, or counts by labels of which there are only so many. The longest beginning counts.
BOUNDS: Mapping[str, int] = {
    "observers.history": 40 * 5_000,  # the last 5,000 decisions and as many bindings, with what they say
    "all kframework.core.cycle.records.": 2 * 5_000,
    "scheduler._observers[]": 20_000,  # metrics, whose values wait by the thousand to be sorted into buckets
    "observers.metrics": 20_000,
    "scheduler.engine.handlers._times": 20_000,
    "scheduler.engine._plan_caches": 1 << 20,  # plans, remembered within a budget until the set of nodes changes
    "scheduler.profiles._first._signatures": 20_000,  # those of plans
    "scheduler.engine.cluster.nodes.node_log": 2 * 64,
    "scheduler.engine.cluster.nodes.pod_log": 2 * 64,
    "scheduler.engine.cluster.nodes._positions": 2 * 64,  # computed on demand
    "scheduler.engine.cluster.nodes._labels": 30 * 4 * 64,  # domains are compacted after 128 writes of nodes
    "scheduler.engine.cluster.nodes.taint_sets": 4 * 64,
    "scheduler.engine.cluster.nodes.allocatables": 64 * (2 * 64 + 64),  # twice the resources in use, and 64
    "scheduler.engine.cluster.nodes.requesteds": 64 * (2 * 64 + 64),
    "scheduler.engine.cluster.nodes.counters": 64 << 17,  # 64 MiB of dense counts, 8 bytes each
    "scheduler.plugins._started{}._affinities.namespaces._changes": 2 * 1024,  # those that selectors catch up with
    "scheduler.plugins._started{}._affinities.namespaces._matches": 30 * 500_000 // 64,  # at most 7,812 selectors
    "scheduler.engine.cluster.interner._classes": 16 * 1024,  # label classes are swept when there are 1,024
    "scheduler.engine.cluster.interner._class_of": 16 * 1024,  # the last 1,024 labels
    "scheduler.engine.cluster.interner._template_of": 16 * 1024,  # the last 1,024 specs
}


class MemorySample(msgspec.Struct, frozen=True):
    """The result of a census, after a time in seconds and a number of pods; `memory` is the resident one, in MiB."""

    seconds: float
    pods: int
    attempts: int
    memory: float
    held: Counter[str]

    def __str__(self) -> str:
        held = f"{self.held.total():,} in {len(self.held):,} kinds of containers"
        return (
            f"{self.seconds:>6.0f} s  {self.pods:>8,} pods  {self.attempts:>9,} attempts  {self.memory:.1f} MiB  {held}"
        )


def soak(seed: int, shape: Shape, moments: Sequence[float], report: Callable[[MemorySample], None]) -> None:
    """Let pods come and go; at each of these moments, in seconds of coming and going, let all go and look."""
    run_virtual(_Soak(seed, shape, moments, report).main)


def growing_containers(before: MemorySample, after: MemorySample, spare: float) -> list[str]:
    """List what holds more than before by more than a share of the pods that passed, or more than its bound."""
    most = spare * (after.pods - before.pods)
    return [
        f"{path}: {before.held[path]:,}, then {held:,}"
        for path, held in sorted(after.held.items())
        if (held - before.held[path] > most and _bound(path) is None) or held > (_bound(path) or held)
    ]


def resident(process: int | str = "self") -> float:
    """Return how many MiB of a process are in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _bound(path: str) -> int | None:
    return BOUNDS.get(max((begin for begin in BOUNDS if path.startswith(begin)), key=len, default=""))


class _Soak:
    def __init__(
        self, seed: int, shape: Shape, moments: Sequence[float], report: Callable[[MemorySample], None]
    ) -> None:
        self._seed = seed
        self._shape = shape
        self._moments = moments
        self._report = report

    async def main(self) -> None:
        clock = self._clock = LoopClock(asyncio.get_running_loop())
        cluster = self._cluster = MemoryCluster(clock)
        self._observers = PodObservers(Journal())
        self._scheduler = Scheduler(
            default_configuration(),
            cluster,
            clock,
            observers=self._observers.all,
            slice=0.0,
            timed_share=self._observers.timed_share,
        )
        self._observers.routes(self._scheduler)
        self._observers.attach(self._scheduler, lambda line: None)
        self._churn = PodChurn(cluster, clock, Random(self._seed), self._shape)
        async with anyio.create_task_group() as tasks:
            kubelet, volumes = Kubelet(cluster, clock), VolumeController(cluster)
            tasks.start_soon(kubelet.run)
            tasks.start_soon(volumes.run)
            tasks.start_soon(self._scheduler.run)
            await self._churn.begin()
            passed = 0.0
            for moment in self._moments:
                await self._pass(moment - passed)
                passed = moment
                self._report(
                    MemorySample(passed, self._churn.pods, self._scheduler.engine.attempts, resident(), self._size())
                )
            tasks.cancel_scope.cancel()

    async def _pass(self, seconds: float) -> None:
        """Let pods come and go for so long, then let them all go."""
        until = self._clock.now() + seconds
        while self._clock.now() < until:
            await self._churn.run(min(self._clock.now() + 30.0, until))
            self._expire_events()
        await self._churn.end()
        await asyncio.sleep(QUIET)
        self._expire_events()

    def _expire_events(self) -> None:
        """Do as an API server does after an hour."""
        for event in self._cluster.objects(Event):
            self._cluster.remove(Event, event.metadata.name, event.metadata.namespace)

    def _size(self) -> Counter[str]:
        """Count what the scheduler holds, not its cluster, which remembers what happened for those who watch it."""
        roots = {"scheduler": self._scheduler, "observers": self._observers} | module_roots("kframework")
        world = (asyncio.get_running_loop(), self._report, self._cluster, *self._cluster._kind_stores.values())
        return container_sizes(roots, without=world) + Counter(_alive())


def _alive() -> Iterator[str]:
    """Name what lives of the scheduler's own, also what no path leads to."""
    kinds = ((f"{type(each).__module__}", type(each).__qualname__) for each in gc.get_objects())
    return (f"all {module}.{name}" for module, name in kinds if module.startswith(_OWN))
