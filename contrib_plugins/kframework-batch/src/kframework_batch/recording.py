"""How engines of batches are recorded, and made again to be told what was recorded.

For a replay their configuration is this JSON: the text that the program was read from, and whom it was for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from kframework import Clock
from kframework.engine import (
    EngineExplanation,
    EngineKind,
    Host,
    MakeEngine,
    OwnMessage,
    RecordedEngine,
    Recorder,
    ReplayResult,
    finished,
    profiles_for,
)
from kframework.simulation.inputs import read_cluster
from kframework.simulation.recording import Recording
from kframework_batch.account import MEASURED, SessionAccount
from kframework_batch.config import default_configuration, load, parse
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explainer import explain_by_name
from kframework_batch.messages import EvictionFailed, Reconfigured, StatusNotWritten
from kframework_batch.program import compile_program
from kframework_batch.reconsider import AskedEngine, reconsider
from kframework_batch.session_history import SessionHistory
from kframework_batch.settings import Settings
from kframework_batch.simulation import create_simulation


class RecordedBatchEngine(RecordedEngine, BatchEngine):
    """An engine of batches that tells a recorder what reaches it from outside, and when it takes a step."""


class BatchEngines(EngineKind[BatchEngine]):
    """Makes engines of batches again, as the header of a recording says."""

    name: ClassVar[str] = "batch"
    messages: ClassVar[Sequence[type[OwnMessage]]] = (EvictionFailed, Reconfigured, StatusNotWritten)
    accounts: ClassVar[Mapping[str, type[msgspec.Struct]]] = {"session": SessionAccount}
    measured: ClassVar[frozenset[str]] = MEASURED
    annotations: ClassVar[Sequence[str]] = (
        "volcano.sh/*",
        "scheduling.volcano.sh/*",
        "scheduling.k8s.io/group-name",
        "sla-waiting-time",
    )

    def __init__(self, engine: type[BatchEngine] = BatchEngine) -> None:
        self._engine = engine

    def again(self, configuration: str, file: str, clock: Clock, outside: Host) -> BatchEngine:
        settings = _settings(configuration, file)
        return self._engine(
            settings.configuration,
            clock,
            outside,
            profiles_for(settings.configuration, settings.registry, outside),
            settings.program,
            period=settings.period,
            default_queue=settings.default_queue,
        )

    def explain(
        self, engine: BatchEngine, accounts: Sequence[msgspec.Struct], namespace: str, name: str
    ) -> EngineExplanation:
        sessions = [account for account in accounts if isinstance(account, SessionAccount)]
        return finished(explain_by_name(engine, sessions, namespace, name))

    def explain_files(
        self, filenames: Sequence[str], config: str | None, devices: str | None, namespace: str, name: str
    ) -> EngineExplanation:
        program = compile_program(default_configuration() if config is None else load(config))
        objects = read_cluster(list(filenames), devices=devices).objects
        sessions = SessionHistory()
        with create_simulation(objects, Settings(program), observers=[sessions]) as simulation:
            return finished(explain_by_name(simulation.run().scheduler.engine, list(sessions), namespace, name))

    def reconsider(self, file: Path, config: str) -> ReplayResult:
        return reconsider(Recording(file), BatchEngines(AskedEngine), compile_program(load(config)))


#: What is offered under `kframework.engines`.
ENGINES = BatchEngines()


def recorded(settings: Settings, recorder: Recorder) -> MakeEngine[BatchEngine]:
    """Return what makes the engine of these settings, and has a recorder write what reaches it."""
    make = RecordedBatchEngine.maker(settings.program, settings.period, settings.default_queue)
    return ENGINES.recording(recorder, make, lambda configuration: _text(settings))


class _Said(msgspec.Struct, frozen=True, rename="camel"):
    """Settings, as the header of a recording has them."""

    program: str
    scheduler_names: tuple[str, ...]
    default_queue: str
    period: float
    seed: int


def _text(settings: Settings) -> str:
    said = _Said(
        settings.program.text, settings.scheduler_names, settings.default_queue, settings.period, settings.seed
    )
    return msgspec.json.encode(said).decode()


def _settings(text: str, file: str) -> Settings:
    said = msgspec.json.decode(text, type=_Said)
    program = compile_program(parse(said.program, f"{file}: configuration"))
    return Settings(program, said.scheduler_names, said.default_queue, said.period, said.seed)
