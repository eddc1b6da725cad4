"""The flags by which a run is recorded."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kframework.cli import recording
from tests.cli.conftest import Command
from tests.cli.processes import exported, started, until_bound
from tests.faults.recording_lines import lines_of, read_unfinished

NODE = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c}]}
"""


def test_simulation_is_recorded(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.rec"
    assert run("simulate", "-f", "-", "--record", file, stdin=POD).code == 0
    assert "Decision" in [line["what"] for line in lines_of(file)[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_running_scheduler_is_recorded_however_it_ends(run: Command, tmp_path: Path, number: signal.Signals) -> None:
    file, cluster = tmp_path / "run.rec", tmp_path / "cluster.yaml"
    cluster.write_text(f"{NODE}---{POD}")
    with started("run", "--embedded", "-f", cluster, "--secure-port", 0, "--record", file) as scheduler:
        assert until_bound(exported(scheduler), "p") == "a"
        while b'"what":"Binding"' not in read_unfinished(file):
            assert scheduler.process.poll() is None
        scheduler.end(number)
    done = run("replay", file)
    assert (done.code, done.out) == (0, "")
    assert done.errors[-1] == "1 attempt replayed with the recorded configuration: all the same"
    assert ("the recording is incomplete" in done.err) is (number == signal.SIGKILL)


def test_limit_is_a_quantity(run: Command, tmp_path: Path) -> None:
    assert recording.parse_size("64Mi") == 64 << 20
    done = run("simulate", "-f", "-", "--record", tmp_path / "x", "--record-limit", "lots", stdin=POD)
    assert done.code == 2 and "'lots' is not a quantity" in done.err
    for little in ("0", "-64Mi", "1023Ki"):
        done = run("simulate", "-f", "-", "--record", tmp_path / "x", "--record-limit", little, stdin=POD)
        assert done.code == 2 and "must be at least 1Mi" in done.err


def test_limit_goes_with_a_file(run: Command) -> None:
    done = run("simulate", "-f", "-", "--record-limit", "64Mi", stdin=POD)
    assert done.code == 2 and "only with --record" in done.err


def test_unwritable_file_is_reported(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "run.rec"
    done = run("simulate", "-f", "-", "--record", file, stdin=POD)
    assert (done.code, done.errors) == (1, [f"error: {file}: No such file or directory"])


def test_findings_of_dev_are_recorded_too(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.rec"
    assert run("simulate", "-f", "-", "--dev", "--record", file, stdin=f"{NODE}---{POD}").code == 0
    done = run("replay", file)
    assert (done.code, done.errors[-1]) == (0, "1 attempt replayed with the recorded configuration: all the same")


def test_annotations_are_recorded_as_requested(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.rec"
    pod = POD.replace("name: p", "name: p, annotations: {example.com/zone: hunter2, example.org/token: hunter3}")
    assert run("simulate", "-f", "-", "--record", file, stdin=pod).code == 0
    assert "hunter" not in str(lines_of(file))
    asked = ["--record-annotations", "example.com/*"]
    assert run("simulate", "-f", "-", "--record", file, *asked, stdin=pod).code == 0
    assert ("hunter2" in str(lines_of(file)), "hunter3" in str(lines_of(file))) == (True, False)
    assert "only with --record" in run("simulate", "-f", "-", *asked, stdin=pod).err
