"""How far a search goes: kube-scheduler's numFeasibleNodesToFind."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.cycle.rotation import Rotation, SearchStart, find_first_passing, nodes_to_find


@pytest.mark.parametrize(
    ("nodes", "percentage", "enough"),
    [
        *[(1, 0, 1), (99, 1, 99), (100, 0, 100), (100, 1, 100), (200, 10, 100), (500, 0, 230), (1000, 0, 420)],
        *[(1000, 5, 100), (1000, 40, 400), (1000, 100, 1000), (5000, 0, 500), (5625, 0, 281), (15_000, 0, 750)],
    ],
)
def test_number_of_feasible_nodes_to_find_follows_the_percentage(nodes: int, percentage: int, enough: int) -> None:
    assert nodes_to_find(nodes, percentage) == enough


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 80), st.integers(1, 20))
def test_first_that_pass_are_those_of_a_walk(passing: list[bool], start: int, enough: int) -> None:
    walked: list[int] = []
    looked_at = 0
    for step in range(len(passing)):
        place = (start + step) % len(passing)
        if passing[place]:
            if len(walked) == enough:
                break
            walked.append(place)
        looked_at += 1
    places, evaluated = find_first_passing(np.array(passing), passing.count(False), start, enough)
    assert (np.arange(len(passing))[places].tolist(), evaluated) == (walked, looked_at)


def test_search_begins_where_and_draws_what_it_did_before() -> None:
    rotation, random = Rotation(7), Random(1)
    start = SearchStart(rotation, random)
    drawn, rotation.next_start_index = random.random(), 9
    start.restore()
    assert (rotation.next_start_index, random.random()) == (7, drawn)
