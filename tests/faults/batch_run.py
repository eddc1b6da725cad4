"""A run of the batch engine: gangs in queues, their controllers, and recordings, over the same faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from kframework_batch.config import parse
from kframework_batch.engine import BatchEngine
from kframework_batch.membership import GROUP_NAME
from kframework_batch.objects import Job, PodGroup, Queue
from kframework_batch.program import Program, compile_program, core_registry
from kframework_batch.recording import ENGINES, recording_factory
from kframework_batch.resource import Resource
from kframework_batch.settings import ProgramSettings

from kframework.client.transitions import has_ended
from kframework.clock import Clock, seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import Event, Pod
from kframework.objects.requests import on_node_requests
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.scheduler import Scheduler
from tests.faults.batch_world import World, configuration, leftovers, lost, objects, untold
from tests.faults.run import FaultyRun, Report, Runnable
from tests.faults.run import run as run_world
from tests.faults.run_settings import RunSettings
from tests.faults.scheduler_run import SchedulerRun

__all__ = ["run"]

#: How long what is over is kept, and how long jobs may wait or run until they are deleted, in seconds: some never fit,
#: and room would be looked for in every session.
RETENTION, GIVEN_UP = 60.0, 200.0

#: How many bytes a recording may take: it is to be in one part.
LIMIT = 1 << 40

#: How long it is on average to the next change of the program, in seconds.
UNCHANGED = 300.0

#: How long some jobs run, in seconds: until they are deleted.
FOREVER = 1e6


def run(seed: int, shape: RunSettings, folder: Path) -> Report:
    """Run a world of jobs of this seed and shape to its end; each inbox is recorded in the folder."""
    return run_world(BatchRun(seed, shape, folder))


class BatchRun(FaultyRun[BatchEngine]):
    """One run; another scheduler has another program, and one that lives on may be given another, too."""

    def __init__(self, seed: int, shape: RunSettings, folder: Path) -> None:
        super().__init__(seed, shape)
        self._folder = folder

    def world(self) -> Runnable:
        for obj in objects(self.random("objects")):
            self.store.add(obj)
        self._world = Jobs(self.store, self.clock, self.random("world"), self.shape.pods, self.deleted)
        return self._world

    def controllers(self) -> Sequence[Runnable]:
        made = [make(self.store, self.clock) for make in self._settings(0).controller_factories()]
        return [*made, Reloads(self)] if self.shape.plugin_errors else made

    def scheduler_run(self, number: int) -> SchedulerRun[BatchEngine]:
        settings = self._settings(number)
        recorder = Recorder(self._recording(number), limit=LIMIT, annotations=ENGINES.annotations)
        return SchedulerRun(
            settings.configuration,
            self.faulty,
            self.clock,
            self.random(f"client {number}" if number else "client"),
            registry=core_registry(),
            engine=recording_factory(settings, recorder),
            recorder=recorder,
        )

    async def check(self, life: SchedulerRun[BatchEngine]) -> list[str]:
        self._world.faults = self.faulty.counts
        return [
            *self._world.problems,
            *leftovers(life.scheduler.engine),
            *untold(self._world),
            *_unsettled(life.scheduler),
            *lost(life.scheduler.engine, self.store),
            *_misstated(self.store),
            *self._world.broken_gangs(),
        ]

    @property
    def recordings(self) -> list[Path]:
        return [self._recording(number) for number in range(len(self.scheduler_runs))]

    def _recording(self, number: int) -> Path:
        return self._folder / f"sessions-{self.seed}{f'-{number}' if number else ''}.jsonl.gz"

    def program(self, number: int) -> Program:
        """Make a program."""
        return compile_program(parse(configuration(self.random(f"program {number}"))))

    def _settings(self, number: int) -> ProgramSettings:
        return ProgramSettings(self.program(number), seed=self.seed)


class Reloads:
    """Gives the scheduler that lives another program now and then, until no more faults befall it."""

    def __init__(self, run: BatchRun) -> None:
        self._run = run

    async def run(self) -> None:
        """Change the configuration."""
        run, random, number = self._run, self._run.random("reloads"), 1000
        while True:
            await asyncio.sleep(random.expovariate(1 / UNCHANGED))
            if run.clock.now() < run.faulty.until:
                number += 1
                run.troubles["configuration reloaded"] += 1
                run.scheduler_runs[-1].scheduler.engine.reload(run.program(number))


class Jobs(World):
    """A world that creates a given number of pods, cleans up after itself, and has jobs that never end."""

    def __init__(self, cluster: MemoryCluster, clock: Clock, random: Random, pods: int, deleted: Counter[str]) -> None:
        super().__init__(cluster, clock, random, rate=0.0)
        self._pods = pods
        self._made = 0
        self._deleted = deleted
        self._swept = clock.now()
        #: The groups of which a pod has failed or is gone: the others stay.
        self._disturbed: set[str] = set()
        cluster.subscribe([Pod], self._count)

    def over(self) -> bool:
        if self._clock.now() - self._swept > 30.0:
            self._swept = self._clock.now()
            self._sweep()
        return self._made >= self._pods

    def changes(self) -> Sequence[Callable[[], None]]:
        return (*[self._new_job] * 6, self._pod_fails, self._pod_goes, self._node_goes)

    def seconds(self) -> float:
        return FOREVER if self._random.random() < 0.05 else super().seconds()

    def _count(self, change: Change) -> None:
        pod = change.new or change.old
        assert isinstance(pod, Pod)
        self._made += change.old is None
        if change.new is None or pod.status.phase == "Failed" or pod.metadata.deletion_timestamp:
            self._disturbed.add(pod.metadata.annotations.get(GROUP_NAME, ""))
            self._deleted["pods"] += change.new is None

    def _remove(self, job: Job) -> None:
        """Delete a job, and what the garbage collector would delete with it."""
        self._deleted["jobs"] += 1
        self.cluster.remove(Job, job.metadata.name, job.metadata.namespace)
        for kind in (PodGroup, Pod):
            for each in self.cluster.objects(kind):
                if any(owner.uid == job.metadata.uid for owner in each.metadata.owner_references):
                    self.cluster.remove(kind, each.metadata.name, each.metadata.namespace, grace=0)

    def _sweep(self) -> None:
        now = self._clock.now()
        for job in self.cluster.objects(Job):
            age = now - seconds_of(job.metadata.creation_timestamp or "")
            if age > (RETENTION if job.status.state.phase in ("Completed", "Failed") else GIVEN_UP):
                self._remove(job)
        for event in self.cluster.objects(Event):
            if now - seconds_of(event.metadata.creation_timestamp or "") > RETENTION:
                self.cluster.remove(Event, event.metadata.name, event.metadata.namespace)

    def broken_gangs(self) -> Iterator[str]:
        """List the gangs with only some members on nodes, though no member was evicted."""
        for group in self.cluster.objects(PodGroup):
            name = group.metadata.name
            pods = [pod for pod in self.cluster.objects(Pod) if pod.metadata.annotations.get(GROUP_NAME) == name]
            placed = sum(bool(pod.spec.node_name) for pod in pods)
            if name not in self._disturbed and 0 < placed < group.spec.min_member:
                yield f"{placed} pods of {name} have a node, and {group.spec.min_member} are to have one"


def _unsettled(scheduler: Scheduler[BatchEngine]) -> Iterator[str]:
    if not scheduler.is_idle or not scheduler.outbox.is_empty:
        yield f"the scheduler has not settled: {scheduler!r}, {scheduler.outbox!r}, {scheduler.engine!r}"
    if scheduler.engine.cluster.statements:
        yield f"{len(scheduler.engine.cluster.statements)} statements are open"


def _misstated(cluster: MemoryCluster) -> Iterator[str]:
    """Name the queues whose status does not say what their pods have."""
    groups = {group.metadata.name: group for group in cluster.objects(PodGroup)}
    held = {queue.metadata.name: Resource() for queue in cluster.objects(Queue)}
    for pod in cluster.objects(Pod):
        group = groups.get(pod.metadata.annotations.get(GROUP_NAME, ""))
        if group is not None and pod.spec.node_name and not has_ended(pod):
            held[group.spec.queue].add(Resource(on_node_requests(pod)))
    for queue in cluster.objects(Queue):
        name = queue.metadata.name
        said = Resource.parse(queue.status.allocated)
        true = held[name]
        wrong = [each for each in ("cpu", "memory") if said.get(each, 0) != true.get(each, 0)]
        if wrong and name in "ab":
            yield f"queue {name} says that it holds {said!r}, and its pods have {true!r}"
