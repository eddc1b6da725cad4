"""The table of targets: every row is measured in its tiny form, and every workload of ours is in a row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks import batch, group_turns, over_http, targets, whole_commands
from benchmarks.cases import WORKLOADS
from benchmarks.targets import (
    ROWS,
    TINY,
    Row,
    at_least,
    at_most,
    describe_machine,
    main,
    select_rows,
)
from kframework.testing.scheduler_perf.benchmark import WorkloadResult, run
from kframework.testing.scheduler_perf.definitions import Definition, read
from kframework.testing.scheduler_perf.measurement import Measurement, Percentiles
from kframework.testing.scheduler_perf.workload_run import ProgressCallback

pytestmark = pytest.mark.slow


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_is_measured(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "benchmark", run)  # in this process: those of their own take a second each to start
    assert math.isfinite(row.measure(TINY))


def test_failed_row_takes_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(definition: Definition, config: str | None, tell: ProgressCallback) -> WorkloadResult:
        return WorkloadResult(name="Basic/5", failed="why\nand where")

    monkeypatch.setattr(targets, "benchmark", fails)
    main(["basic", "all-nodes"], replace(TINY, rounds=2, posted=11))
    *_, basic, all_nodes, _, last = capsys.readouterr().out.splitlines()
    assert basic.endswith("≥ 17,000 pods/s  not measured: RuntimeError: Basic/5: why")
    assert all_nodes.startswith("all-nodes") and last == "0 of 2 targets reached"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Answer without measuring, and note which workloads were called for."""
    names: set[str] = set()

    def benchmark(definition: Definition, config: str | None, tell: ProgressCallback) -> WorkloadResult:
        names.add(definition.name)
        return WorkloadResult(name=definition.name, measurements=(MEASUREMENT,))

    def simulate(nodes: int, pods: int) -> whole_commands.SimulationCost:
        return whole_commands.SimulationCost(seconds=pods / 8_000, mb=pods)

    monkeypatch.setattr(targets, "benchmark", benchmark)
    monkeypatch.setattr(group_turns, "longest_turn", lambda case, label: 1.5)
    monkeypatch.setattr(whole_commands, "simulate", simulate)
    monkeypatch.setattr(whole_commands, "simulate_trace", simulate)
    monkeypatch.setattr(whole_commands, "first_answer", lambda: 0.4)
    monkeypatch.setattr(whole_commands, "run", lambda nodes, pods: whole_commands.Run(first_binding=1.25, mb=140.0))
    monkeypatch.setattr(over_http, "measure", lambda pods, rounds: (300.0, 390.0))
    monkeypatch.setattr(batch, "session", lambda gangs, size, nodes: batch.Timing(seconds=0.5, placed=8_400, longest=1))
    yield names


MEASUREMENT = Measurement(
    name="",
    pods=10,
    pods_per_second=1.0,
    throughput=None,
    cycle_us=Percentiles.from_figures([2_100.0]),
    attempts={},
    attempt_ms={},
    extension_points_ms={},
    cpu_us_per_pod=100.0,
    peak_mib=1.0,
)


@pytest.mark.long
@pytest.mark.parametrize(("label", "seed"), [("integration-test", 3), ("performance", 4)])
def test_every_workload_is_in_a_row(called: set[str], label: str, seed: int) -> None:
    main(scale=replace(TINY, label=label, rounds=seed))
    assert called == {each.name for each in read([str(WORKLOADS)]) if label in each.labels}


def test_table_shows_targets_measurements_and_ratios(called: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    names = [
        "all-nodes",
        "many-templates",
        "growth",
        "batch",
        "simulate",
        "simulate-m*",
        "run*",
        "over-http",
        "devices-nowhere",
    ]
    main(names, replace(TINY, rounds=5))
    first, _, header, *rows, _, last = capsys.readouterr().out.splitlines()
    assert first.startswith("CPython 3.") and "load average" in first
    assert header.split() == ["row", "what", "target", "measured", "ratio"]
    assert [(row.split()[0], *row.split()[-6:]) for row in rows] == [
        ("all-nodes", "≥", "15,000", "pods/s", "10,000", "pods/s", "0.67"),
        ("many-templates", "≥", "4,000", "pods/s", "10,000", "pods/s", "2.50"),
        ("devices-nowhere", "≤", "2.00", "ms", "2.10", "ms", "0.95"),
        ("growth", "≤", "1.10", "x", "1.00", "x", "1.10"),
        ("batch", "≥", "14,000", "pods/s", "16,800", "pods/s", "1.20"),
        ("simulate", "≤", "3.40", "s", "0.00", "s", "2720.00"),
        ("simulate-many", "≤", "16.00", "s", "0.00", "s", "6400.00"),
        ("simulate-memory", "≤", "650", "MB", "20", "MB", "32.50"),
        ("run", "≤", "1.00", "s", "1.25", "s", "0.80"),
        ("run-memory", "≤", "150", "MB", "140", "MB", "1.07"),
        ("over-http", "≤", "1.20", "x", "1.30", "x", "0.92"),
    ]
    assert last == "7 of 11 targets reached"


@pytest.mark.parametrize(
    ("target", "measured", "ratio"),
    [
        (at_least(700), 350.0, 0.5),
        (at_least(700), 700.0, 1.0),
        (at_most(1.2, "s"), 1.2, 1.0),
        (at_most(1.2, "s"), 2.4, 0.5),
    ],
    ids=str,
)
def test_ratio_below_one_misses_the_target(target: targets.Target, measured: float, ratio: float) -> None:
    assert target.ratio(measured) == ratio


def test_rows_are_selected_by_name() -> None:
    assert [row.name for row in select_rows(["run*", "basic"])] == ["basic", "run", "run-memory"]
    assert select_rows([]) == list(ROWS)
    with pytest.raises(LookupError, match="no row fast; rows: basic, all-nodes"):
        select_rows(["basic", "fast"])


def test_build_of_python_is_printed() -> None:
    assert "numpy" in describe_machine()
