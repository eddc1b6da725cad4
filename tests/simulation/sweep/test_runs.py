"""A run in a worker, and the folder of results."""

from __future__ import annotations

import errno
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from kframework.simulation.sweep.document import Sweep
from kframework.simulation.sweep.runs import ResultFolder, RunError, execute
from tests.simulation.sweep.files import SWEEP, write_sweep


def test_run_has_the_seed_and_the_duration_of_the_sweep(tmp_path: Path) -> None:
    first, second, *_ = Sweep(str(write_sweep(tmp_path, SWEEP.replace("10m", "30s")))).runs
    measures = execute(first)
    assert (measures.seconds, measures.pods) == (30, 5)
    assert execute(first) == measures
    runs = [replace(second, seed=seed, duration=600.0) for seed in range(3)]
    assert len({execute(run) for run in runs}) > 1


def test_run_reaches_a_worker_as_it_is(tmp_path: Path) -> None:
    run = Sweep(str(write_sweep(tmp_path))).runs[-1]
    assert execute(pickle.loads(pickle.dumps(run))) == execute(run)


def test_cluster_that_has_changed_is_an_error(tmp_path: Path) -> None:
    run = Sweep(str(write_sweep(tmp_path))).runs[0]
    (tmp_path / "short.yaml").write_text((tmp_path / "long.yaml").read_text())
    with pytest.raises(RunError, match="default, short, seed 1: the files of the cluster have changed"):
        execute(run)


def test_error_of_a_run_can_be_sent(tmp_path: Path) -> None:
    run = Sweep(str(write_sweep(tmp_path))).runs[0]
    (tmp_path / "nodes.yaml").unlink()
    with pytest.raises(RunError) as raised:
        execute(run)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert "No such file or directory" in str(raised.value)


def test_notices_of_a_cluster_are_not_printed_by_each_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_sweep(tmp_path)
    with (tmp_path / "nodes.yaml").open("a") as nodes:
        nodes.write("---\n{apiVersion: example.com/v1, kind: Unknown, metadata: {name: a}}\n")
    execute(Sweep(str(file)).runs[0])
    assert capsys.readouterr().err == ""


def test_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    run, other, *_ = Sweep(str(write_sweep(tmp_path))).runs
    measures = execute(run)
    ResultFolder(tmp_path / "new" / "folder").write(run, measures)
    folder = ResultFolder(tmp_path / "new" / "folder")
    assert (folder.read(run), folder.read(other)) == (measures, None)


def test_damaged_result_is_none(tmp_path: Path) -> None:
    run = Sweep(str(write_sweep(tmp_path))).runs[0]
    folder = ResultFolder(tmp_path)
    folder.write(run, execute(run))
    (file,) = (tmp_path / "runs").iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert folder.read(run) is None


def test_full_disk_leaves_no_part_of_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run = Sweep(str(write_sweep(tmp_path))).runs[0]
    folder = ResultFolder(tmp_path)
    measures = execute(run)
    monkeypatch.setattr(os, "fsync", is_full)
    with pytest.raises(OSError, match="No space left"):
        folder.write(run, measures)
    assert [*(tmp_path / "runs").iterdir()] == []
