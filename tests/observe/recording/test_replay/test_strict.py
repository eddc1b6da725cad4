"""A strict replay decides the same in another process, and ends at the first decision that differs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kframework import Plugin, Status, hookimpl, unschedulable
from kframework.config.load import parse
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.observe.recording import reader, writer
from kframework.observe.recording.pod_engine import PodEngineKind, recording_pod_engine_factory
from kframework.observe.recording.replay import Replay, replay
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.extenders import Extenders
from kframework.simulation.simulation import Simulation
from kframework.state.inbox import Synced, Upserted
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone
from tests.faults.pod_run import PLUGINS, Report, RunSettings, run
from tests.faults.recording_lines import Line, changed, lines_of, nth
from tests.faults.repetition import Repetition, repeat_in_process
from tests.observe.recording.rig import RecordedRun
from tests.support.scale import seeds
from tests.support.source_plugins import changing_plugin

#: How many random runs are replayed.

SHAPE = RunSettings(pods=40, pause=4.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(1, SHAPE, tmp_path_factory.mktemp("recorded"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_replay_in_another_process_decides_the_same(seed: int, tmp_path: Path) -> None:
    report = run(seed, SHAPE, tmp_path)
    assert report.attempts > SHAPE.pods
    result = repeat_in_process(report.recording, **os.environ, PYTHONHASHSEED=str(seed + 1))
    assert result == Repetition(report.attempts, None, report.attempts, [])


class Noting(PodEngineKind[PodEngine]):
    """Makes pod engines, and notes their time at each message."""

    def __init__(self) -> None:
        super().__init__(PodEngine, Registry.with_plugins())
        self.moments: list[float] = []

    def apply_line(self, engine: PodEngine, recorded: reader.RecordingReader, line: writer.Line) -> None:
        super().apply_line(engine, recorded, line)
        self.moments.append(engine.clock.now())


def test_replay_engine_has_the_recorded_time_and_state_after_each_line(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "recording")
    run.engine.offer(Upserted(make_node("a")))
    run.engine.offer(Synced())
    run.engine.apply_messages()
    written = run.lines()
    kind = Noting()
    told = Replay(reader.RecordingReader(run.file), kind)
    assert told.clock.now() == written[0]["at"]
    told.replay_all()
    assert kind.moments == [line["at"] for line in written[1:] if line["what"] != "CatchUp"]
    assert told.clock.now() == told.engine.clock.now() == written[-1]["at"]
    assert told.engine.synced and [node.name for node in told.engine.cluster.nodes] == ["a"]


def test_observers_receive_all_replayed_records(recorded: Report) -> None:
    told = [line["what"] for line in lines_of(recorded.recording)[1:]]
    result = replay(recorded.recording, PLUGINS)
    assert result.steps == told.count("Step")
    assert result.attempts == told.count("Decision") == recorded.attempts
    assert {"ActivateRequested", "Nominated", "AnswersInvalidated", "BindingStarted", "BindingEnded", "Deleted"} < set(
        told
    )
    assert {"PermitAllowed", "PermitDecided"} < set(told)


def other_node(lines: list[Line]) -> None:
    lines[nth(lines, "Decision", 7)]["with"]["message"] = "elsewhere"


def one_more(lines: list[Line]) -> None:
    place = nth(lines, "Decision", 7)
    lines.insert(place, lines[place])


def one_less(lines: list[Line]) -> None:
    del lines[nth(lines, "Decision", 7)]


def last_one_less(lines: list[Line]) -> None:
    place = nth(lines, "Decision", -1)
    del lines[place:]


@pytest.mark.parametrize(
    ("change", "compared", "told"),
    [
        (other_node, 8, "got message "),
        (one_more, 8, "is in the recording only"),
        (one_less, 7, "is in the replay only"),
        (last_one_less, None, "is in the replay only"),
    ],
)
def test_strict_replay_reports_a_different_decision(
    recorded: Report, tmp_path: Path, change: Callable[[list[Line]], None], compared: int | None, told: str
) -> None:
    result = replay(changed(recorded.recording, tmp_path / "changed", change), PLUGINS)
    assert result.difference is not None
    assert told in str(result.difference)
    assert result.attempts == (recorded.attempts - 1 if compared is None else compared)


def test_measured_fields_are_not_compared(recorded: Report, tmp_path: Path) -> None:
    def slower(lines: list[Line]) -> None:
        for line in lines:
            if line.get("what") == "Decision":
                line["with"] |= {"started": 0, "timings": []}

    assert replay(changed(recorded.recording, tmp_path / "changed", slower), PLUGINS).difference is None


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.8])
def test_recording_of_a_killed_writer_is_replayed_to_its_last_whole_line(
    recorded: Report, tmp_path: Path, kept: float
) -> None:
    data = recorded.recording.read_bytes()
    file = tmp_path / "short"
    file.write_bytes(data[: int(len(data) * kept)])
    result = replay(file, PLUGINS)
    assert result.difference is None
    assert 0 < result.attempts < recorded.attempts


@pytest.mark.parametrize("kept", [0.2, 0.5])
def test_replay_result_says_that_the_recording_is_cut_off(recorded: Report, tmp_path: Path, kept: float) -> None:
    assert not replay(recorded.recording, PLUGINS).cut_off
    file = tmp_path / "short"
    file.write_bytes(recorded.recording.read_bytes()[: int(recorded.recording.stat().st_size * kept)])
    assert replay(file, PLUGINS).cut_off


class Clock:
    """A clock that is set."""

    def __init__(self, moment: float) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment


def test_replayed_queue_has_the_recorded_times(tmp_path: Path) -> None:
    """The pool of unschedulable pods is looked through every 30 s from then on."""
    recorder, clock = Recorder(tmp_path / "recording"), Clock(1007.5)
    host = Host()
    host.report_decision = recorder.on_decision  # type: ignore[method-assign]  # as a scheduler's observer is told
    configuration = parse(alone(Never))
    profiles = profiles_factory(configuration, Registry.with_plugins(Never), host)
    engine = recording_pod_engine_factory(recorder)(configuration, clock, host, Extenders(), profiles)
    for message in (Upserted(make_node("a")), Upserted(make_pod("p")), Synced()):
        engine.offer(message)
    engine.step()
    flush = engine.deadline
    assert flush is not None
    for moment in (flush - 1.0, flush):
        clock.moment = moment
        engine.step()
    recorder.close()
    assert engine.attempts == 2
    result = replay(tmp_path / "recording", Registry.with_plugins(Never))
    assert (result.difference, result.attempts) == (None, 2)


class Never(Plugin):
    """Fit no pod anywhere."""

    name = "Never"

    @hookimpl
    def filter(self, state: object, pod: object, node: object) -> Status:
        return unschedulable("never")


def test_source_data_come_from_the_recording(tmp_path: Path) -> None:
    recorder, asked = Recorder(tmp_path / "recording"), list[str]()
    registry = Registry.with_plugins(changing_plugin())
    pods = [make_pod("web"), make_pod("big", cpu=64)]
    Simulation(
        [make_node("a", cpu=4), *pods],
        parse(alone(changing_plugin())),
        registry=registry,
        engine=recording_pod_engine_factory(recorder),
        observers=[recorder],
    ).run(400)
    recorder.close()
    told = [line for line in lines_of(tmp_path / "recording")[1:] if line["what"].startswith("Source")]
    assert [line["what"] for line in told[:6]] == ["SourceChanged"] * 4 + ["SourceFailed"] * 2
    assert told[2]["with"]["values"] == {"a": 0.1, "b": 0.9}
    result = replay(tmp_path / "recording", Registry.with_plugins(changing_plugin(asked=asked)))
    assert result.difference is None
    assert result.attempts >= 3
    assert asked == []
