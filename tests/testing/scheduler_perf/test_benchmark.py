"""Workloads run in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kframework.testing.scheduler_perf import benchmark as benchmark_module
from kframework.testing.scheduler_perf.benchmark import WorkloadResult, benchmark, configuration_of, run
from kframework.testing.scheduler_perf.definitions import Definition
from tests.testing.scheduler_perf.written import NODE, POD, definition

STEPS = """\
- {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
- {opcode: createPods, count: 3, collectMetrics: true}
"""

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: %s}]
"""


THROUGHPUT = "{name: SchedulingThroughput, dataBucket: Average}"


def on_progress(done: int, of: int) -> None:
    """Take no notice."""


def test_workload_is_measured(tmp_path: Path) -> None:
    result = benchmark(definition(tmp_path, STEPS, "{name: one, threshold: 1}", node=NODE), None, on_progress)
    (measured,) = result.measurements
    assert (result.name, result.floor, result.failed, measured.pods) == ("Case/one", 1.0, "", 3)
    assert not result.is_below_floor


@pytest.mark.parametrize(
    ("workload", "rest", "floor"),
    [
        ("{name: one, threshold: 1.0e+9}", "", 1e9),
        ("{name: one, threshold: 1.0e+9, thresholdMetricSelector: {name: other, dataBucket: Perc99}}", "", 0.0),
        ("{name: one, threshold: 1.0e+9}", "defaultThresholdMetricSelector: {name: other, dataBucket: Average}\n", 0.0),
        (
            "{name: one, threshold: 1.0e+9, thresholdMetricSelector: " + THROUGHPUT + "}",
            "defaultThresholdMetricSelector: {name: other, dataBucket: Average}\n",
            1e9,
        ),
    ],
)
def test_floor_is_the_threshold_of_the_throughput(tmp_path: Path, workload: str, rest: str, floor: float) -> None:
    result = run(definition(tmp_path, STEPS, workload, rest, node=NODE), None, on_progress)
    assert result.floor == floor
    assert result.is_below_floor == bool(floor)


def test_invalid_workload_has_failed(tmp_path: Path) -> None:
    result = run(
        definition(tmp_path, "- {opcode: createNodes, count: 1, nodeTemplatePath: none.yaml}"), None, on_progress
    )
    assert result.failed == f"{tmp_path}/none.yaml: No such file or directory"


def test_measurements_before_a_failure_are_kept(tmp_path: Path) -> None:
    result = run(definition(tmp_path, STEPS + "- {opcode: stopCollectingMetrics}", node=NODE), None, on_progress)
    assert "no metrics are collected" in result.failed
    assert len(result.measurements) == 1


def test_unsupported_workload_is_skipped(tmp_path: Path) -> None:
    one = definition(tmp_path, STEPS, "{name: one, featureGates: {DRAListTypeAttributes: true}}")
    assert benchmark(one, None, on_progress) == WorkloadResult(
        name="Case/one", skipped="there is no DRAListTypeAttributes here"
    )


@pytest.mark.parametrize("given", [False, True], ids=["its own", "given"])
def test_configuration_file_replaces_the_workloads_own(tmp_path: Path, given: bool) -> None:
    """Pods with another scheduler's name never get a node, so these would not if the configuration were another."""
    (tmp_path / "config.yaml").write_text(CONFIG % ("other" if given else "mine"))
    (tmp_path / "mine.yaml").write_text(CONFIG % "mine")
    pod = POD.replace("spec:", "spec:\n  schedulerName: mine")
    rest = "schedulerConfigPath: config.yaml\ndefaultPodTemplatePath: pod.yaml\n"
    one = definition(tmp_path, STEPS, rest=rest, node=NODE, pod=pod)
    result = run(one, str(tmp_path / "mine.yaml") if given else None, on_progress)
    assert result.failed == ""


def test_gates_of_a_workload_that_matter_are_set(tmp_path: Path) -> None:
    rest = "featureGates: {GenericWorkload: true, SchedulerQueueingHints: false}\n"
    gates = "{GenericWorkload: true, TopologyAwareWorkloadScheduling: true}"
    one = definition(tmp_path, STEPS, f"{{name: one, featureGates: {gates}}}", rest)
    assert configuration_of(one).options.gates.has_placements
    assert configuration_of(definition(tmp_path, STEPS, rest=rest)).options.feature_gates == {"GenericWorkload": True}


def _dies(definition: Definition, config: str | None, connection: object) -> None:
    os._exit(7)


def test_dead_process_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_module, "_run_in_process", _dies)
    assert benchmark(definition(tmp_path, STEPS), None, on_progress).failed == "its process ended with code 7"


def test_progress_is_reported(tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    steps = STEPS.replace("count: 3", "count: 60").replace("node.yaml", "large.yaml")
    one = definition(tmp_path, steps, large=NODE.replace('"10"', '"100"').replace('"4"', '"60"'))
    benchmark(one, None, lambda done, of: said.append((done, of)))
    assert said == [(50, 60)]
