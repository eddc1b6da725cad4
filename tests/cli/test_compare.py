"""`kframework compare`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kframework.simulation.comparison.result import ConfigurationComparison
from tests.cli.conftest import Command
from tests.cli.test_replay import CLUSTER, GANG

PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]
"""


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    file = tmp_path / "packed.yaml"
    file.write_text(PACKED)
    return file


@pytest.fixture
def recorded(run: Command, tmp_path: Path) -> Path:
    """Record a simulation of two pods."""
    file = tmp_path / "run.rec"
    assert run("simulate", "-f", "-", "--record", file, stdin=CLUSTER).code == 0
    return file


def test_pods_and_measures_of_cluster_files_are_compared(run: Command, cluster: Path, packed: Path) -> None:
    done = run("compare", "-f", cluster, "--config", packed)
    assert done.code == 0
    header, row, blank, measures, *rest = done.out.splitlines()
    assert header.split() == ["POD", "BASELINE", "NEW", "DIFFERENCE", "WHY"]
    assert row.split()[:5] == ["shop/web", "large", "small", "other", "node"]
    assert "NodeResourcesFit scores small " in row
    assert (blank, measures.split()) == ("", ["MEASURE", "BASELINE", "NEW", "DIFFERENCE"])
    assert [line.split()[0] for line in rest][:3] == ["pods", "bound", "pending"]
    assert done.errors[-1] == "This change moves 1 of 2 pods"


def test_json_is_the_result_of_the_model(run: Command, cluster: Path, packed: Path) -> None:
    done = run("compare", "-f", cluster, "--config", packed, "--seeds", 2, "-o", "json")
    result = msgspec.json.decode(done.out, type=ConfigurationComparison)
    assert (result.baseline, result.new) == ("the default profile", str(packed))
    assert (result.source, result.seeds, result.moved) == ((str(cluster),), (0, 1), 1)
    assert json.loads(done.out)["differences"][0]["cause"]["plugin"] == "NodeResourcesFit"


def test_recorded_decisions_are_compared(run: Command, recorded: Path, packed: Path) -> None:
    done = run("compare", "--recording", recorded, "--config", packed)
    row = done.out.splitlines()[1]
    assert row.split()[:5] == ["shop/web", "large", "small", "other", "node"]
    notice, headline = done.errors
    assert (done.code, headline) == (0, "This change moves 1 of 2 pods")
    assert notice.startswith("notice: no waiting times or utilisation: ")
    back = run("compare", "--recording", recorded, "--baseline", packed, "--config", packed)
    assert (back.code, back.out, back.errors[-1]) == (0, "", "This change moves none of 2 pods")
    wide = run("compare", "--recording", recorded, "--config", packed, "-o", "wide").out
    assert wide.splitlines()[1].split()[5:7] == ["1", "NodeResourcesFit"] and "NodeResourcesFit -" in wide


@pytest.mark.parametrize(("limit", "code"), [("49%", 1), ("50%", 0), ("0", 1), ("1", 0)])
def test_exit_code_says_whether_too_many_pods_move(
    run: Command, recorded: Path, packed: Path, limit: str, code: int
) -> None:
    done = run("compare", "--recording", recorded, "--config", packed, "--fail-over", limit)
    assert done.code == code
    assert (done.errors[-1] == f"error: 1 of 2 pods move, which is more than {limit}") == bool(code)


def test_report_is_written(run: Command, recorded: Path, packed: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("compare", "--recording", recorded, "--config", packed, "--report", page).code == 0
    assert "This change moves 1 of 2 pods" in page.read_text() and "shop/web" in page.read_text()
    assert run("compare", "--recording", recorded, "--config", packed, "--report", recorded).code == 2
    unwritable = run("compare", "--recording", recorded, "--config", packed, "--report", tmp_path / "none" / "page")
    assert (unwritable.code, unwritable.out) == (1, "")


def test_markdown_is_for_a_pull_request(run: Command, recorded: Path, packed: Path) -> None:
    done = run("compare", "--recording", recorded, "--config", packed, "-o", "markdown")
    assert done.out.startswith("### This change moves 1 of 2 pods\n")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["-f", "a.yaml", "--recording", "run.rec"], "name cluster files with -f, or a --recording"),
        ([], "name cluster files with -f, or a --recording"),
        (["-f", "-", "--baseline", "-"], "stdin can be read only once"),
        (["--recording", "run.rec", "--seeds", "2"], "only with -f: a recording has its own"),
        (["--recording", "run.rec", "--feature-gates", "GenericWorkload=true"], "only with -f"),
        (["-f", "a.yaml", "--fail-over", "much"], "write a share such as 1%, or a number of pods"),
        (["-f", "a.yaml", "--fail-over", "101%"], "write a share such as 1%, or a number of pods"),
    ],
)
def test_options_that_do_not_fit_are_refused(run: Command, options: list[str], problem: str) -> None:
    done = run("compare", "--config", "new.yaml", *options)
    assert done.code == 2 and problem in done.err


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
    done = run("compare", "--recording", file, "--config", packed, *options)
    assert [*done.errors[-4:-2], done.errors[-1]] == [
        "notice: not repeated: attempts that failed in Reserve or Permit: 1",
        "notice: not repeated: PreEnqueue of gated pods: default/huge",
        "This change moves none of 1 pod",
    ]


GATES = """---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true}
"""


def test_pods_of_groups_are_compared(run: Command, packed: Path, tmp_path: Path) -> None:
    file = tmp_path / "groups.rec"
    on = ("--feature-gates", "GenericWorkload=true")
    assert run("simulate", "-f", "-", "--record", file, *on, stdin=CLUSTER + GANG).code == 0
    packed.write_text(PACKED + GATES)
    for options in ([], ["--baseline", packed]):
        done = run("compare", "--recording", file, "--config", packed, *options)
        assert done.code == 0
        assert ("shop/red-0" in done.out) == (not options)
