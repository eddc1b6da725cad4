"""Calls for a pod stay near the figures in benchmarks/counts.json; `python -m benchmarks.counts` writes them anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import targets
from benchmarks.counts import GROWTH, HEADROOM, ROWS, VERSION, compare_growth, read_figures
from kframework.state.cluster import ClusterState
from kframework.state.pods import PodInfo

pytestmark = pytest.mark.slow

FIGURES = read_figures()


@pytest.mark.parametrize(("row", "figure"), FIGURES.get(VERSION, {}).items())
def test_calls_per_pod_stay_near_their_figure(row: str, figure: float) -> None:
    assert ROWS[row]() <= figure * HEADROOM


def test_calls_per_pod_do_not_grow_with_nodes() -> None:
    assert compare_growth() <= GROWTH


def test_added_calls_per_pod_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ROWS["basic"]()
    add_calls(monkeypatch, lambda cluster: 100)
    assert ROWS["basic"]() > before * HEADROOM


def test_added_calls_per_node_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    add_calls(monkeypatch, lambda cluster: len(cluster.nodes) // 10)
    assert compare_growth() > GROWTH


def add_calls(monkeypatch: pytest.MonkeyPatch, count: Callable[[ClusterState], int]) -> None:
    """Have so many calls made for each pod that gets a node."""
    assume = ClusterState.assume

    def assume_after_calls(cluster: ClusterState, pod: PodInfo, node_name: str) -> None:
        for number in range(count(cluster)):
            abs(number)
        assume(cluster, pod, node_name)

    monkeypatch.setattr(ClusterState, "assume", assume_after_calls)


def test_every_row_has_a_figure() -> None:
    assert all(figures.keys() == ROWS.keys() for figures in FIGURES.values())


def test_rows_are_in_the_table_of_targets() -> None:
    assert ROWS.keys() <= {row.name for row in targets.ROWS}
