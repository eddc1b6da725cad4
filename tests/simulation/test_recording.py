"""A recording is read and asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import kframework
from kframework import ExplainError, InputError, Recording
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.writer import Recorder
from kframework.testing import make_node, make_pod


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    recorder = Recorder(tmp_path / "run.rec")
    objects = [make_node("a", cpu=1), make_pod("one", cpu=1), make_pod("two", cpu=1)]
    with kframework.Simulation(
        objects, engine=recording_pod_engine_factory(recorder), observers=[recorder]
    ) as simulation:
        simulation.run()
    recorder.close()
    return Recording(tmp_path / "run.rec")


def test_recording_lists_decisions_and_bindings(recording: Recording) -> None:
    assert [(each.pod, each.node) for each in recording.decisions] == [("default/one", "a"), ("default/two", "")]
    assert [each.pod for each in recording.bindings] == ["default/one"]
    assert recording.to_dicts()[1]["result"] == "unschedulable"
    assert recording._repr_html_() == recording.decisions._repr_html_()


def test_recording_explains_a_pod_at_its_end_or_before_an_attempt(recording: Recording) -> None:
    assert recording.explain("one").explanation.node == "a"
    assert recording.explain("one", attempt=1).explanation.node == ""
    assert "Insufficient cpu" in str(recording.explain("default/two"))
    for pod, attempt in (("three", None), ("one", 7)):
        with pytest.raises(ExplainError):
            recording.explain(pod, attempt=attempt)


def test_choice_is_explained_on_the_state_right_before_the_decision(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.rec")
    objects = [make_node("large", cpu=8), make_node("small", cpu=4), make_pod("one", cpu=1), make_pod("two", cpu=3)]
    with kframework.Simulation(
        objects, engine=recording_pod_engine_factory(recorder), observers=[recorder]
    ) as simulation:
        at_the_end = simulation.run().explain("one").explanation.choice
    recorder.close()
    recording = Recording(tmp_path / "run.rec")
    choice = recording.explain("one").explanation.choice
    assert choice is not None and at_the_end is not None
    assert choice.at_decision and (choice.total, choice.runner_up_total) == (choice.score, choice.runner_up_score)
    assert not at_the_end.at_decision and at_the_end.total != choice.total
    assert recording.explain("one", attempt=1).explanation.choice == choice
    assert recording.explain("two", attempt=1).explanation.choice is None


def test_recording_is_replayed(recording: Recording) -> None:
    replayed = recording.replay()
    assert (replayed.attempts, replayed.difference) == (2, None)


def test_file_that_is_not_a_recording_raises(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing\n")
    with pytest.raises(InputError):
        Recording(tmp_path / "x").replay()
