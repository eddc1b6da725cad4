"""A recording that is followed: what was decided is what happens, and the state is at every moment what it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest

from kframework.config.load import parse
from kframework.core.cycle.records import Binding, Decision
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.pod_engine import FollowingEngine, PodEngineKind, recording_pod_engine_factory
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.replay import Mode, Replay, follow, replay
from kframework.observe.recording.writer import Recorder
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone
from tests.faults.pod_run import PLUGINS, Report, RunSettings, run
from tests.faults.recording_lines import Line, changed, lines_of
from tests.support.scale import seeds
from tests.support.source_plugins import changing_plugin

#: How many random runs are followed.

SHAPE = RunSettings(pods=40, pause=4.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(1, SHAPE, tmp_path_factory.mktemp("recorded"))


class Notes:
    """The calls of an observer."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def on_binding(self, binding: Binding) -> None:
        self.bindings.append(binding)


class Followed(Replay[FollowingEngine]):
    """A replay that notes what its engine decides."""

    def __init__(self, file: Path, notes: Notes) -> None:
        self.made: list[Decision] = []
        super().__init__(RecordingReader(file), PodEngineKind(FollowingEngine, PLUGINS), Mode.FOLLOW, [notes])

    def report_decision(self, decision: Decision) -> None:
        self.made.append(decision)


MEASURED = {"started", "timings", "plugins"}
DECIDED = [name for name in Decision.__struct_fields__ if name not in MEASURED]


def decided(decision: Decision) -> list[object]:
    return [getattr(decision, name) for name in DECIDED]


@pytest.mark.parametrize("seed", seeds(2))
def test_following_engine_decides_as_recorded(seed: int, tmp_path: Path) -> None:
    recording, notes = run(seed, SHAPE, tmp_path).recording, Notes()
    followed = Followed(recording, notes)
    result = followed.replay_all()
    told = [line["what"] for line in lines_of(recording)[1:]]
    assert len(notes.decisions) == told.count("Decision") and len(notes.bindings) == told.count("Binding")
    assert list(map(decided, followed.made)) == list(map(decided, notes.decisions))
    assert (result.attempts, result.differences) == (len(notes.decisions), ())


def is_attempt(attempt: int, record: msgspec.Struct) -> bool:
    return isinstance(record, Decision) and record.attempt == attempt


def test_replay_until_stops_right_before_an_attempt(recorded: Report) -> None:
    notes = Notes()
    followed = Followed(recorded.recording, notes)
    for attempt in (1, 7, 8, recorded.attempts):
        decision = followed.replay_until(partial(is_attempt, attempt))
        assert isinstance(decision, Decision) and decision.attempt == attempt == len(notes.decisions) + 1
        assert followed.engine.attempts == len(followed.made) == attempt - 1
        assert followed.clock.now() == decision.popped_at
        queued = followed.engine.queue.get(decision.uid)
        assert queued is not None and queued.attempts == decision.pod_attempts - 1
        assert not len(followed.engine.inbox)
    assert followed.replay_until(lambda record: True) is None
    assert followed.engine.attempts == recorded.attempts
    assert followed.replay_until(lambda record: True) is None


def test_recorded_decision_replaces_that_of_the_engine(recorded: Report, tmp_path: Path) -> None:
    """Also where the engine would decide otherwise: the recorded node is where the pod goes."""

    def elsewhere(lines: list[Line]) -> None:
        for line in lines:
            if line.get("what") == "Decision" and line["with"]["feasible"] > 1:
                line["with"]["node"] = line["with"]["bestNodes"][-1][0]

    file = changed(recorded.recording, tmp_path / "changed", elsewhere)
    assert replay(file, PLUGINS).difference is not None
    notes = Notes()
    followed = Followed(file, notes)
    followed.replay_all()
    made = {decision.attempt: decision.node for decision in followed.made}
    told = {decision.attempt: decision.node for decision in notes.decisions if decision.feasible > 1}
    assert len(told) > 10
    assert {attempt: made[attempt] for attempt in told} == told


def test_followed_recording_has_source_data_at_every_moment(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "recording")
    Simulation(
        [make_node("a"), make_pod("web")],
        parse(alone(changing_plugin())),
        registry=Registry.with_plugins(changing_plugin()),
        engine=recording_pod_engine_factory(recorder),
        observers=[recorder],
    ).run(100)
    recorder.close()
    followed = follow(tmp_path / "recording", Registry.with_plugins(changing_plugin()))
    (source,) = followed.engine.sources
    held = []
    for decision in followed:
        assert isinstance(decision, Decision)
        held.append((dict(source), decision.node))
    assert held[0] == ({"a": 0.9}, "")
    assert held[-1] == ({"a": 0.1, "b": 0.9}, "a")
