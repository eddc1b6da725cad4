"""A recording of the batch engine holds everything to rebuild it, and a replay decides the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kframework_batch.account import SessionAccount, SessionHistory
from kframework_batch.config import parse
from kframework_batch.program import compile_program
from kframework_batch.recording import ENGINES, recording_factory
from kframework_batch.scenario import make_job
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation
from kframework_batch.testing import make_queue

from kframework import ConfigError
from kframework.core.cycle.records import Decision
from kframework.errors import InputError
from kframework.observe.history import History
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.simulation.recording import Recording
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node
from tests.faults.recording_lines import Line, changed, lines_of, nth

CONFIGURATION = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""

#: Of both values, one is read and one is nobody's business.
ANNOTATIONS = {"sla-waiting-time": "5s", "kubectl.kubernetes.io/last-applied-configuration": "hunter2"}


def record(file: Path, *annotations: str, program: str = CONFIGURATION) -> Path:
    """Record a simulation in which jobs wait for each other."""
    settings = ProgramSettings(compile_program(parse(program)), ("volcano", "other"), "leftover", period=0.5, seed=7)
    recorder = Recorder(file, annotations=annotations)
    jobs = [make_job(f"job-{number}", 2, cpu=2, queue="q", seconds=3.0 + number) for number in range(4)]
    for job in jobs:
        job.metadata.annotations.update(ANNOTATIONS)
    objects = [make_queue("q"), *(make_node(name, cpu=4) for name in ("a", "b")), *jobs]
    with create_simulation(
        objects, settings, observers=[recorder], engine=recording_factory(settings, recorder)
    ) as simulation:
        simulation.run(60.0)
    recorder.close()
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recorded") / "run.rec", *ENGINES.annotations)


def test_header_has_the_settings_of_the_engine(file: Path) -> None:
    header = RecordingReader(file).header
    assert (header.engine, header.part) == ("batch", 1)
    assert header.distribution.startswith("kframework-batch ")
    assert json.loads(header.configuration) == {
        "program": CONFIGURATION,
        "schedulerNames": ["volcano", "other"],
        "defaultQueue": "leftover",
        "period": 0.5,
        "seed": 7,
    }


def test_recording_replays_to_the_same_decisions(file: Path) -> None:
    told = [line["what"] for line in lines_of(file)[1:]]
    result = replay(file)
    assert result.difference is None and not result.cut_off
    assert (result.steps, result.attempts) == (told.count("Step"), told.count("Decision"))
    sessions = len(result.compared["session"])
    assert sessions == told.count("SessionAccount")
    assert result.attempts >= 8 and sessions > 4


def test_recording_omits_private_data_and_contains_what_is_read(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert "hunter2" not in str(lines_of(file)) and "'5s'" in str(lines_of(file))
    assert replay(record(tmp_path / "run.rec")).difference is not None
    assert "record with --record-annotations 'sla-waiting-time'" in caplog.text


def test_missing_plugin_is_named(file: Path, tmp_path: Path) -> None:
    def rename(lines: list[Line]) -> None:
        lines[0]["configuration"] = lines[0]["configuration"].replace("nodeorder", "noteorder")

    with pytest.raises(ConfigError, match="unknown plugin 'noteorder'"):
        replay(changed(file, tmp_path / "changed", rename))


def other_node(lines: list[Line]) -> None:
    placed = next(
        verdict
        for line in lines
        if line.get("what") == "SessionAccount"
        for turn in line["with"].get("turns", ())
        for verdict in turn.get("verdicts", ())
        if verdict.get("node")
    )
    placed["node"] = "elsewhere"


def other_queue(lines: list[Line]) -> None:
    lines[nth(lines, "SessionAccount", 1)]["with"]["queues"][0]["weight"] = 9


def one_more(lines: list[Line]) -> None:
    place = nth(lines, "SessionAccount", 1)
    lines.insert(place, lines[place])


def one_less(lines: list[Line]) -> None:
    del lines[nth(lines, "SessionAccount", 1)]


def no_decision(lines: list[Line]) -> None:
    del lines[nth(lines, "Decision", 0)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (other_node, "].node '"),
        (other_queue, "session 2 got queues[0].weight 1, not 9"),
        (one_more, "session 2 is in the recording only"),
        (one_less, "session 2 is in the replay only"),
        (no_decision, "got attempt 1, not 2"),
    ],
)
def test_planted_difference_is_found(
    file: Path, tmp_path: Path, change: Callable[[list[Line]], None], told: str
) -> None:
    difference = replay(changed(file, tmp_path / "changed", change)).difference
    assert difference is not None and told in str(difference)


def test_measured_durations_may_differ(file: Path, tmp_path: Path) -> None:
    def slower(lines: list[Line]) -> None:
        for line in lines:
            if line.get("what") == "SessionAccount":
                line["with"] |= {"started": 1, "parts": []}

    assert replay(changed(file, tmp_path / "changed", slower)).difference is None


def test_state_after_replay_is_that_after_the_session(file: Path) -> None:
    history, sessions = History(), SessionHistory()
    told = Recording(file).replay_to(ENGINES, observers=[history, sessions])
    for uid in ("1", "3"):
        account = told.replay_until(lambda made, uid=uid: isinstance(made, SessionAccount) and made.uid == uid)  # type: ignore[misc]  # of the loop
        assert isinstance(account, SessionAccount) and account.uid == uid
        assert told.engine.sessions == int(uid) and told.clock.now() >= account.at
        assert not told.engine.cluster.statements, "the session is over"
    decision = told.replay_until(lambda made: isinstance(made, Decision))
    assert isinstance(decision, Decision)
    result = told.replay_all()
    assert result == replay(file) and told.replay_until(lambda made: True) is None
    assert len(history.recent(history.max_records)) == result.attempts
    assert len(sessions) == len(result.compared["session"])


def test_decisions_and_bindings_are_available_as_tables(file: Path) -> None:
    recording = Recording(file)
    assert len(recording.decisions) == replay(file).attempts
    accounts = recording.accounts(ENGINES)
    assert [each.uid for each in accounts if isinstance(each, SessionAccount)] == [
        f"{number}" for number in range(1, len(accounts) + 1)
    ]
    assert len(recording.bindings) == [line["what"] for line in lines_of(file)[1:]].count("Binding")


def test_recording_of_another_engine_is_rejected(tmp_path: Path) -> None:
    pods = tmp_path / "pods.rec"
    recorder = Recorder(pods)
    Simulation([make_node("a")], engine=recording_pod_engine_factory(recorder), observers=[recorder]).run()
    recorder.close()
    with pytest.raises(InputError, match="is a recording of the pod engine and not of the engine 'batch'"):
        Recording(pods).replay_to(ENGINES)
