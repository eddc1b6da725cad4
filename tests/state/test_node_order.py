"""The node order: zones in turn, as kube-scheduler's node tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.state.node_order import NodeOrder, Positions, rotate, take, zone_of
from tests.properties.expected_tables import NodeTree

BETA_REGION, BETA_ZONE = "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ("", "")),
        ({REGION: "r"}, ("r", "")),
        ({ZONE: "z"}, ("", "z")),
        ({REGION: "r", ZONE: "z"}, ("r", "z")),
        ({BETA_REGION: "r", BETA_ZONE: "z"}, ("r", "z")),
        ({BETA_ZONE: "old", ZONE: "new", REGION: "r"}, ("r", "old")),
        ({BETA_ZONE: "", ZONE: "new"}, ("", "")),
    ],
)
def test_zone_is_read_from_the_labels(labels: dict[str, str], zone: tuple[str, str]) -> None:
    assert zone_of(labels) == zone


def ordered(*zones: str) -> NodeOrder:
    """Order rows 0, 1, 2, ... with these zones."""
    order = NodeOrder()
    for row, zone in enumerate(zones):
        order.add(row, ("r", zone))
    return order


@pytest.mark.parametrize(
    ("zones", "rows"),
    [
        ("", []),
        ("aaa", [0, 1, 2]),
        ("aabb", [0, 2, 1, 3]),
        ("baab", [0, 1, 3, 2]),
        ("aaabc", [0, 3, 4, 1, 2]),
    ],
)
def test_zones_take_turns(zones: str, rows: list[int]) -> None:
    assert ordered(*zones).rows().tolist() == rows


def test_row_that_stays_in_its_zone_keeps_its_place() -> None:
    order = ordered("a", "a", "b")
    order.add(0, ("r", "a"))
    assert order.rows().tolist() == [0, 2, 1]


def test_row_that_moves_comes_last_in_its_new_zone() -> None:
    order = ordered("a", "a", "b")
    order.add(0, ("r", "b"))
    assert order.rows().tolist() == [1, 2, 0]
    assert [order.zone(row) for row in range(3)] == [("r", "b"), ("r", "a"), ("r", "b")]


def test_emptied_zone_comes_last_when_seen_again() -> None:
    order = ordered("a", "b")
    order.remove(0)
    order.add(0, ("r", "a"))
    assert order.rows().tolist() == [1, 0]


def test_zones_of_different_regions_differ() -> None:
    order = NodeOrder()
    order.add(0, ("r", "a"))
    order.add(1, ("r", "a"))
    order.add(2, ("q", "a"))
    assert order.rows().tolist() == [0, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["a", "b", "c", None])), max_size=30))
def test_any_history_gives_the_order_of_a_slow_tree(history: list[tuple[int, str | None]]) -> None:
    order, tree = NodeOrder(), NodeTree[int]()
    for row, zone in history:
        if zone is not None:
            order.add(row, ("r", zone))
            tree.put(row, ("r", zone))
        elif row in tree:
            order.remove(row)
            tree.remove(row)
    assert order.rows().tolist() == tree.listed()


@given(st.data())
def test_places_are_taken_in_turn_from_any_start(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(0, 9))
    count, start = data.draw(st.integers(0, nodes)), data.draw(st.integers(0, 99))
    places = rotate(start, count, nodes)
    assert np.arange(nodes)[places].tolist() == [(start + step) % nodes for step in range(count)]


@pytest.mark.parametrize(("start", "copied"), [(0, False), (2, False), (3, True)])
def test_only_places_that_pass_the_end_cost_a_copy(start: int, copied: bool) -> None:
    column = np.arange(5)
    assert np.shares_memory(column[rotate(start, 3, 5)], column) != copied


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("found", [slice(0, 0), slice(1, 3), np.array([0, 2])])
def test_positions_are_found_among_positions(start: int, found: Positions) -> None:
    places, column = rotate(start, 3, 5), np.arange(5)
    assert column[take(places, found)].tolist() == column[places][found].tolist()
