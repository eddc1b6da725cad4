"""A job waits longer after each failure, and no more after a success."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kframework.clock import rfc3339
from kframework.in_memory.workloads.job_backoff import Backoff, ended_at
from kframework.objects import Pod, PodCondition, PodStatus
from kframework.testing import make_pod


def ended(at: int) -> Pod:
    condition = PodCondition(type="Ready", status="False", last_transition_time=rfc3339(at))
    return replace(make_pod(f"p{at}"), status=PodStatus(conditions=(condition,)))


@pytest.mark.parametrize(
    ("rounds", "now", "remaining"),
    [
        ([], 0, 0),
        ([((), (5,))], 5, 10),
        ([((), (5,))], 12, 3),
        ([((), (5,)), ((), (20, 30))], 30, 40),
        ([((), tuple(range(10)))], 9, 600),
        ([((), (5,)), ((8,), ())], 9, 0),
        ([((), (5, 6, 7)), ((20,), (10, 30))], 30, 10),
        ([((), (5,))], 500, 0),
    ],
)
def test_how_long_is_still_to_be_waited(
    rounds: list[tuple[Sequence[int], Sequence[int]]], now: int, remaining: float
) -> None:
    backoff = Backoff()
    for succeeded, failed in rounds:
        backoff = backoff.after(map(ended, succeeded), map(ended, failed))
    assert backoff.remaining(now) == remaining


def test_when_a_pod_ended_is_told_by_its_deletion_or_else_its_creation() -> None:
    pod = make_pod("a")
    created = replace(pod, metadata=replace(pod.metadata, creation_timestamp=rfc3339(3)))
    metadata = replace(created.metadata, deletion_timestamp=rfc3339(40), deletion_grace_period_seconds=30)
    assert [ended_at(each) for each in (pod, created, replace(pod, metadata=metadata))] == [0, 3, 10]
