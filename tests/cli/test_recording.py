"""The flags by which a run is recorded."""

from __future__ import annotations

from pathlib import Path

from kframework.cli import recording
from tests.cli.conftest import Command
from tests.faults.lines import lines_of

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c}]}
"""


def test_a_simulation_is_recorded(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.rec"
    assert run("simulate", "-f", "-", "--record", file, stdin=POD).code == 0
    assert "Decision" in [line["what"] for line in lines_of(file)[1:]]


def test_the_scheduler_of_a_cluster_is_recorded_too(run: Command, tmp_path: Path) -> None:
    """With nothing to listen to and no cluster it ends at once; what was opened is closed."""
    file = tmp_path / "run.rec"
    done = run("run", "--kubeconfig", tmp_path / "none", "--secure-port", 0, "--record", file)
    assert done.code == 1 and file.exists()


def test_a_limit_is_a_quantity(run: Command, tmp_path: Path) -> None:
    assert recording.size("64Mi") == 64 << 20
    done = run("simulate", "-f", "-", "--record", tmp_path / "x", "--record-limit", "lots", stdin=POD)
    assert done.code == 2 and "'lots' is not a quantity" in done.err
    done = run("simulate", "-f", "-", "--record", tmp_path / "x", "--record-limit", "0", stdin=POD)
    assert done.code == 2 and "must be greater than zero" in done.err


def test_a_limit_goes_with_a_file(run: Command) -> None:
    done = run("simulate", "-f", "-", "--record-limit", "64Mi", stdin=POD)
    assert done.code == 2 and "goes with --record only" in done.err


def test_a_file_that_cannot_be_written_is_told(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "run.rec"
    done = run("simulate", "-f", "-", "--record", file, stdin=POD)
    assert (done.code, done.errors) == (1, [f"error: {file}: No such file or directory"])
