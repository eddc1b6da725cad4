"""A whole run on virtual time: a world, an API that faults befall, a scheduler, its recording, and what must hold."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import anyio
import msgspec

from kframework.clock import LoopClock, run_virtual
from kframework.cluster.kubelet import Kubelet
from kframework.cluster.memory import Fault, MemoryCluster
from kframework.cluster.volume_controller import VolumeController
from kframework.config import Configuration, parse
from kframework.errors import ClusterError
from kframework.objects import ApiObject
from kframework.recording import Recorder
from kframework.registry import Registry
from kframework.scheduler import Scheduler
from tests.faults.books import ApiBooks, EngineBooks, leftovers, untruths
from tests.faults.hesitant import Hesitant, Reluctant
from tests.faults.world import World

__all__ = ["PLUGINS", "FaultyRun", "Report", "Shape", "run"]

#: The plugins that are not in the default profile.
PLUGINS = Registry.of(Hesitant, Reluctant)

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    permit:
      enabled: [{{name: Hesitant}}, {{name: Reluctant}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
seed: {seed}
"""

#: How long nothing happens in the end, in seconds: every pod that waits for an event is tried again once.
QUIET = 700.0


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How large a run is, and how often each fault strikes."""

    nodes: int = 6
    pods: int = 60
    rate: float = 0.03


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to; nothing in `complaints` if all that must hold did."""

    seed: int
    recording: Path
    pods: int
    bindings: int
    attempts: int
    seconds: float
    faults: Counter[str]
    counts: Counter[str]
    complaints: list[str]

    def __str__(self) -> str:
        head = f"seed {self.seed}, inbox in {self.recording}"
        return "\n  ".join([head, *self.complaints[:20]])


def run(seed: int, shape: Shape, folder: Path) -> Report:
    """Run a world of this seed and shape to its end; the inbox is recorded in the folder."""
    return run_virtual(FaultyRun(seed, shape, folder).main)


def configuration_of(seed: int) -> Configuration:
    """The default profile with two plugins more, and ties drawn by the seed."""
    return parse(CONFIGURATION.format(seed=seed))


class FaultyRun:
    """One run."""

    def __init__(self, seed: int, shape: Shape, folder: Path) -> None:
        self.seed = seed
        self.shape = shape
        self.file = folder / f"inbox-{seed}.jsonl.gz"
        self.complaints: list[str] = []
        self.faults: Counter[str] = Counter()

    async def main(self) -> Report:
        """Let the world happen, wait until it is quiet, and look."""
        clock = LoopClock(asyncio.get_running_loop())
        random = Random(f"{self.seed}/world")
        self.store = MemoryCluster(clock)
        self.api_books = ApiBooks(self.store)
        world = World(self.store, clock, random, self.shape.nodes, self.shape.pods)
        recorder = Recorder(self.file)
        self.over = False
        self.store.faults.append(self._fault)
        self.random = Random(f"{self.seed}/faults")
        self.scheduler = Scheduler(
            configuration_of(self.seed),
            self.store,
            clock,
            registry=PLUGINS,
            observers=[recorder],
            slice=0.0,
            engine=recorder.engine,
        )
        self.books = EngineBooks(self.scheduler.engine)
        kubelet, volumes = Kubelet(self.store, clock), VolumeController(self.store)
        began = clock.now()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kubelet.run)
                tasks.start_soon(volumes.run)
                async with anyio.create_task_group() as scheduling:
                    scheduling.start_soon(self.scheduler.run)
                    await world.run()
                    self.over = True
                    await asyncio.sleep(QUIET)
                    self._look()
                    self.scheduler.stop()
                tasks.cancel_scope.cancel()
        finally:
            recorder.close()
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        self.complaints += [f"task {name} is left" for name in left]
        return Report(
            seed=self.seed,
            recording=self.file,
            pods=self.api_books.created,
            bindings=self.api_books.bindings.total(),
            attempts=self.scheduler.engine.attempts,
            seconds=clock.now() - began,
            faults=self.faults,
            counts=self.books.counts,
            complaints=self.api_books.complaints + self.books.complaints + self.complaints,
        )

    def _look(self) -> None:
        self.complaints += leftovers(self.scheduler, self.books)
        self.complaints += untruths(self.scheduler, self.store)

    def _fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if self.over or method == "watch" or self.random.random() >= self.shape.rate:
            return None
        status = self.random.choice([0, 409, 429, 500, 503])
        self.faults[str(status)] += 1
        error = ClusterError(f"status {status}", status=status, retryable=True)
        return Fault(
            error=error, delay=self.random.choice([0.0, 0.1, 5.0]), done=not status and self.random.random() < 0.5
        )
