"""Indexes of jobs: read and written as intervals, put together, and which of them are missing."""

from __future__ import annotations

import pytest

from kframework.in_memory.workloads.job_pods import (
    completion_index,
    contains_index,
    count_common,
    count_indexes,
    first_missing_indexes,
    format_intervals,
    merge_intervals,
    parse_intervals,
)
from kframework.testing import make_pod


@pytest.mark.parametrize(
    ("text", "completions", "again", "count"),
    [
        ("", 5, "", 0),
        ("0,2,4-7", 10, "0,2,4-7", 6),
        ("0-1,2", 10, "0-2", 3),
        ("3,4", 10, "3,4", 2),
        ("0-9", 4, "0-3", 4),
        ("7", 4, "", 0),
        ("x,1,-2", 4, "1", 1),
        ("0-2147483646", 2_000_000_000, "0-1999999999", 2_000_000_000),
    ],
)
def test_indexes_are_parsed_and_formatted(text: str, completions: int, again: str, count: int) -> None:
    intervals = parse_intervals(text, completions)
    assert (format_intervals(intervals), count_indexes(intervals)) == (again, count)


@pytest.mark.parametrize(
    ("text", "count", "missing"),
    [("0,2,4-5", 2, [1, 3]), ("0,2,4-5", 9, [1, 3, 6, 7]), ("0-7", 3, []), ("", 2, [0, 1]), ("1", 0, [])],
)
def test_lowest_missing_indexes_come_first(text: str, count: int, missing: list[int]) -> None:
    assert first_missing_indexes(parse_intervals(text, 8), count, 8) == missing


def test_common_indexes_are_counted() -> None:
    some, others = parse_intervals("0-4,8", 20), parse_intervals("8,4,3,9", 20)
    assert (count_common(some, others), contains_index(some, 3), contains_index(some, 7)) == (3, True, False)
    assert merge_intervals(some + others) == ((0, 4), (8, 9))


@pytest.mark.parametrize(("text", "index"), [("3", 3), ("", None), ("-1", None), ("x", None), ("9" * 30, None)])
def test_pod_has_its_index(text: str, index: int | None) -> None:
    pod = make_pod("a", annotations={"batch.kubernetes.io/job-completion-index": text})
    assert completion_index(pod) == index
