"""Whole runs on virtual time, with the controllers and an API that may fail: what holds meanwhile, and in the end."""

from __future__ import annotations

from random import Random

import pytest
from kframework_batch.config import parse
from kframework_batch.program import compile_program
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation

from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from tests.faults.batch_world import RATE, World, configuration, leftovers, objects, untold
from tests.support.scale import seeds


def run(seed: int, rate: float) -> tuple[World, list[str], tuple[object, ...]]:
    """Run a world of this seed to its end; return it with all that is wrong, and all that was decided."""
    random = Random(seed)
    settings = ProgramSettings(compile_program(parse(configuration(random))), seed=seed)
    worlds: list[World] = []

    def make(cluster: MemoryCluster, clock: Clock) -> World:
        worlds.append(World(cluster, clock, Random(f"{seed}/world"), rate))
        return worlds[0]

    with create_simulation(objects(random), settings, controllers=[make]) as simulation:
        result = simulation.run().result
        world = worlds[0]
        complaints = [*world.problems, *leftovers(simulation.scheduler.engine), *untold(world)]
        complaints += [f"{uid} was bound {times} times" for uid, times in world.bound.items() if times > 1]
    complaints += [f"{name} is retried for ever" for name in result.retrying]
    bindings = [(binding.pod, binding.node, binding.ended_at, binding.message) for binding in result.bindings]
    return worlds[0], complaints, (*bindings, *result.outcomes)


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("rate", [0.0, RATE], ids=["sound", "faulty"])
def test_random_runs_keep_the_invariants(seed: int, rate: float) -> None:
    world, complaints, _ = run(seed, rate)
    assert not complaints
    assert bool(world.faults) is bool(rate)


def test_same_seed_gives_the_same_run() -> None:
    assert run(3, RATE)[2] == run(3, RATE)[2]
