"""`kframework replay`."""

from __future__ import annotations

import gzip
import json
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

PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]
"""


@pytest.fixture
def recorded(run: Command, tmp_path: Path) -> Path:
    """Record a simulation of two pods."""
    file = tmp_path / "run.rec"
    assert run("simulate", "-f", "-", "--record", file, stdin=CLUSTER).code == 0
    return file


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    file = tmp_path / "packed.yaml"
    file.write_text(PACKED)
    return file


def test_same_configuration_decides_the_same(run: Command, recorded: Path) -> None:
    done = run("replay", recorded)
    assert (done.code, done.out) == (0, "")
    assert done.errors == ["2 attempts replayed with the recorded configuration: all the same"]


def test_another_one_is_compared(run: Command, recorded: Path, packed: Path) -> None:
    done = run("replay", recorded, "--config", packed)
    assert done.code == 0
    header, row = done.out.splitlines()
    assert header.split() == ["ATTEMPT", "POD", "RECORDED", "NOW", "DIFFERENCE", "MESSAGE"]
    attempt, pod, before, after, *rest = row.split()
    assert (attempt, pod, before, after) == ("1", "shop/web", "large", "small")
    assert " ".join(rest).startswith("other node small ")
    assert done.errors == [f"2 attempts replayed with {packed}: 1 different (1 other node)"]


def test_wide_table_shows_more_columns(run: Command, recorded: Path, packed: Path) -> None:
    header, row = run("replay", recorded, "--config", packed, "-o", "wide").out.splitlines()
    assert header.split().count("SCORE") == 2
    assert {"2026-01-01T00:00:00Z", "default-scheduler", "large", "small"} < set(row.split())


def test_json_has_every_difference(run: Command, recorded: Path, packed: Path) -> None:
    told = json.loads(run("replay", recorded, "--config", packed, "-o", "json").out)
    (difference,) = told.pop("differences")
    none: dict[str, list[object]] = {"lateRejections": [], "earlierPods": [], "gatedPods": [], "hooks": []}
    assert told == {"attempts": 2, "part": 1, "notRepeated": none, "cutOff": False}
    assert (difference["attempt"], difference["pod"], difference["difference"]) == (1, "shop/web", "other node")
    assert (difference["recorded"]["node"], difference["now"]["node"]) == ("large", "small")
    assert not {"started", "timings", "plugins"} & difference["now"].keys()


def test_decision_that_differs_ends_with_code_1(run: Command, recorded: Path, tmp_path: Path) -> None:
    def elsewhere(lines: list[Line]) -> None:
        lines[nth(lines, "Decision", 0)]["with"]["node"] = "small"

    done = run("replay", changed(recorded, tmp_path / "changed", elsewhere))
    assert done.code == 1
    assert "attempt 1 at pod shop/web got node 'large', not 'small'" in done.errors[0]
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


def test_file_that_is_no_recording_is_refused(run: Command, packed: Path, tmp_path: Path) -> None:
    assert run("replay", packed) == (1, "", f"error: {packed}: is not a recording: it is not compressed\n")
    assert run("replay", tmp_path / "none").errors == [f"error: {tmp_path / 'none'}: No such file or directory"]


def test_engine_that_is_not_installed_is_named(run: Command, recorded: Path, tmp_path: Path) -> None:
    def other_engine(lines: list[Line]) -> None:
        lines[0] |= {"engine": "tea", "distribution": "kframework-tea 1.2"}

    tea = changed(recorded, tmp_path / "tea.rec", other_engine)
    done = run("replay", tea)
    assert done.code == 1
    assert done.errors[-1] == f"error: {tea}:1: is of the engine 'tea', which is not installed: install kframework-tea"


REFUSING = """
from kframework import Plugin, hookimpl, unschedulable

class Refusing(Plugin):
    name = "Refusing"

    @hookimpl
    def pre_enqueue(self, pod):
        return unschedulable("not yet") if pod.name == "huge" else None

    @hookimpl
    def permit(self, state, pod, node_name):
        return unschedulable("no")
"""


def test_decisions_that_are_not_repeated_are_reported(run: Command, tmp_path: Path, packed: Path) -> None:
    plugin, file = tmp_path / "refusing.py", tmp_path / "refused.gz"
    plugin.write_text(REFUSING)
    options = ["--plugin", f"{plugin}:Refusing"]
    assert run("simulate", "-f", "-", "--duration", "2s", "--record", file, *options, stdin=CLUSTER).code == 0
    done = run("replay", file, "--config", packed, *options)
    assert done.errors[-3:] == [
        "notice: not repeated: attempts that failed in Reserve or Permit: 1",
        "notice: not repeated: PreEnqueue of gated pods: default/huge",
        f"1 attempt replayed with {packed}: 1 not repeated",
    ]


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

GATES = """---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true}
"""


def test_groups_are_replayed_compared_and_reported(run: Command, packed: Path, tmp_path: Path) -> None:
    file, report = tmp_path / "groups.rec", tmp_path / "report.html"
    on = ("--feature-gates", "GenericWorkload=true")
    assert run("simulate", "-f", "-", "--record", file, *on, stdin=CLUSTER + GANG).code == 0
    done = run("replay", file, "--report", report)
    assert done.errors == ["4 attempts and 1 group replayed with the recorded configuration: all the same"]
    assert "shop/red" in report.read_text()
    packed.write_text(PACKED + GATES)
    done = run("replay", file, "--config", packed)
    assert done.code == 0
    assert done.errors[-1].startswith("4 attempts and 1 group replayed with ")
    assert "shop/red-0" in done.out
