"""Record batch engines, recreate them from a recording, and replay their sessions.

Another configuration can decide recorded sessions too: each time in a session that is rolled back, before the recorded
one is replayed, so that the state stays the recorded one. Of equally good nodes it chooses the recorded one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from kframework import Clock, ConfigError, PluginError
from kframework.engine import (
    BRIEF,
    FIT_CONTROLLERS,
    NONE,
    DecisionDiff,
    EngineExplanation,
    EngineFactory,
    EngineKind,
    EngineMessage,
    Host,
    Recorder,
    RecordingEngine,
    ReplayResult,
    SimulatedEngineKind,
    profiles_factory,
    run_to_end,
)
from kframework.objects import ApiObject
from kframework.simulation.inputs import read_cluster
from kframework.simulation.recording import Recording
from kframework_batch.account import MEASURED, SessionAccount, SessionHistory, Turn, TurnOutcome
from kframework_batch.account_rows import format_reasons
from kframework_batch.background_writes import EvictionFailed, Reconfigured, StatusNotWritten
from kframework_batch.config import parse
from kframework_batch.core_plugins import CorePlugins
from kframework_batch.engine import BatchEngine, LoadedProgram
from kframework_batch.explain.explainer import explain_by_name
from kframework_batch.fit_simulation import BatchFitSimulation, EvictionHistory
from kframework_batch.objects import Job
from kframework_batch.placement import ScoreCache
from kframework_batch.program import Program, compile_program, core_configuration, core_registry, load_program
from kframework_batch.session import TrialSession
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation


class RecordedBatchEngine(RecordingEngine, BatchEngine):
    """An engine of batches that sends a recorder its inputs from outside, and when it takes a step."""

    @property
    def can_bind_runs(self) -> bool:
        """No: a recording has the messages about each pod in their order."""
        return False


class BatchEngines(SimulatedEngineKind[BatchEngine]):
    """Recreates batch engines from the header of a recording."""

    name: ClassVar[str] = "batch"
    messages: ClassVar[Sequence[type[EngineMessage]]] = (EvictionFailed, Reconfigured, StatusNotWritten)
    accounts: ClassVar[Mapping[str, type[msgspec.Struct]]] = {"session": SessionAccount}
    measured_fields: ClassVar[frozenset[str]] = MEASURED
    annotations: ClassVar[Sequence[str]] = (
        "volcano.sh/*",
        "scheduling.volcano.sh/*",
        "scheduling.k8s.io/group-name",
        "sla-waiting-time",
    )

    def __init__(self, engine: type[BatchEngine] = BatchEngine) -> None:
        self._engine = engine

    def rebuild(self, configuration: str, file: str, clock: Clock, host: Host) -> BatchEngine:
        header = msgspec.json.decode(configuration, type=_SettingsHeader)
        program = compile_program(parse(header.program, f"{file}: configuration"))
        settings = ProgramSettings(program, header.scheduler_names, header.default_queue, header.period, header.seed)
        return self._engine(
            settings.configuration,
            clock,
            host,
            profiles_factory(settings.configuration, core_registry(), host),
            settings.program,
            period=settings.period,
            default_queue=settings.default_queue,
        )

    def check(self, config: str) -> Sequence[str]:
        return load_program(config).notices

    def explain(
        self, engine: BatchEngine, accounts: Sequence[msgspec.Struct], namespace: str, name: str
    ) -> EngineExplanation:
        sessions = [account for account in accounts if isinstance(account, SessionAccount)]
        return run_to_end(explain_by_name(engine, sessions, namespace, name))

    def explain_files(
        self, filenames: Sequence[str], config: str | None, devices: str | None, namespace: str, name: str
    ) -> EngineExplanation:
        program = load_program(config)
        objects = read_cluster(list(filenames), devices=devices).objects
        sessions = SessionHistory()
        with create_simulation(objects, ProgramSettings(program), observers=[sessions]) as simulation:
            return run_to_end(explain_by_name(simulation.run().scheduler.engine, list(sessions), namespace, name))

    def create_fit_simulation(self, objects: Iterable[ApiObject], config: str | None) -> BatchFitSimulation:
        settings, sessions = ProgramSettings(load_program(config)), EvictionHistory()
        simulation = create_simulation(objects, settings, observers=[sessions], kubernetes_controllers=FIT_CONTROLLERS)
        return BatchFitSimulation(simulation, sessions)

    def watched_kinds(self, config: str | None) -> list[type[ApiObject]]:
        return [*super().watched_kinds(config), Job]  # the controllers of the simulation manage those that there are

    def reconsider(self, file: Path, config: str) -> ReplayResult:
        return reconsider(Recording(file), BatchEngines(ReconsideredEngine), load_program(config))


#: What is offered under `kframework.engines`.
ENGINES = BatchEngines()


def recording_factory(settings: ProgramSettings, recorder: Recorder) -> EngineFactory[BatchEngine]:
    """Return what makes the engine of these settings, and has a recorder write what reaches it."""
    text = settings.program.configuration.text
    make = RecordedBatchEngine.factory(settings.program, settings.period, settings.default_queue)
    header = _SettingsHeader(text, settings.scheduler_names, settings.default_queue, settings.period, settings.seed)
    return ENGINES.recording_factory(recorder, make, lambda configuration: msgspec.json.encode(header).decode())


class _SettingsHeader(msgspec.Struct, frozen=True, rename="camel"):
    """Settings, as the header of a recording has them."""

    program: str
    scheduler_names: tuple[str, ...]
    default_queue: str
    period: float
    seed: int


#: The number of tasks or victims that are named in a message.
_EXAMPLES = 3


class ReconsideredEngine(BatchEngine):
    """An engine that calls a function with its current state right before each session, by the session's uid."""

    before_session: Callable[[str], None] = staticmethod(lambda uid: None)

    def _open_session(self) -> Generator[None, None, None]:
        self.before_session(f"{self.sessions + 1}")
        return super()._open_session()


