"""`kframework bench`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.conftest import Command
from tests.testing.scheduler_perf.written import NODE, case, write

STEPS = """\
- {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
- {opcode: createPods, countParam: $pods, collectMetrics: true}
"""

REQUESTS = "- {opcode: createAny, templatePath: request.yaml}\n"
REQUEST = "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourcePoolStatusRequest\nmetadata: {name: r}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a workload, one that asks for the impossible, and one for a kind that is not there."""
    text = case(STEPS, "{name: one, labels: [short], params: {pods: 3}}")
    text += "  - {name: fast, threshold: 1.0e+9, params: {pods: 1}}\n"
    text += case(REQUESTS).replace("Case", "Requests")
    return write(tmp_path, text, node=NODE, request=REQUEST)


def test_table_has_a_row_per_benchmark(run: Command, file: Path) -> None:
    done = run("bench", str(file), "--workload", "Case/one")
    header, row = done.out.splitlines()
    assert header.split() == "WORKLOAD PODS PODS/S AVERAGE CYCLE P50 P99 CPU/POD PEAK FLOOR".split()
    assert row.split()[:2] == ["Case/one", "3"]
    assert row.endswith("MiB  <none>")
    assert (done.err, done.code) == ("", 0)


def test_json_has_everything(run: Command, file: Path) -> None:
    done = run("bench", str(file), "--label", "short", "-o", "json")
    (result,) = json.loads(done.out)
    assert (result["name"], result["failed"], result["skipped"]) == ("Case/one", "", "")
    (measured,) = result["measurements"]
    assert measured["pods"] == 3
    assert measured["attempts"] == {"scheduled": 3}
    assert {"Filter", "Score", "Bind"} <= measured["extension_points_ms"].keys()
    assert measured["cycle_us"].keys() == {"average", "perc50", "perc90", "perc95", "perc99"}


def test_floors_and_missing_results_are_reported(run: Command, file: Path) -> None:
    done = run("bench", str(file.parent), "--workload", "Case/fast", "--workload", "Requests")
    assert done.out.splitlines()[1].endswith("1e+09")
    assert done.err.splitlines() == [
        "error: Case/fast is below its floor of 1e+09 pods/s",
        "notice: Requests/one was not run: there is no ResourcePoolStatusRequest here",
    ]
    assert done.code == 1


def test_workload_that_fails(run: Command, tmp_path: Path) -> None:
    done = run("bench", str(write(tmp_path, case("- {opcode: createAny, templatePath: none.yaml}"))))
    assert done.code == 1
    assert done.err == f"error: {tmp_path}/none.yaml: No such file or directory\n"


def test_unknown_name_is_refused(run: Command, file: Path) -> None:
    done = run("bench", str(file), "--workload", "Other")
    assert (done.code, done.err) == (1, f"error: {file}: no workload has such a name and labels\n")


@pytest.mark.slow
def test_projects_own_workloads(run: Command) -> None:
    """Two of them, which stand for all: tests/benchmarks runs the others."""
    done = run("bench", ROOT / "benchmarks" / "workloads", "--workload", "Large", "--label", "integration-test")
    assert (done.err, done.code) == ("", 0)
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [["Large/5Nodes", "10"], ["Large/50Nodes", "10"]]
