"""Runs on workers: the same results however many there are, and whatever dies."""

from __future__ import annotations

import errno
import os
from concurrent.futures import BrokenExecutor, Future
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

from kframework.errors import KFrameworkError
from kframework.simulation.sweep.document import Sweep
from kframework.simulation.sweep.runs import ResultFolder, SweepRun
from kframework.simulation.sweep.summary import format_runs
from kframework.simulation.sweep.workers import local_processes, run_missing
from tests.simulation.sweep.files import SWEEP, SerialExecutor, write_sweep


@pytest.fixture
def runs(tmp_path: Path) -> list[SweepRun]:
    one_cluster = SWEEP.replace("  long: [nodes.yaml, long.yaml]\n", "  none: [nodes.yaml]\n")
    return [*Sweep(str(write_sweep(tmp_path, one_cluster))).runs]


def rows(runs: list[SweepRun], folder: ResultFolder) -> str:
    return format_runs([(run, measures) for run in runs if (measures := folder.read(run)) is not None])


def expected(runs: list[SweepRun], tmp_path: Path) -> str:
    folder = ResultFolder(tmp_path / "expected")
    assert run_missing(runs, folder, SerialExecutor) == []
    text = rows(runs, folder)
    assert text.count("\n") == 1 + len(runs)
    return text


class CountingExecutor(SerialExecutor):
    """Counts what is submitted."""

    submitted = 0

    def submit(self, *arguments: object, **more: object) -> Future[object]:  # type: ignore[override]  # any function
        type(self).submitted += 1
        return super().submit(*arguments, **more)  # type: ignore[arg-type]  # any function


class DyingExecutor(SerialExecutor):
    """Executes one run, and then has lost its workers."""

    is_dead = False

    def submit(self, *arguments: object, **more: object) -> Future[object]:  # type: ignore[override]  # any function
        if self.is_dead:
            raise BrokenExecutor
        self.is_dead = True
        return super().submit(*arguments, **more)  # type: ignore[arg-type]  # any function


class DeadExecutor(DyingExecutor):
    """Has lost its workers before the first run."""

    is_dead = True


def test_rows_are_the_same_in_any_order(runs: list[SweepRun], tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "reversed")
    run_missing(runs[::-1], folder, SerialExecutor)
    assert rows(runs, folder) == expected(runs, tmp_path)


def test_second_start_runs_what_is_missing(
    runs: list[SweepRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountingExecutor, "submitted", 0)
    folder, progress = ResultFolder(tmp_path), list[tuple[int, int]]()
    run_missing(runs[:3], folder, SerialExecutor)
    run_missing(runs, folder, CountingExecutor, lambda *counts: progress.append(counts))
    assert CountingExecutor.submitted == len(runs) - 3
    assert progress == [(done, len(runs)) for done in range(3, len(runs) + 1)]
    run_missing(runs, folder, CountingExecutor)
    assert CountingExecutor.submitted == len(runs) - 3


def test_runs_of_dead_workers_are_executed_again(runs: list[SweepRun], tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "dying")
    assert run_missing(runs, folder, DyingExecutor) == []
    assert rows(runs, folder) == expected(runs, tmp_path)


def test_workers_that_die_before_any_run_ends_are_an_error(runs: list[SweepRun], tmp_path: Path) -> None:
    with pytest.raises(KFrameworkError, match="workers end before any run does"):
        run_missing(runs, ResultFolder(tmp_path), DeadExecutor)


def test_run_that_fails_does_not_keep_others_from_their_results(runs: list[SweepRun], tmp_path: Path) -> None:
    (tmp_path / "short.yaml").unlink()
    folder = ResultFolder(tmp_path)
    errors = run_missing(runs, folder, SerialExecutor)
    assert [str(error).partition(":")[0] for error in errors] == [
        f"{configuration}, short, seed {seed}" for configuration in ("default", "packing") for seed in (1, 2)
    ]
    assert sum(folder.read(run) is not None for run in runs) == len(runs) - 4


def test_full_disk_loses_only_the_run_in_hand(
    runs: list[SweepRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, count = os.fsync, 0

    def is_full_soon(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    folder = ResultFolder(tmp_path / "full")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", is_full_soon)
        with pytest.raises(OSError, match="No space left"):
            run_missing(runs, folder, SerialExecutor)
    assert sum(folder.read(run) is not None for run in runs) == 3
    run_missing(runs, folder, SerialExecutor)
    assert rows(runs, folder) == expected(runs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_are_the_same_on_processes(runs: list[SweepRun], tmp_path: Path, jobs: int) -> None:
    folder = ResultFolder(tmp_path / "processes")
    assert run_missing(runs, folder, partial(local_processes, jobs)) == []
    assert rows(runs, folder) == expected(runs, tmp_path)


@pytest.mark.slow
def test_rows_are_the_same_after_a_worker_was_killed(runs: list[SweepRun], tmp_path: Path) -> None:
    killed = list[int | None]()

    def kill_a_worker(done: int, total: int) -> None:
        if done == 2 and not killed:
            worker = active_children()[0]
            killed.append(worker.pid)
            worker.kill()

    folder = ResultFolder(tmp_path / "killed")
    assert run_missing(runs, folder, partial(local_processes, 2), kill_a_worker) == []
    assert killed and rows(runs, folder) == expected(runs, tmp_path)