def reconsider(recording: Recording, kind: EngineKind[BatchEngine], program: Program) -> ReplayResult:
    """Decide every session of a recording again by this program; `kind` makes an AskedEngine of the recording.

    Raises ConfigError where the recorded configuration decides otherwise than it did, because then the state is not
    known.
    """
    replay = recording.replay_to(kind)
    recorded = {each.uid: each for each in recording.accounts(kind) if isinstance(each, SessionAccount)}
    engine = replay.engine
    assert isinstance(engine, ReconsideredEngine)
    configuration = core_configuration(program, list(engine.profiles))
    profiles = profiles_factory(configuration, core_registry(), engine.host)(engine)
    core = CorePlugins(engine.cluster, profiles, configuration.options.layer_memory_bytes)
    deciding = LoadedProgram(program, core, ScoreCache())
    sessions, differences = list[str](), list[DecisionDiff]()

    def start_session(uid: str) -> None:
        account = recorded.get(uid)
        if account is not None:  # it is not known of a session that was broken off
            sessions.append(uid)
            differences.extend(_differences(account, engine.trial(deciding)))

    engine.before_session = start_session
    replayed = replay.replay_all()
    if replayed.difference is not None:
        raise ConfigError(f"the recorded configuration does not decide as it did: {replayed.difference}")
    return msgspec.structs.replace(replayed, compared={"session": sessions}, differences=tuple(differences))


