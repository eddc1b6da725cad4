"""Runs of jobs in sessions, each with all that is left of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple, TypeVar

import msgspec
from kframework_batch.account import SessionAccount, SessionHistory
from kframework_batch.config import parse
from kframework_batch.engine import BatchEngine
from kframework_batch.program import compile_program
from kframework_batch.recording import recording_factory
from kframework_batch.scenario import make_job
from kframework_batch.session_metrics import LatencyMetrics
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation
from kframework_batch.testing import make_queue

from kframework.clock import Clock
from kframework.engine import Binding, Decision, Observer, Series
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, ObjectMeta, PriorityClass
from kframework.observe.metrics.series import format_series
from kframework.observe.recording.writer import Recorder
from kframework.simulation.controllers import ControllerFactory
from kframework.testing import make_node
from tests.faults.batch_world import RATE, World, configuration, objects

#: The seed of a world in which the API fails now and then.
FAULTY = 4

CONFIGURATION = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""

T = TypeVar("T", bound=msgspec.Struct)

#: Changes a record before it is told; what it leaves alone it returns.
Lie = Callable[[msgspec.Struct], msgspec.Struct]


def unchanged(record: T) -> T:
    """Change nothing."""
    return record


class RecordedRun(NamedTuple):
    """What is left of a run: its engine, what it was recorded in, its accounts, the oldest first, and its latencies."""

    engine: BatchEngine
    file: Path
    accounts: Sequence[SessionAccount]
    latencies: Mapping[str, float]


def waiting(file: Path) -> RecordedRun:
    """Let jobs wait for each other, and one without end."""
    jobs = [make_job(f"job-{number}", 2, cpu=2, queue="q", seconds=3.0 + number) for number in range(4)]
    nodes = [make_node(name, cpu=4) for name in ("a", "b")]
    return run_and_record(file, [make_queue("q"), *nodes, *jobs, make_job("large", 9, cpu=2, queue="q")], settings())


def faulty(file: Path) -> RecordedRun:
    """Let a world go its way in which the API fails now and then."""
    random = Random(FAULTY)
    of = ProgramSettings(compile_program(parse(configuration(random))), seed=FAULTY)

    def make(cluster: MemoryCluster, clock: Clock) -> World:
        return World(cluster, clock, Random(f"{FAULTY}/world"), RATE)

    return run_and_record(file, objects(random), of, [make])


def crowded(file: Path, lie: Lie = unchanged) -> RecordedRun:
    """Let a job come late, and send others away."""
    nodes = [make_node(name, cpu=4) for name in ("a", "b")]
    high = PriorityClass(metadata=ObjectMeta(name="high"), value=1000)
    low = make_job("low", 4, cpu=2, queue="q", minimum=1)
    return run_and_record(file, [make_queue("q"), *nodes, high, low], settings(), [Latecomer], lie)


def settings() -> ProgramSettings:
    return ProgramSettings(compile_program(parse(CONFIGURATION)), period=0.5, seed=7)


class Latecomer:
    """Makes a job that matters more once all others run."""

    kinds: ClassVar[Sequence[type[ApiObject]]] = ()

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        self.on_idle: Callable[[], None] = lambda: None
        self.idle = False
        self._cluster = cluster

    async def run(self) -> None:
        await asyncio.sleep(5)
        self._cluster.add(make_job("late", 2, cpu=2, queue="q", priority_class="high"))
        self.idle = True
        self.on_idle()


def run_and_record(
    file: Path,
    objects: Iterable[ApiObject],
    settings: ProgramSettings,
    controllers: Iterable[ControllerFactory] = (),
    lie: Lie = unchanged,
) -> RecordedRun:
    """Schedule jobs, write down what was decided, and count latencies by what a lie makes of it."""
    history, latencies, recorder = SessionHistory(), LatencyMetrics(), Recorder(file)
    make = recording_factory(settings, recorder)

    def made(*parts: object) -> BatchEngine:
        engine = make(*parts)  # type: ignore[arg-type]  # the parts of an engine, handed on
        latencies.attach(engine)
        return engine

    observers = [recorder, history, AlteringObserver(latencies, lie)]
    with create_simulation(objects, settings, observers=observers, engine=made, controllers=controllers) as simulation:
        engine = simulation.run(60.0).scheduler.engine
    recorder.close()
    return RecordedRun(engine, file, list(history)[::-1], readings(latencies.series))


class AlteringObserver(Observer):
    """Tells an observer what a lie makes of each record."""

    def __init__(self, observer: LatencyMetrics, lie: Lie) -> None:
        self._observer = observer
        self._lie = lie

    def on_decision(self, decision: Decision) -> None:
        told = self._lie(decision)
        assert isinstance(told, Decision)
        self._observer.on_decision(told)

    def on_binding(self, binding: Binding) -> None:
        told = self._lie(binding)
        assert isinstance(told, Binding)
        self._observer.on_binding(told)

    def on_account(self, account: msgspec.Struct) -> None:
        """Tell of a session."""
        self._observer.on_account(self._lie(account))


def readings(all_series: Iterable[Series]) -> dict[str, float]:
    """Read Volcano's metrics off their text, by name and labels."""
    text = "".join(piece for series in all_series for piece in format_series(series))
    return {name: float(value) for name, value in re.findall(r"^(volcano_\S+) (\S+)$", text, re.MULTILINE)}
