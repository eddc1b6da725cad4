"""Calls for a pod stay near the figures in benchmarks/counts.json; `python -m benchmarks.counts` rewrites them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import targets
from benchmarks.counts import GROWTH, HEADROOM, ROWS, VERSION, compare_growth, count_shadow, read_figures
from benchmarks.hostile import compare_calls
from benchmarks.hostile_inputs import MANY, HostileInput, own_label_rows
from kframework.state import pod_conditions
from kframework.state.cluster import ClusterState
from kframework.state.pods import PodInfo
from tests.support.scale import sampled

pytestmark = pytest.mark.slow

FIGURES = read_figures()


@pytest.mark.parametrize(("row", "figure"), FIGURES.get(VERSION, {}).items())
def test_calls_per_pod_stay_near_their_figure(row: str, figure: float) -> None:
    assert ROWS[row]() <= figure * HEADROOM


def test_shadow_costs_at_most_a_fifth_more_than_the_cycles_that_it_shadows() -> None:
    shadow, cycle = count_shadow()
    assert shadow <= 1.2 * cycle


def test_calls_per_pod_do_not_grow_with_nodes() -> None:
    assert compare_growth() <= GROWTH


@pytest.mark.parametrize("row", sampled(own_label_rows()), ids=lambda row: row.title)
def test_terms_of_one_user_cost_other_pods_at_most_half_more_calls(row: HostileInput) -> None:
    assert compare_calls(row) <= 1.5


def test_terms_that_are_matched_one_by_one_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_conditions, "FEW", MANY)
    assert compare_calls(next(own_label_rows())) > 1.5


def test_added_calls_per_pod_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ROWS["basic"]()
    add_calls(monkeypatch, lambda cluster: 100)
    assert ROWS["basic"]() > before * HEADROOM


def test_added_calls_per_node_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    add_calls(monkeypatch, lambda cluster: len(cluster.nodes) // 10)
    assert compare_growth() > GROWTH


def add_calls(monkeypatch: pytest.MonkeyPatch, count: Callable[[ClusterState], int]) -> None:
    """Make this number of calls for each pod that gets a node."""
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
