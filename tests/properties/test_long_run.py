"""The long form of the runs under faults, in short: worlds of both engines, side by side, interrupted, gone on with."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.observe.recording.replay import replay
from kframework.scheduler.outbox import Outbox
from tests.architecture.sources import ROOT
from tests.faults import batch_run, pod_run
from tests.faults.parallel_worlds import FinishedWorld
from tests.faults.run_settings import random_settings
from tests.faults.summary import GROWTH, KINDS, WARM, Summary
from tests.faults.worlds import Engine, WorldOrder, WorldResult, engine_of, run_world
from tests.support.scale import seeds

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", seeds(2, start=6))
def test_invariants_hold_across_scheduler_restarts(seed: int, tmp_path: Path) -> None:
    report = pod_run.run(seed, random_settings(seed, 60), tmp_path)
    assert not report.problems, str(report)
    assert report.troubles and len(report.recordings) > 1


@pytest.mark.parametrize("seed", seeds(2))
def test_invariants_hold_for_batch_engines(seed: int, tmp_path: Path) -> None:
    report = batch_run.run(seed, random_settings(seed, 40), tmp_path)
    assert not report.problems, str(report)
    assert report.faults.total() > 10 and report.bindings > 10
    again = [replay(recording) for recording in report.recordings]
    assert [each.difference for each in again] == [None] * len(again)
    assert sum(len(each.compared["session"]) for each in again) == report.troubles["sessions"] > 10


def test_failing_services_are_logged(tmp_path: Path) -> None:
    logging.disable(logging.CRITICAL)
    try:
        world = run_world(WorldOrder(39, "outside", 24, str(tmp_path)))
    finally:
        logging.disable(logging.NOTSET)
    assert not world.problems and world.counts["trouble: outside: reserve wrong"]


def deaf(self: SchedulingQueue, *event: object) -> None:
    return None


def test_lost_wake_up_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SchedulingQueue, "move_on_event", deaf)
    reports = [pod_run.run(seed, pod_run.RunSettings(pause=3.0), tmp_path) for seed in range(2)]
    assert any("though it fits on" in str(report) for report in reports)


def silent(self: Outbox, event: object) -> None:
    return None


def test_missing_event_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Outbox, "record", silent)
    report = pod_run.run(0, pod_run.RunSettings(pods=10), tmp_path)
    assert "0 events say that" in str(report)


def test_parallel_and_resumed_worlds_are_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    assert "0  worlds failed" in long_run(first, "--workers", "1")
    results = first / "results.jsonl"
    worlds = results.read_bytes().splitlines(keepends=True)
    second.mkdir()
    (second / "results.jsonl").write_bytes(worlds[0])
    said = long_run(second, "--workers", "2", "--resume")
    assert "fault: connection refused" in said and "0  worlds failed" in said
    assert stories(second)[: len(worlds)] == stories(first)


def long_run(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "tests.faults", "--pods", "24", "--world", "8", "--folder", str(folder), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout


def stories(folder: Path) -> list[tuple[int, str]]:
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    finished = [msgspec.json.decode(line, type=FinishedWorld) for line in lines]
    return sorted((each.order.seed, each.result.history) for each in finished if each.result is not None)


def test_seeds_select_worlds() -> None:
    engines = [engine_of(seed, "both") for seed in range(40)]
    assert {engines.count("pod"), engines.count("batch"), engines.count("outside")} == {33, 5, 2}
    assert {engine_of(seed, "pod") for seed in range(40)} == {"pod", "outside"}
    assert {engine_of(seed, "batch") for seed in range(40)} == {"batch"}


def finished(
    seed: int, objects: int = 1000, problems: list[str] | None = None, engine: Engine = "pod"
) -> FinishedWorld:
    result = WorldResult(
        seed=seed,
        engine=engine,
        pods=10,
        bindings=9,
        attempts=12,
        counts={"fault: lost": 2},
        virtual=100.0,
        seconds=0.5,
        objects=objects,
        peak=2048,
        history="",
        recordings=[],
        problems=problems or [],
    )
    return FinishedWorld(WorldOrder(seed, engine, 10, ""), 0, result, result.problems)


def test_summary_counts_runs_and_names_failures() -> None:
    summary = Summary()
    for seed in range(3):
        summary.add(finished(seed, problems=["a pod is lost"] if seed == 1 else []))
    summary.add(FinishedWorld(WorldOrder(7, "batch", 10, ""), 0, None, ["does not end within 300 s"]))
    said = str(summary)
    assert summary.failures == {1: ["a pod is lost"], 7: ["does not end within 300 s"]}
    assert "30  pods" in said and "6  fault: lost" in said and "2  worlds failed: seeds [1, 7]" in said
    assert len(summary.missing_kinds) == len(KINDS) - 1 and "fault: lost" not in summary.missing_kinds
    assert "50.00  ms of CPU for a pod of a world of pod" in said


@pytest.mark.parametrize(("last", "grown"), [(1000, False), (round(1000 * GROWTH) + 1, True)])
def test_growing_process_is_reported(last: int, grown: bool) -> None:
    summary = Summary()
    for seed in range(2 * WARM + 4):
        summary.add(finished(seed, objects=1000 if seed < 2 * WARM else last))
    assert bool(summary.growing) is grown