def _differences(recorded: SessionAccount, trial: TrialSession) -> Iterator[DecisionDiff]:
    """Yield what would have been otherwise in a session, job by job."""
    turns = [turn for turn in recorded.turns if turn.outcome is TurnOutcome.COMMITTED]
    trial.placement.preferred = {each.uid: each.node for turn in turns for each in turn.verdicts if each.node}
    failure = ""
    try:
        trial.run_trial()
    except PluginError as error:
        failure = str(error)
    if failure or recorded.failure:
        if failure != recorded.failure:
            kind = "fails otherwise" if failure and recorded.failure else "fails now" if failure else "fails no more"
            yield DecisionDiff(
                record="session",
                name=recorded.uid,
                kind=kind,
                recorded=recorded.failure,
                replayed=failure,
                subject_kind="job",
                subject=NONE,
                at=recorded.at,
                recorded_text="ends early" if recorded.failure else "does not",
                replayed_text="ends early" if failure else "does not",
                message=failure or recorded.failure,
            )
        return
    yield from _job_differences(recorded, trial.build_account(recorded.sample_value).turns)


def _job_differences(recorded: SessionAccount, turns: Sequence[Turn]) -> Iterator[DecisionDiff]:
    owners = {state.job: state.owner for state in recorded.jobs}
    for job in dict.fromkeys(turn.job for turn in (*recorded.turns, *turns)):
        before, now = _JobResult(recorded.turns_of(job)), _JobResult([turn for turn in turns if turn.job == job])
        kind, message = _compare(before, now)
        if kind:
            yield DecisionDiff(
                record="session",
                name=recorded.uid,
                kind=kind,
                recorded=before.turns,
                replayed=now.turns,
                subject_kind="job",
                subject=owners.get(job, "").partition(" ")[2] or job,
                at=recorded.at,
                recorded_text=str(before),
                replayed_text=str(now),
                message=message,
                details={"podGroup": job},
            )


# -- one job -----------------------------------------------------------------------------------------------------------


class _JobResult:
    """The result of a job's turns in a session: the nodes of its bound tasks, and its victims."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        committed = [turn for turn in turns if turn.outcome is TurnOutcome.COMMITTED]
        placed = (each for turn in committed for each in turn.verdicts if each.node and not each.promised)
        self.nodes: Mapping[str, str] = {each.pod: each.node for each in placed}
        self.victims: frozenset[str] = frozenset(victim.pod for turn in committed for victim in turn.victims)
        #: Without an action that admits jobs they are admitted.
        self.held_back: bool = any(turn.outcome is TurnOutcome.HELD_BACK for turn in turns)

    def __str__(self) -> str:
        bound = f"{len(self.nodes)} bound" if self.nodes else ""
        victims = f"{len(self.victims)} evicted" if self.victims else ""
        if self.held_back:
            return "held back"
        return ", ".join(filter(None, (bound, victims))) or (self.turns[-1].outcome.value if self.turns else "no turn")


def _compare(before: _JobResult, now: _JobResult) -> tuple[str, str]:
    """Return how two fates of a job differ, and why; "" if they do not."""
    if before.held_back != now.held_back:
        return (
            ("held back now", format_reasons(*now.turns))
            if now.held_back
            else ("let in now", format_reasons(*before.turns))
        )
    had, has = len(before.nodes), len(now.nodes)
    if had != has:
        if not had or not has:
            return (
                ("served now", format_reasons(*before.turns)) if has else ("served no more", format_reasons(*now.turns))
            )
        return "more tasks" if has > had else "fewer tasks", format_reasons(*(before if has > had else now).turns)
    if before.victims != now.victims:
        return "other victims", BRIEF.names(sorted(now.victims), _EXAMPLES) or format_reasons(*now.turns)
    if before.nodes != now.nodes:
        moved = {pod: (node, before.nodes.get(pod, NONE)) for pod, node in now.nodes.items()}
        moves = [f"{pod}: {new}, not {old}" for pod, (new, old) in moved.items() if new != old]
        return "other nodes", BRIEF.names(moves, _EXAMPLES)
    was, reasons = format_reasons(*before.turns), format_reasons(*now.turns)
    # Where one of them is empty the job had no pods yet, or no plugin that objects to that.
    return ("other reasons", reasons) if not has and was and reasons and reasons != was else ("", "")
