"""Numbers of a rollout: percentages, and what is shared out."""

from __future__ import annotations

import pytest

from kframework.in_memory.workloads.revisions import resolve_count, resolve_fenceposts
from tests.in_memory.workloads.workload_cluster import deployment


@pytest.mark.parametrize(
    ("number", "total", "up", "down"),
    [("25%", 10, 3, 2), ("50%", 4, 2, 2), ("0%", 4, 0, 0), (3, 4, 3, 3), (None, 4, 0, 0), ("many", 4, 0, 0)],
)
def test_percentages_are_rounded(number: int | str | None, total: int, up: int, down: int) -> None:
    assert (resolve_count(number, total, up=True), resolve_count(number, total, up=False)) == (up, down)


@pytest.mark.parametrize(
    ("surge", "unavailable", "both"),
    [("25%", "25%", (1, 0)), (0, 0, (0, 1)), ("0%", "10%", (0, 1)), (2, 1, (2, 1))],
)
def test_rollout_limits_are_never_both_zero(surge: int | str, unavailable: int | str, both: tuple[int, int]) -> None:
    assert resolve_fenceposts(deployment(3, surge, unavailable)) == both
