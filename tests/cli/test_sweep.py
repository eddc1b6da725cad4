"""`kframework sweep`."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kframework.simulation.sweep import workers
from tests.cli.conftest import Command
from tests.cli.processes import MAIN
from tests.simulation.sweep.files import SWEEP, SerialExecutor, write_sweep

#: One that shows a difference: the packing configuration leaves less room where no pod fits.
ONE_CLUSTER = SWEEP.replace("  short: [nodes.yaml, short.yaml]\n", "")


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "local_processes", lambda jobs: SerialExecutor())
    monkeypatch.setattr(gc, "collect", lambda: 0)  # in a process with many tests it takes seconds


@pytest.mark.usefixtures("in_this_process")
def test_sweep_prints_means_and_writes_tables(run: Command, tmp_path: Path) -> None:
    file = write_sweep(tmp_path, ONE_CLUSTER)
    result = run("sweep", file, "--output", tmp_path / "out")
    assert (result.code, result.errors) == (0, [])
    header, default, packing = result.out.splitlines()
    assert header.split("  ")[0] == "CONFIGURATION" and "WAIT P99" in header
    assert (default.split()[0], packing.split()[0]) == ("default", "packing")
    rows = (tmp_path / "out" / "runs.csv").read_text().splitlines()
    assert len(rows) == 1 + 4
    assert (tmp_path / "out" / "summary.csv").read_text().startswith("configuration,measure,mean,")
    again = run("sweep", file, "--output", tmp_path / "out")
    assert again.out == result.out
    assert (tmp_path / "out" / "runs.csv").read_text().splitlines() == rows


@pytest.mark.usefixtures("in_this_process")
def test_failed_run_is_an_error_beside_the_results_of_others(run: Command, tmp_path: Path) -> None:
    file = write_sweep(tmp_path, ONE_CLUSTER.replace("null", "extended.yaml"))
    extender = "{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}"
    kind = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration"
    (tmp_path / "extended.yaml").write_text(f"{kind}\nextenders: [{extender}]\n")
    (tmp_path / "long.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {kframework.dev/arrives-seconds: never}}}"
    )
    result = run("sweep", file, "--output", tmp_path / "out")
    assert result.code == 1
    assert result.errors[0].startswith("error: default, long, seed 1: Pod default/a: kframework.dev/arrives-seconds is")
    assert len(result.errors) == 4


def test_errors_of_the_inputs_come_before_any_run(run: Command, tmp_path: Path) -> None:
    file = write_sweep(tmp_path, ONE_CLUSTER)
    (tmp_path / "packing.yaml").write_text((tmp_path / "packing.yaml").read_text().replace("MostAllocated", "Most"))
    result = run("sweep", file, "--output", tmp_path / "out")
    assert result.code == 1 and not (tmp_path / "out").exists()
    assert result.errors == [
        (
            f"error: {tmp_path}/packing.yaml:6: profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported"
            ' value: "Most": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
        )
    ]
    assert run("sweep", file, "--output", tmp_path / "out", "--jobs", 2, "--dask", "tcp://127.0.0.1:1").code == 2


def command(file: Path, folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-c", MAIN, "sweep", str(file), "--output", str(folder), *more]


def rows_of(file: Path, folder: Path, *more: str) -> str:
    done = subprocess.run(command(file, folder, *more), capture_output=True, text=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return (folder / "runs.csv").read_text()


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def until(condition: bool | object) -> None:
    deadline = time.monotonic() + 30
    while not (condition() if callable(condition) else condition):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_rows_are_the_same_after_the_driver_was_killed(tmp_path: Path) -> None:
    seeds = ", ".join(map(str, range(6)))
    file = write_sweep(tmp_path, ONE_CLUSTER.replace("[1, 2]", f"[{seeds}]"))
    folder = tmp_path / "killed"
    driver = subprocess.Popen(command(file, folder, "--jobs", "2"))
    until(lambda: folder.exists() and any((folder / "runs").glob("*.json")))
    processes = children(driver.pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert len(processes) >= 2
    until(lambda: not any(map(is_running, processes)))
    assert 0 < len(list((folder / "runs").glob("*.json"))) < 12
    assert rows_of(file, folder) == rows_of(file, tmp_path / "whole", "--jobs", "1")


@contextmanager
def dask_cluster() -> Iterator[tuple[str, list[int]]]:
    """Run a Dask scheduler and two workers, and yield its address and their processes."""
    code = (
        "from distributed import LocalCluster\n"
        "with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host='127.0.0.1') as cluster:\n"
        "    print(cluster.scheduler_address, *(each.pid for each in cluster.workers.values()), flush=True)\n"
        "    input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        address, *workers = process.stdout.readline().split()
        yield address, [*map(int, workers)]
    finally:
        process.communicate("\n", timeout=30)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_rows_are_the_same_on_dask_after_a_worker_and_the_driver_were_killed(run: Command, tmp_path: Path) -> None:
    seeds = ", ".join(map(str, range(20)))
    file = write_sweep(tmp_path, ONE_CLUSTER.replace("[1, 2]", f"[{seeds}]"))
    folder = tmp_path / "dask"
    with dask_cluster() as (address, workers):
        driver = subprocess.Popen(command(file, folder, "--dask", address))
        until(lambda: folder.exists() and any((folder / "runs").glob("*.json")))
        os.kill(workers[0], signal.SIGKILL)
        done = len(list((folder / "runs").glob("*.json")))
        until(lambda: len(list((folder / "runs").glob("*.json"))) > done)
        driver.kill()
        driver.wait()
        assert 1 < len(list((folder / "runs").glob("*.json"))) < 40
        rows = rows_of(file, folder, "--dask", address)
    assert rows.count("\n") == 1 + 40
    assert run("sweep", file, "--output", tmp_path / "here").code == 0
    assert rows == (tmp_path / "here" / "runs.csv").read_text()


@pytest.mark.slow
def test_dask_scheduler_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    file = write_sweep(tmp_path, ONE_CLUSTER)
    environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    done = subprocess.run(
        command(file, tmp_path / "out", "--dask", "tcp://127.0.0.1:1"),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env=environment,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: no Dask scheduler at tcp://127.0.0.1:1: "), done.stderr
    assert len(done.stderr.splitlines()) == 1
