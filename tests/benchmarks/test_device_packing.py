"""The simulation counts what the scheduler would place, tells it, and ends the same way every time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.device_packing import (
    CARDS,
    PROFILES,
    SIZES,
    CardRoom,
    RunResult,
    bar_chart,
    main,
    make_devices,
    make_nodes,
    placeable,
    run,
    table,
    with_claim,
)
from kframework.testing import Scenario, make_pod


@pytest.mark.parametrize("size", SIZES)
def test_placeable_pods_are_placed(size: str) -> None:
    pods = [with_claim(make_pod(f"p{number}"), size) for number in range(CARDS * SIZES[size].each + 1)]
    result = Scenario(nodes=make_nodes(1), objects=make_devices(1), pods=pods).run(until=10)
    placed = sum(result.node_of(pod.metadata.name) is not None for pod in pods)
    untouched = [CardRoom(7, 80)] * CARDS
    assert placeable(untouched, SIZES[size]) == placed * SIZES[size].slices / (7 * CARDS)


def test_room_of_several_cards_does_not_add_up() -> None:
    left = [CardRoom(7, 80), CardRoom(4, 50), CardRoom(3, 30)]
    assert [placeable(left, size) for size in SIZES.values()] == [14 / 14, 12 / 14, 9 / 14, 7 / 14]


@pytest.mark.long
def test_plugin_places_more_large_claims() -> None:
    without, packed = (run(profile, nodes=4, pods=300, seed=1) for profile in ("LeastAllocated", "DeviceBinPacking"))
    assert packed.turned_away["whole"] < without.turned_away["whole"]
    assert packed.placeable["large"] > without.placeable["large"]


@pytest.mark.long
@pytest.mark.parametrize("profile", PROFILES)
def test_run_is_repeatable(profile: str) -> None:
    ran = run(profile, nodes=2, pods=120, seed=3)
    assert ran.counts > 0
    assert all(0 <= share <= 1 for share in (*ran.placeable.values(), *ran.turned_away.values()))
    assert ran == run(profile, nodes=2, pods=120, seed=3)
    assert ran != run(profile, nodes=2, pods=120, seed=4)


def ran(placeable: float, turned_away: float = 0.0) -> RunResult:
    return RunResult(counts=1, placeable=dict.fromkeys(SIZES, placeable), turned_away=dict.fromkeys(SIZES, turned_away))


def test_tables_show_mean_spread_and_wins() -> None:
    lines = list(table({"Theirs": [ran(0.2), ran(0.6)], "Ours": [ran(0.4, 0.1), ran(0.4, 0.3)]}))
    assert lines[2] == "| Theirs | 40.0% | 40.0% | 40.0% | 40.0% | **40.0%** ± 28.3% | 20.0% to 60.0% |"
    assert lines[8] == "| Ours | 20.0% | 20.0% | 20.0% | 20.0% |"
    assert lines[-1] == "Ours keeps more placeable than Theirs with 1 of 2 seeds."


@pytest.mark.long
def test_command_prints_tables_and_draws_the_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg = tmp_path / "result.svg"
    main(["--seeds", "2", "--nodes", "2", "--pods", "100", "--svg", str(svg)])
    printed = capsys.readouterr().out
    assert all(f"| {profile} |" in printed for profile in PROFILES)
    assert all(profile in svg.read_text() for profile in PROFILES)


def test_length_of_a_bar_is_its_share() -> None:
    root = ElementTree.fromstring(bar_chart({"a & b": {"small": 0.2}, "c": {"small": 0.4}}))
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if bar.attrib["height"] == "16"]
    lengths = [float(bar.attrib["width"]) for bar in bars]
    assert lengths[1] == pytest.approx(2 * lengths[0])
    assert "a & b" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
