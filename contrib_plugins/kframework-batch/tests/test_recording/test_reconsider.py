"""Recorded sessions are replayed with another configuration on the state as it was, and nothing comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from kframework_batch.config import parse
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.program import BatchRegistry, compile_program
from kframework_batch.recording import ENGINES, BatchEngines, ReconsideredEngine, reconsider, recording_factory
from kframework_batch.scenario import make_job
from kframework_batch.session_view import SessionView
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation
from kframework_batch.testing import make_queue

from kframework import ConfigError, NodeInfo, Status, unschedulable
from kframework.objects import ApiObject, ObjectMeta, PriorityClass
from kframework.observe.recording.diff import ReplayResult
from kframework.observe.recording.writer import Recorder
from kframework.simulation.controllers import ControllerFactory
from kframework.simulation.recording import Recording
from kframework.testing import make_node
from tests.faults.recording_lines import Line, changed, nth
from tests.support.batch_runs import Latecomer

PLAIN = """
actions: "allocate"
tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]}]
"""
NO_GANG = PLAIN.replace("{name: gang}, ", "")
PACKED = PLAIN.replace("{name: nodeorder}", "{name: binpack}")
ALL_IN = PLAIN.replace('"allocate"', '"enqueue, allocate"')
SOME_IN = ALL_IN.replace("{name: nodeorder}", "{name: overcommit}")
PREEMPTING = PLAIN.replace('"allocate"', '"allocate, preempt"')
LESS = PLAIN.replace("{name: nodeorder}", "{name: nothere}")
FAILING = PLAIN.replace("{name: nodeorder}", "{name: fails}")


class NotHere(BatchPlugin):
    """Keep everybody off a node."""

    name = "nothere"

    @hookimpl
    def predicate(self, session: SessionView, task: object, node: NodeInfo) -> Status | None:
        return unschedulable("not here") if node.name == "b" else None

    def sign(self, session: SessionView, task: object) -> str:
        return ""


class Fails(BatchPlugin):
    """Raise where a session opens."""

    name = "fails"

    @hookimpl
    def on_session_open(self, session: SessionView) -> None:
        raise ZeroDivisionError("no")


def run_and_record(
    file: Path, program: str, jobs: Iterable[ApiObject], controllers: Iterable[ControllerFactory] = (), seed: int = 0
) -> Path:
    """Record a simulation on two nodes."""
    settings = ProgramSettings(compile_program(parse(program)), seed=seed)
    recorder = Recorder(file, annotations=ENGINES.annotations)
    objects = [make_queue("q"), *(make_node(name, cpu=4) for name in ("a", "b")), *jobs]
    with create_simulation(
        objects, settings, observers=[recorder], engine=recording_factory(settings, recorder), controllers=controllers
    ) as simulation:
        simulation.run(30.0)
    recorder.close()
    return file


def asked(file: Path, program: str) -> ReplayResult:
    registry = BatchRegistry.with_classes(NotHere, Fails)
    return reconsider(Recording(file), BatchEngines(ReconsideredEngine), compile_program(parse(program), registry))


def kinds(result: ReplayResult) -> list[tuple[str, str, str, str]]:
    return [
        (each.subject.removeprefix("default/"), each.recorded_text, each.replayed_text, each.kind)
        for each in result.differences
    ]


TWO_GANGS = [make_job(name, 3, cpu=2, queue="q") for name in ("first", "second")]
TWO_PODS = [make_job(name, 1, cpu=2, queue="q") for name in ("first", "second")]
ELASTIC = [make_job("first", 3, cpu=2, queue="q", minimum=1)]
LARGE = [make_job("large", 9, cpu=2, queue="q")]
LOW = [
    PriorityClass(metadata=ObjectMeta(name="high"), value=1000),
    make_job("low", 4, cpu=2, queue="q", minimum=1),
]


@pytest.mark.parametrize(
    ("program", "jobs", "other", "difference"),
    [
        pytest.param(PLAIN, TWO_GANGS, NO_GANG, ("second", "discarded", "1 bound", "served now"), id="served now"),
        pytest.param(NO_GANG, TWO_GANGS, PLAIN, ("second", "1 bound", "discarded", "served no more"), id="no more"),
        pytest.param(PLAIN, TWO_PODS, PACKED, ("second", "1 bound", "1 bound", "other nodes"), id="other nodes"),
        pytest.param(PLAIN, ELASTIC, LESS, ("first", "3 bound", "2 bound", "fewer tasks"), id="fewer tasks"),
        pytest.param(PLAIN, LARGE, LESS, ("large", "discarded", "discarded", "other reasons"), id="other reasons"),
        pytest.param(ALL_IN, LARGE, SOME_IN, ("large", "invalid", "held back", "held back now"), id="held back"),
        pytest.param(SOME_IN, LARGE, ALL_IN, ("large", "held back", "invalid", "let in now"), id="let in"),
    ],
)
def test_differences_are_reported(
    tmp_path: Path, program: str, jobs: list[ApiObject], other: str, difference: tuple[str, ...]
) -> None:
    result = asked(run_and_record(tmp_path / "run.rec", program, jobs), other)
    assert difference in kinds(result)
    assert {kind for *_, kind in kinds(result)} <= {difference[-1], "other reasons"}
    assert (list(result.compared), result.cut_off) == (["session"], False)
    assert {(each.record, each.subject_kind) for each in result.differences} == {("session", "job")}


def test_different_victims_are_reported(tmp_path: Path) -> None:
    file = run_and_record(tmp_path / "run.rec", PLAIN, LOW, [Latecomer])
    (first, *_) = asked(file, PREEMPTING).differences
    assert (first.subject, first.kind) == ("default/late", "other victims")
    assert (first.recorded_text, first.replayed_text) == ("discarded", "2 evicted")
    assert first.message.count("default/low-worker-") == 2


def test_session_that_fails_now_is_reported(tmp_path: Path) -> None:
    result = asked(run_and_record(tmp_path / "run.rec", PLAIN, TWO_PODS), FAILING)
    assert {each.kind for each in result.differences} == {"fails now"}
    assert [each.name for each in result.differences] == result.compared["session"]
    assert "ZeroDivisionError" in result.differences[0].message


def test_differences_have_reasons_and_turns(tmp_path: Path) -> None:
    file = run_and_record(tmp_path / "run.rec", PLAIN, TWO_GANGS)
    (first, *_) = asked(file, NO_GANG).differences
    assert (first.name, first.message) == ("2", "0/2 nodes are available: 2 Insufficient cpu")
    before, now = (json.loads(msgspec.json.encode(each)) for each in (first.recorded, first.replayed))
    assert [turn["outcome"] for turn in before] == ["discarded"]
    assert [verdict.get("node", "") != "" for turn in now for verdict in turn["verdicts"]].count(True) == 1
    nodes = asked(run_and_record(tmp_path / "other.rec", PLAIN, TWO_PODS), PACKED).differences[0].message
    assert nodes in ("default/second-worker-0: a, not b", "default/second-worker-0: b, not a")


@pytest.mark.parametrize("seed", range(6))
def test_random_choices_make_no_difference(tmp_path: Path, seed: int) -> None:
    jobs = [make_job(f"job-{number}", 1 + number % 2, cpu=1, queue="q", seconds=2.0) for number in range(6)]
    result = asked(
        run_and_record(tmp_path / "run.rec", PLAIN, jobs, seed=seed), PLAIN.replace("tiers", "# as it was\ntiers")
    )
    assert result.differences == () and len(result.compared["session"]) > 3


def test_reconsidering_leaves_no_trace(tmp_path: Path) -> None:
    """Each line is independent: the recorded message is the next one."""
    file = run_and_record(tmp_path / "run.rec", PLAIN, LOW, [Latecomer])
    sessions = len(Recording(file).accounts(ENGINES))
    for other in (PREEMPTING, NO_GANG, PACKED, LESS, FAILING, SOME_IN):
        assert len(asked(file, other).compared["session"]) == sessions


def test_reconsidering_requires_an_exact_replay(tmp_path: Path) -> None:
    def heavier(lines: list[Line]) -> None:
        lines[nth(lines, "SessionAccount", 0)]["with"]["queues"][0]["weight"] = 9

    file = changed(run_and_record(tmp_path / "run.rec", PLAIN, TWO_PODS), tmp_path / "changed", heavier)
    with pytest.raises(ConfigError, match=r"the recorded configuration does not decide as it did: line .* not 9"):
        asked(file, NO_GANG)


def test_configuration_file_is_reconsidered(tmp_path: Path) -> None:
    config = tmp_path / "other.conf"
    config.write_text(NO_GANG)
    result = ENGINES.reconsider(run_and_record(tmp_path / "run.rec", PLAIN, TWO_GANGS), str(config))
    assert {each.kind for each in result.differences} == {"served now"}
