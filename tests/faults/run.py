"""A whole run on virtual time: a world, an API that faults befall, a scheduler, its recording, and what must hold."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import anyio
import msgspec

from kframework.apiserver.in_process import InProcess
from kframework.apiserver.server import ApiServer
from kframework.clock import LoopClock, run_virtual
from kframework.cluster.faults import FaultyTransport, Rates
from kframework.cluster.kube_cluster import KubeCluster
from kframework.cluster.kubelet import Kubelet
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.volume_controller import VolumeController
from kframework.cluster.write_admission import WriteAdmission
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.scheduler import Scheduler
from tests.faults.books import ApiBooks, EngineBooks, leftovers, untruths
from tests.faults.hesitant import Hesitant, Reluctant
from tests.faults.world import World

__all__ = ["PLUGINS", "FaultyRun", "Report", "Shape", "run"]

#: The plugins that are not in the default profile.
PLUGINS: Registry = Registry.of(Hesitant, Reluctant)

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

#: Every request has one of seven faults with a chance of one in ten; of the lines of a watch it is one in twenty.
RATES = Rates(
    conflict=0.015,
    too_many_requests=0.015,
    internal_error=0.015,
    unavailable=0.015,
    lost=0.01,
    unanswered=0.015,
    late=0.02,
    doubtful=0.01,
    expired=0.05,
    dropped=0.01,
    forgotten=0.004,
    stalls=0.0007,
    repeated=0.03,
    slow=0.004,
)

#: How long nothing happens in the end, in seconds: every pod that waits for an event is tried again once.
QUIET = 700.0

#: How long the API server runs on average, and how long it is away at most, in seconds.
UPTIME, DOWNTIME = 200.0, 20.0


#: How many bytes a recording may take: a run of 10,000 pods is to be in one part.
LIMIT = 1 << 40


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How large a run is, how many seconds pass between two pods for one node, and how often each fault strikes."""

    nodes: int = 4
    pods: int = 80
    pause: float = 15.0
    rates: Rates = RATES


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to; nothing in `complaints` if all that must hold did."""

    seed: int
    recording: Path
    pods: int
    bindings: int
    attempts: int
    deleted: Counter[str]
    faults: Counter[str]
    seconds: float
    complaints: list[str]

    def __str__(self) -> str:
        lines = [f"seed {self.seed} fails; its inbox is in {self.recording}", *self.complaints[:20]]
        return "\n  ".join(lines)


def run(seed: int, shape: Shape, folder: Path, *, limit: int = LIMIT) -> Report:
    """Run a world of this seed and shape to its end; the inbox is recorded in the folder, in so many bytes."""
    return run_virtual(FaultyRun(seed, shape, folder / f"inbox-{seed}.jsonl.gz", limit).main)


def configuration(seed: int) -> Configuration:
    """Make the default profile with two plugins more, and ties that are drawn by the seed."""
    return parse(CONFIGURATION.format(seed=seed))


class FaultyRun:
    """One run."""

    def __init__(self, seed: int, shape: Shape, file: Path, limit: int) -> None:
        self._seed = seed
        self._shape = shape
        self._file = file
        self._limit = limit

    async def main(self) -> Report:
        """Let the world happen, wait until it is quiet, and look."""
        clock, shape = LoopClock(asyncio.get_running_loop()), self._shape
        self._clock = clock
        store = self._store = MemoryCluster(clock)
        self._api_books = ApiBooks(store)
        self._world = World(store, clock, self._random("world"), shape.nodes, shape.pods, shape.pause)
        api = InProcess(ApiServer(store, clock))
        self._faulty = FaultyTransport(api, self._random("faults"), shape.rates, clock)
        self._client = KubeCluster(WriteAdmission(self._faulty, clock), clock, random=self._random("client"), page=50)
        recorder = Recorder(self._file, limit=self._limit)
        self._scheduler = Scheduler(
            configuration(self._seed),
            self._client,
            clock,
            registry=PLUGINS,
            observers=[recorder],
            slice=0.0,
            engine=recorder.engine,
        )
        self._books = EngineBooks(self._scheduler.engine)
        began = clock.now()
        try:
            complaints = await self._run()
        finally:
            recorder.close()
        return Report(
            seed=self._seed,
            recording=self._file,
            pods=self._api_books.created,
            bindings=self._api_books.bindings.total(),
            attempts=self._scheduler.engine.attempts,
            deleted=self._world.deleted,
            faults=self._faulty.counts,
            seconds=clock.now() - began,
            complaints=[*self._api_books.complaints, *self._books.complaints, *complaints],
        )

    async def _run(self) -> list[str]:
        async with anyio.create_task_group() as controllers:
            controllers.start_soon(Kubelet(self._store, self._clock).run)
            controllers.start_soon(VolumeController(self._store).run)
            async with anyio.create_task_group() as scheduling:
                scheduling.start_soon(self._scheduler.run)
                async with anyio.create_task_group() as befalling:
                    befalling.start_soon(self._befall)
                    await self._world.run()
                    befalling.cancel_scope.cancel()
                self._faulty.until = self._clock.now()
                await asyncio.sleep(QUIET)
                complaints = [*leftovers(self._scheduler, self._books)]
                complaints += await untruths(self._scheduler, self._client)
                self._scheduler.stop()
            controllers.cancel_scope.cancel()
        return [*complaints, *_tasks_left()]

    async def _befall(self) -> None:
        """Begin with faults, in every other run only once the scheduler knows its cluster; restart the API server."""
        random = self._random("restarts")
        self._faulty.until = self._clock.now()
        await asyncio.sleep(random.choice([0.0, 5.0]))
        self._faulty.until = math.inf
        while self._shape.rates != Rates():
            await asyncio.sleep(random.expovariate(1 / UPTIME))
            self._faulty.restart(random.uniform(0.0, DOWNTIME))

    def _random(self, purpose: str) -> Random:
        return Random(f"{self._seed}/{purpose}")


def _tasks_left() -> Iterator[str]:
    return (f"{task!r} is left" for task in asyncio.all_tasks() if task is not asyncio.current_task())
