"""Indexes of jobs, as intervals: a job may have a hundred thousand, and a client may write of more."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.objects import Pod

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

#: First and last, in order, and neither touching nor crossing.
Intervals = tuple[tuple[int, int], ...]


def index_of(pod: Pod) -> int | None:
    """Return the index of a pod, None if it has none."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() and len(text) < 11 else None


def read(text: str, completions: int) -> Intervals:
    """Read indexes below the number of completions; what is no interval is passed over."""
    intervals = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(first) < completions:
            intervals.append((int(first), min(int(last or first), completions - 1)))
    return merged(intervals)


def written(intervals: Intervals) -> str:
    """Write indexes: `0,2,4-7`."""
    marks = {0: "", 1: ","}
    return ",".join(
        str(first) if first == last else f"{first}{marks.get(last - first, '-')}{last}" for first, last in intervals
    )


def single(indexes: Iterable[int]) -> Intervals:
    """Make intervals of indexes."""
    return merged((index, index) for index in indexes)


def merged(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """Put together what touches or crosses."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def total(intervals: Intervals) -> int:
    """Count indexes."""
    return sum(last - first + 1 for first, last in intervals)


def has(intervals: Intervals, index: int) -> bool:
    """Return whether an index is among these."""
    return any(first <= index <= last for first, last in intervals)


def in_common(some: Intervals, others: Intervals) -> int:
    """Count the indexes that are in both."""
    return total(some) + total(others) - total(merged(some + others))


def first_missing(intervals: Intervals, count: int, completions: int) -> list[int]:
    """List at most so many of the lowest indexes that are not among these."""
    missing: list[int] = []
    begin = 0
    for first, last in (*intervals, (completions, completions)):
        missing += range(begin, min(first, completions, begin + count - len(missing)))
        begin = last + 1
    return missing
