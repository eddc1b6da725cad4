"""A run of the batch engine: gangs in queues, with the controllers of jobs, groups and queues, over the same faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from kframework_batch.config import parse
from kframework_batch.engine import BatchEngine
from kframework_batch.objects import PodGroup, Queue
from kframework_batch.program import compile_program
from kframework_batch.resource import Resource
from kframework_batch.settings import Settings

from kframework.cluster.transitions import has_ended
from kframework.objects import Pod
from kframework.objects.requests import on_node_requests
from tests.faults.batch_world import World, configuration, leftovers, objects, untold
from tests.faults.lives import Life
from tests.faults.run import FaultyRun, Report, Runs
from tests.faults.run import run as run_world
from tests.faults.shape import Shape

__all__ = ["run"]


def run(seed: int, shape: Shape) -> Report:
    """Run a world of jobs of this seed and shape to its end."""
    return run_world(BatchRun(seed, shape))


class BatchRun(FaultyRun[BatchEngine]):
    """One run; another scheduler has another program, and one that lives on may be given another, too."""

    def world(self) -> Runs:
        for obj in objects(self.random("objects")):
            self.store.add(obj)
        self._world = World(self.store, self.clock, self.random("world"), 0.0, self.shape)
        return self._world

    def controllers(self) -> Sequence[Runs]:
        return [make(self.store, self.clock) for make in self._settings(0).controllers]

    def life(self, number: int) -> Life[BatchEngine]:
        settings = self._settings(number)
        return Life(
            settings.configuration,
            self.faulty,
            self.clock,
            self.random(f"client {number}" if number else "client"),
            registry=settings.registry,
            engine=settings.engine(),
        )

    def _settings(self, number: int) -> Settings:
        program = compile_program(parse(configuration(self.random(f"program {number}"))))
        return Settings(program, seed=self.seed)
