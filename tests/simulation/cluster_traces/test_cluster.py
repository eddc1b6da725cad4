"""Nodes and pods of a trace become objects with the annotations of a simulation, for a period of the trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kframework import Simulation
from kframework.objects import Node, Pod
from kframework.objects.manifest import read
from kframework.simulation.cluster_traces.cluster import GPU, GPU_MILLI, Period, TraceNode, TracePod, create_objects
from kframework.simulation.timetable import ARRIVES_SECONDS, DOWN_SECONDS
from kframework.testing import RUN_SECONDS

NODE = TraceNode("n", "8", "16Gi", gpus=2, gpu_model="T4")


def annotations_of(record: TraceNode | TracePod, *period: float) -> dict[str, str] | None:
    """Return the annotations of the object of a record, None if it is not there in the period."""
    documents: list[Any] = [*create_objects([record], Period(*period))]
    return documents[-1]["metadata"].get("annotations", {}) if documents else None


def pod(arrival: float, start: float, end: float) -> TracePod:
    return TracePod("p", "1", "1Gi", arrival, start, end)


@pytest.mark.parametrize(
    ("times", "arrives", "runs"),
    [
        ((100, 130, 150), "0", "20"),
        ((160, 170.5, 400), "60", "229.5"),
        ((60, 90, 130), "0", "30"),  # ran already
        ((60, 120, 150), "0", "30"),  # waited already
        ((100, 100, 100), "0", "0"),
        ((110, 150, 149), "10", "0"),
        ((199.25, 1e7, 12345678), "99.25", "2345678"),
    ],
)
def test_times_of_pods_count_from_the_start_of_the_period(
    times: tuple[float, float, float], arrives: str, runs: str
) -> None:
    assert annotations_of(pod(*times), 100, 200) == {ARRIVES_SECONDS: arrives, RUN_SECONDS: runs}


@pytest.mark.parametrize("times", [(0, 10, 100), (200, 200, 300), (0, 0, 0)])
def test_pods_that_are_not_there_in_the_period_are_left_out(times: tuple[float, float, float]) -> None:
    assert annotations_of(pod(*times), 100, 200) is None


def test_pod_without_an_end_runs_on() -> None:
    assert annotations_of(TracePod("p", "1", "1Gi")) == {ARRIVES_SECONDS: "0"}


def test_times_of_nodes_count_from_the_start_of_the_period() -> None:
    def node(arrival: float, *down: tuple[float, float]) -> TraceNode:
        return TraceNode("n", "1", "1Gi", arrival=arrival, down=down)

    assert annotations_of(node(0)) == {}
    assert annotations_of(node(150), 100, 200) == {ARRIVES_SECONDS: "50"}
    assert annotations_of(node(200), 100, 200) is None
    downs = (0, 50), (90, 110), (150, 170), (180, float("inf")), (300, 400)
    assert annotations_of(node(0, *downs), 100, 200) == {DOWN_SECONDS: "0-10,50-70,80-"}


def test_whole_gpus_and_shares_come_from_the_same_thousandths(tmp_path: Path) -> None:
    pods = [
        TracePod("whole", "1", "1Gi", gpu_milli=1000),
        TracePod("half", "1", "1Gi", gpu_milli=500, gpu_models=("T4",)),
        TracePod("quarter", "1", "1Gi", gpu_milli=250, gpu_models=("A100", "T4")),
        TracePod("late", "1", "1Gi", arrival=1, gpu_milli=1000),
        TracePod("other", "1", "1Gi", gpu_milli=250, gpu_models=("A100",)),
        TracePod("plain", "", ""),
    ]
    file = tmp_path / "cluster.json"
    items = [*create_objects([NODE, *pods], Period())]
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    with Simulation(file) as simulation:
        bound = {each.pod.removeprefix("default/"): each.node for each in simulation.run().outcomes}
        assert bound == {"whole": "n", "half": "n", "quarter": "n", "plain": "n", "late": None, "other": None}
        (node,) = simulation.objects(Node)
        assert (node.status.allocatable[GPU], node.status.allocatable[GPU_MILLI]) == ("2", "2000")


def test_priorities_become_classes_once(tmp_path: Path) -> None:
    pods = [TracePod(name, "8", "1Gi", arrival, priority=priority) for name, arrival, priority in (
        ("low", 0, 100), ("high", 5, 360), ("same", 6, 360), ("none", 7, 0),
    )]  # fmt: skip
    file = tmp_path / "cluster.json"
    items = [*create_objects([NODE, *pods], Period())]
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    manifest = read([str(file)])
    assert [type(each).__name__ for each in manifest.objects].count("PriorityClass") == 2
    with Simulation(file) as simulation:
        simulation.run()
        assert {each.metadata.name: each.spec.priority for each in simulation.objects(Pod)} == {
            "low": 100,
            "high": 360,
            "same": 360,
            "none": 0,
        }
        assert [each.pod for each in simulation.outcomes if each.node] == ["default/high"]
