"""Runs with every kind of fault are recorded, and their replays come to the same decisions.

The long form, with API servers that restart, schedulers that follow each other and another process that decides again,
is `python -m tests.faults --engine batch`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from kframework_batch.config import parse
from kframework_batch.engine import BatchEngine
from kframework_batch.program import compile_program
from kframework_batch.recording import ENGINES, BatchEngines, ReconsideredEngine, reconsider, recording_factory
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation

from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.simulation.controllers import ControllerFactory
from kframework.simulation.recording import Recording
from tests.faults.batch_world import RATE, World, configuration, objects
from tests.faults.recording_lines import lines_of
from tests.support.scale import EXAMPLES

#: The seeds, of some fifty sessions each; with KFRAMEWORK_EXAMPLES=100 it is a thousand sessions. Of the first ones not
#: every one has victims that cannot be sent away.
SEEDS = range(10, 10 + max(EXAMPLES // 5, 3))

#: How often a call is refused for good, beside those that fail for a while; victims are few.
REFUSED = {"patch_status": 0.2, "bind": 0.2, "delete": 0.7}


class Harsh(World):
    """A world in which the scheduler's calls are refused, it loses its lease, and its configuration is reloaded."""

    def __init__(self, cluster: MemoryCluster, clock: Clock, seed: int, engine: Callable[[], BatchEngine]) -> None:
        super().__init__(cluster, clock, Random(f"{seed}/world"), RATE)
        self.troubles: Counter[str] = Counter()
        self._engine = engine
        self._chance = Random(f"{seed}/troubles")

    async def run(self) -> None:
        trouble = asyncio.ensure_future(self._trouble())
        try:
            await super().run()
        finally:
            trouble.cancel()

    async def _trouble(self) -> None:
        chance = self._chance
        while True:
            await asyncio.sleep(chance.expovariate(1 / 20.0))
            engine = self._engine()
            if chance.random() < 0.2:
                self.troubles["configured anew"] += 1
                engine.reload(compile_program(parse(configuration(chance))))
            await asyncio.sleep(max(0.0, (engine.deadline or 0.0) - self._clock.now()))
            for _ in range(chance.randint(1, 12)):
                await asyncio.sleep(0)
            self.troubles["session broken off"] += engine._steps is not None
            engine.apply_messages()

    def _fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if self._rate and method in REFUSED and self._chance.random() < REFUSED[method]:
            self.troubles[f"{method} refused"] += 1
            return Fault(error=ClusterError("never", status=403))
        return super()._fault(method, kind, namespace, name)


def record(seed: int, file: Path, kind: type[Harsh] = Harsh) -> Counter[str]:
    """Run a world of this seed to its end, recorded; return what befell the scheduler."""
    random, engines, worlds = Random(seed), list[BatchEngine](), list[Harsh]()
    settings = ProgramSettings(compile_program(parse(configuration(random))), seed=seed)
    recorder = Recorder(file, annotations=ENGINES.annotations)
    make = recording_factory(settings, recorder)

    def kept(*made_of: object) -> BatchEngine:
        engines.append(make(*made_of))  # type: ignore[arg-type]  # as it is given
        return engines[0]

    def harsh(cluster: MemoryCluster, clock: Clock) -> World:
        worlds.append(kind(cluster, clock, seed, lambda: engines[0]))
        return worlds[0]

    controllers: list[ControllerFactory] = [harsh]
    with create_simulation(
        objects(random), settings, observers=[recorder], engine=kept, controllers=controllers
    ) as simulation:
        simulation.run()
    recorder.close()
    return worlds[0].troubles


@pytest.mark.slow
def test_recordings_of_failing_sessions_replay_to_the_same_decisions(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        file = tmp_path / f"{seed}.rec"
        seen += record(seed, file)
        told = Counter(line["what"] for line in lines_of(file)[1:])
        again = replay(file)
        assert again.difference is None, f"seed {seed}: {again.difference}"
        assert not again.cut_off
        assert (again.steps, again.attempts) == (told["Step"], told["Decision"])
        assert len(again.compared["session"]) == told["SessionAccount"]
        seen += told
    assert seen["SessionAccount"] > 30 * len(SEEDS)
    assert seen.keys() >= {"EvictionFailed", "StatusNotWritten", "Reconfigured", "session broken off", "bind refused"}


class Steady(Harsh):
    """The same without a reload of the configuration."""

    async def _trouble(self) -> None:
        pass


@pytest.mark.slow
def test_reconsidering_leaves_no_trace_and_same_configuration_agrees(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in SEEDS:
        file = tmp_path / f"{seed}.rec"
        record(seed, file, Steady)
        recording, kind = Recording(file), BatchEngines(ReconsideredEngine)
        same = json.loads(RecordingReader(file).header.configuration)["program"]
        sessions = len(recording.accounts(kind))
        result = reconsider(recording, kind, compile_program(parse(same)))
        assert (len(result.compared["session"]), result.differences) == (sessions, ())
        for other in range(2):
            program = compile_program(parse(configuration(Random(f"{seed}/{other}"))))
            result = reconsider(recording, kind, program)
            assert len(result.compared["session"]) == sessions
            found.update(each.kind for each in result.differences)
    assert len(found) > 2, found
