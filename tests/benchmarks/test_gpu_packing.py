"""The simulation counts what the scheduler would place, tells it, and ends the same way every time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from kframework_gpu_packing import GpuPacking

from benchmarks.gpu_packing import PROFILES, RunResult, bar_chart, main, placeable, run, table
from kframework.testing import Scenario, make_node, make_pod

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_placeable_pods_are_placed(profile: str, gpus: int) -> None:
    free = [0, 1, 2, 3, 4, 6, 7, 8, 8]
    nodes = [make_node(f"n{place}", cpu=96, allocatable={GPU: amount}) for place, amount in enumerate(free)]
    pods = [make_pod(f"p{number}", requests={GPU: gpus}) for number in range(sum(free) // gpus + 1)]
    result = Scenario(nodes=nodes, pods=pods, plugins=[GpuPacking], config=PROFILES[profile]).run(until=10)
    placed = sum(gpus for pod in pods if result.node_of(pod.metadata.name))
    assert placeable(free, gpus) == placed / sum(free)


@pytest.mark.long
@pytest.mark.parametrize("profile", PROFILES)
def test_run_is_repeatable(profile: str) -> None:
    ran = run(profile, nodes=8, pods=150, seed=3)
    assert ran.counts > 0
    assert ran.placeable[1] == 1
    assert 1 >= ran.placeable[2] >= ran.placeable[4] >= ran.placeable[8] >= 0
    assert ran == run(profile, nodes=8, pods=150, seed=3)
    assert ran != run(profile, nodes=8, pods=150, seed=4)


def ran(placeable: float, turned_away: float = 0.0) -> RunResult:
    return RunResult(counts=1, placeable={1: 1.0, 2: placeable, 4: placeable, 8: placeable}, turned_away=turned_away)


def test_table_shows_mean_spread_and_wins() -> None:
    lines = list(table({"Theirs": [ran(0.2), ran(0.6)], "Ours": [ran(0.4, 0.1), ran(0.4, 0.3)]}))
    assert lines[2] == "| Theirs | 100.0% | 40.0% | 40.0% | 40.0% | **55.0%** ± 21.2% | 40.0% to 70.0% | 0.0% |"
    assert lines[3] == "| Ours | 100.0% | 40.0% | 40.0% | 40.0% | **55.0%** ± 0.0% | 55.0% to 55.0% | 20.0% |"
    assert lines[-1] == "Ours keeps more placeable than Theirs with 1 of 2 seeds."


@pytest.mark.long
def test_command_prints_the_table_and_draws_the_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg = tmp_path / "result.svg"
    main(["--seeds", "2", "--nodes", "8", "--pods", "100", "--svg", str(svg)])
    printed = capsys.readouterr().out
    assert all(f"| {profile} |" in printed for profile in PROFILES)
    assert all(profile in svg.read_text() for profile in PROFILES)


def test_length_of_a_bar_is_its_mean() -> None:
    root = ElementTree.fromstring(bar_chart({"a & b": [0.2, 0.4], "c": [0.6]}))
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if "x" in bar.attrib]
    lengths = [float(bar.attrib["width"]) for bar in bars]
    assert lengths[1] == pytest.approx(2 * lengths[0])
    assert "a & b" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
