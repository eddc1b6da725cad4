"""A whole run on virtual time: a world, an API that faults befall, schedulers in turn, and what must hold."""

from __future__ import annotations

import asyncio
import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Generic, Protocol, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from kframework.clock import LoopClock, VirtualTimeLoop, run_virtual
from kframework.core.engine import Engine
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from tests.faults.invariants import ApiChecker
from tests.faults.run_settings import RunSettings, feature_gates
from tests.faults.scheduler_run import SchedulerRun, Termination
from tests.support.faulty_transport import FaultyTransport, Rates

__all__ = ["FaultyRun", "Report", "Runnable", "run"]

E = TypeVar("E", bound=Engine)

#: How long nothing happens in the end, in seconds: volumes are waited for as long.
QUIET_TIME = 700.0

#: How long the API server runs on average, and how long it is away at most, in seconds.
UPTIME, DOWNTIME = 200.0, 20.0

#: How long a server that has just started denies everything, in seconds: it has not read its roles yet.
DENYING = 1.5

#: How long it is on average until all stands still, and for how long it does at most, in seconds.
JUMP_INTERVAL, LONGEST_JUMP = 300.0, 120.0

#: How long there is no scheduler at most between two, in seconds.
LONGEST_VACANCY = 5.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to; nothing in `problems` if all that must hold did, `history` is the same for the same seed."""

    seed: int
    recordings: list[Path]
    pods: int
    bindings: int
    attempts: int
    deleted: Counter[str]
    faults: Counter[str]
    troubles: Counter[str]
    seconds: float
    history: str
    problems: list[str]

    @property
    def recording(self) -> Path:
        """The inbox of the last scheduler."""
        return self.recordings[-1]

    def __str__(self) -> str:
        inbox = ", ".join(map(str, self.recordings)) or "no file"
        return "\n  ".join([f"seed {self.seed} fails; its inbox is in {inbox}", *self.problems[:20]])


class Runnable(Protocol):
    """What works in a cluster until it is cancelled, or has done all that it has to."""

    async def run(self) -> None:
        """Work."""
        ...


def run(subject: FaultyRun[E]) -> Report:
    """Run a world to its end, on virtual time."""
    return run_virtual(subject.main)


class FaultyRun(ABC, Generic[E]):
    """One run: the cluster, the schedulers that follow each other, and all that befalls them."""

    def __init__(self, seed: int, shape: RunSettings) -> None:
        self.seed = seed
        self.shape = shape
        self.scheduler_runs: list[SchedulerRun[E]] = []
        #: What befell the schedulers beside the faults of the API.
        self.troubles: Counter[str] = Counter()
        #: What befell the world.
        self.deleted: Counter[str] = Counter()

    # -- what each engine has of its own ---------------------------------------------------------------------------

    @abstractmethod
    def world(self) -> Runnable:
        """Make what happens in the cluster; once it has run, nothing does any more."""

    @abstractmethod
    def controllers(self) -> Sequence[Runnable]:
        """Make what works in the cluster beside its kubelets."""

    @abstractmethod
    def scheduler_run(self, number: int) -> SchedulerRun[E]:
        """Make the scheduler of this number, from 0."""

    def end_faults(self) -> None:
        """Let no more faults befall anybody from now on."""
        self.faulty.until = self.clock.now()

    @abstractmethod
    async def check(self, life: SchedulerRun[E]) -> list[str]:
        """Name what does not hold now that all is quiet."""

    @property
    def recordings(self) -> list[Path]:
        """The files in which the inboxes are."""
        return []

    async def main(self) -> Report:
        """Let the world happen, wait until it is quiet, and look."""
        abandoned: list[str] = []
        # What the collector closes is closed at any time: then the same seed need not tell the same story.
        sys.set_asyncgen_hooks(finalizer=lambda generator: abandoned.append(repr(generator)))
        self.clock = LoopClock(asyncio.get_running_loop())
        self.store = MemoryCluster(self.clock, feature_gates=feature_gates(self.shape))
        books = ApiChecker(self.store)
        api = InProcessTransport(ApiServer(self.store, self.clock))
        self.faulty = FaultyTransport(api, self.random("faults"), self.shape.rates, self.clock)
        began = self.clock.now()
        problems = await self._run()
        problems += [f"{generator} was left for the collector to close" for generator in abandoned]
        for life in self.scheduler_runs:
            problems += life.pods_without_one_event(books.announced)
            self.troubles.update(life.counts)
        return Report(
            seed=self.seed,
            recordings=self.recordings,
            pods=books.created,
            bindings=books.bindings.total(),
            attempts=self.troubles.pop("attempts", 0),
            deleted=self.deleted,
            faults=self.faulty.counts,
            troubles=+self.troubles,
            seconds=self.clock.now() - began,
            history=books.history,
            problems=[*books.problems, *problems],
        )

    async def _run(self) -> list[str]:
        world = self.world()
        async with anyio.create_task_group() as controllers:
            for controller in (Kubelet(self.store, self.clock), *self.controllers()):
                controllers.start_soon(controller.run)
            async with anyio.create_task_group() as scheduling:
                self._begin(scheduling)
                async with anyio.create_task_group() as befalling:
                    befalling.start_soon(self._inject_faults)
                    befalling.start_soon(self._jump_in_time)
                    befalling.start_soon(self._replace_schedulers, scheduling)
                    await world.run()
                    befalling.cancel_scope.cancel()
                self.end_faults()
                await asyncio.sleep(QUIET_TIME)
                problems = await self.check(self.scheduler_runs[-1])
                self.scheduler_runs[-1].scheduler.stop()
            controllers.cancel_scope.cancel()
        return [*problems, *_leftover_tasks()]

    def _begin(self, scheduling: TaskGroup) -> None:
        life = self.scheduler_run(len(self.scheduler_runs))
        self.scheduler_runs.append(life)
        scheduling.start_soon(life.run)

    async def _replace_schedulers(self, scheduling: TaskGroup) -> None:
        """Let one scheduler follow the other."""
        random = self.random("lives")
        while math.isfinite(self.shape.lifetime):
            await asyncio.sleep(random.expovariate(1 / self.shape.lifetime))
            with anyio.CancelScope(shield=True):  # in the end there is to be one
                await self.scheduler_runs[-1].end(random.choice([*Termination]), scheduling)
                await asyncio.sleep(random.uniform(0.0, LONGEST_VACANCY))
                self._begin(scheduling)

    async def _inject_faults(self) -> None:
        """Begin with faults, in every other run only once the scheduler knows its cluster; restart the API server."""
        random = self.random("restarts")
        self.faulty.until = self.clock.now()
        await asyncio.sleep(random.choice([0.0, 5.0]))
        self.faulty.until = math.inf
        while self.shape.rates != Rates():
            await asyncio.sleep(random.expovariate(1 / UPTIME))
            self.troubles["API server restarted"] += 1
            self.faulty.restart(random.uniform(0.0, DOWNTIME), denying=DENYING)

    async def _jump_in_time(self) -> None:
        """Let time jump: the machine slept, and whatever became due meanwhile is due at once."""
        random, loop = self.random("standstills"), asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        while self.shape.standstills:
            await asyncio.sleep(random.expovariate(1 / JUMP_INTERVAL))
            self.troubles["time jumped"] += 1
            self.scheduler_runs[-1].jumped_at = self.clock.now()
            loop._jumping.elapsed += random.uniform(1.0, LONGEST_JUMP)
            self.scheduler_runs[-1].resumed_at = self.clock.now()

    def random(self, purpose: str) -> Random:
        """Return the generator of a purpose."""
        return Random(f"{self.seed}/{purpose}")


def _leftover_tasks() -> Iterator[str]:
    return (f"{task!r} is left" for task in asyncio.all_tasks() if task is not asyncio.current_task())
