"""How far a search goes: kube-scheduler's numFeasibleNodesToFind."""

from __future__ import annotations

import pytest

from kframework.core.cycle.rotation import Rotation, nodes_to_find


@pytest.mark.parametrize(
    ("nodes", "percentage", "enough"),
    [(99, 1, 99), (100, 1, 100), (1000, 0, 420), (5000, 0, 500), (10_000, 0, 500), (1000, 40, 400), (200, 10, 100)],
)
def test_how_many_feasible_nodes_are_enough(nodes: int, percentage: int, enough: int) -> None:
    assert nodes_to_find(nodes, percentage) == enough


def test_it_starts_with_the_first() -> None:
    assert Rotation().next_start_index == 0
