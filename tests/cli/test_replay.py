"""`kframework replay`."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.faults.recording_lines import Line, changed, nth

CLUSTER = """
apiVersion: v1
kind: NodeList
items:
- metadata: {name: large}
  status: {capacity: {cpu: "16", memory: 8Gi, pods: "110"}}
- metadata: {name: small}
  status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, resources: {requests: {cpu: "32"}}}]}
"""


@pytest.fixture
def recorded(run: Command, tmp_path: Path) -> Path:
    """Record a simulation of two pods."""
    file = tmp_path / "run.rec"
    assert run("simulate", "-f", "-", "--record", file, stdin=CLUSTER).code == 0
    return file


def test_same_configuration_decides_the_same(run: Command, recorded: Path) -> None:
    done = run("replay", recorded)
    assert (done.code, done.out) == (0, "")
    assert done.errors == ["2 attempts replayed with the recorded configuration: all the same"]


def test_decision_that_differs_ends_with_code_1(run: Command, recorded: Path, tmp_path: Path) -> None:
    def elsewhere(lines: list[Line]) -> None:
        lines[nth(lines, "Decision", 0)]["with"]["node"] = "small"

    done = run("replay", changed(recorded, tmp_path / "changed", elsewhere))
    assert done.code == 1
    assert "attempt 1 of pod shop/web got node 'large', not 'small'" in done.errors[0]
    assert done.out.splitlines()[1].split()[:5] == ["1", "shop/web", "small", "large", "node"]


def test_part_in_the_middle_is_checked_attempt_by_attempt(run: Command, recorded: Path, tmp_path: Path) -> None:
    def later(lines: list[Line]) -> None:
        lines[0]["part"] = 3

    def later_and_elsewhere(lines: list[Line]) -> None:
        later(lines)
        lines[nth(lines, "Decision", 0)]["with"] |= {"node": "small", "ties": 1}

    done = run("replay", changed(recorded, tmp_path / "later", later))
    assert done.code == 0
    assert done.errors[0] == "notice: part 3 of a recording; starts from the state at the end of part 2"
    assert run("replay", changed(recorded, tmp_path / "other", later_and_elsewhere)).code == 1


def test_incomplete_recording_is_reported(run: Command, recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "short"
    with gzip.open(recorded) as lines, gzip.open(file, "wb") as written:
        written.write(lines.read()[:-2])
    done = run("replay", file)
    assert done.code == 0
    assert done.errors[0].startswith("notice: the recording is incomplete")


def test_recording_of_another_version_is_refused(run: Command, recorded: Path, tmp_path: Path) -> None:
    def made_elsewhere(lines: list[Line]) -> None:
        lines[0]["madeBy"] = "kframework 99.0"

    done = run("replay", changed(recorded, tmp_path / "other", made_elsewhere))
    assert done.code == 0 and done.errors[0].startswith("notice: recorded by kframework 99.0, replayed by kframework ")


def test_report_is_written(run: Command, recorded: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("replay", recorded, "--report", page).code == 0
    assert "shop/web" in page.read_text()


def test_file_that_is_no_recording_is_refused(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    assert run("replay", file) == (1, "", f"error: {file}: is not a recording: it is not compressed\n")
    assert run("replay", tmp_path / "none").errors == [f"error: {tmp_path / 'none'}: No such file or directory"]


def test_engine_that_is_not_installed_is_named(run: Command, recorded: Path, tmp_path: Path) -> None:
    def other_engine(lines: list[Line]) -> None:
        lines[0] |= {"engine": "tea", "distribution": "kframework-tea 1.2"}

    tea = changed(recorded, tmp_path / "tea.rec", other_engine)
    done = run("replay", tea)
    assert done.code == 1
    assert done.errors[-1] == f"error: {tea}:1: is of the engine 'tea', which is not installed: install kframework-tea"


GANG = """
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: red, namespace: shop}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: PodList
items:
- metadata: {name: red-0, namespace: shop}
  spec: &red {schedulingGroup: {podGroupName: red}, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
- metadata: {name: red-1, namespace: shop}
  spec: *red
"""


def test_groups_are_replayed_and_reported(run: Command, tmp_path: Path) -> None:
    file, report = tmp_path / "groups.rec", tmp_path / "report.html"
    on = ("--feature-gates", "GenericWorkload=true")
    assert run("simulate", "-f", "-", "--record", file, *on, stdin=CLUSTER + GANG).code == 0
    done = run("replay", file, "--report", report)
    assert done.errors == ["4 attempts and 1 group replayed with the recorded configuration: all the same"]
    assert "shop/red" in report.read_text()
