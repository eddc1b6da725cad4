"""Backoff: doubled for each failure, in windows of whole seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.queue.backoff import Backoff
from kframework.core.queue.scheduling_queue import MAX_SKIPS
from tests.core.queue.rig import NODE_ADD, START, Rig, queued


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (64, 10), (65, 10), (2**31, 10), (10**400, 10)],
)
def test_default_backoff_doubles_up_to_ten_seconds(failures: int, seconds: float) -> None:
    assert Backoff().duration(queued(rejections=failures)) == seconds
    assert Backoff().duration(queued(errors=failures)) == seconds


@pytest.mark.parametrize(
    ("initial", "maximum", "durations"),
    [
        (1, 10, [1, 2, 4, 8, 10, 10]),
        (3, 10, [3, 6, 10, 10]),
        (5, 5, [5, 5, 5]),
        (0.5, 3, [0.5, 1, 2, 3, 3]),
        (1, 0, [0, 0, 0]),
    ],
)
def test_configured_backoff_doubles_up_to_its_maximum(initial: float, maximum: float, durations: list[float]) -> None:
    backoff = Backoff(initial, maximum)
    assert [backoff.duration(queued(rejections=count + 1)) for count in range(len(durations))] == durations


@given(st.integers(1, 200), st.integers(1, 10**9), st.integers(0, 10**9))
def test_backoff_of_many_failures_does_not_overflow(failures: int, initial: int, more: int) -> None:
    maximum = initial + more
    assert Backoff(initial, maximum).duration(queued(errors=failures)) == min(initial << (failures - 1), maximum)


@pytest.mark.parametrize(
    ("rejections", "errors", "seconds"),
    [(0, 0, 0), (3, 0, 4), (0, 3, 4), (4, 1, 1), (1, 4, 8)],
)
def test_consecutive_errors_define_the_backoff_before_rejections(rejections: int, errors: int, seconds: float) -> None:
    assert Backoff().duration(queued(rejections=rejections, errors=errors)) == seconds


@pytest.mark.parametrize("fraction", [0, 0.25, 0.5, 0.875])
@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (5, 10)])
def test_backoff_ends_at_the_first_whole_second_after_its_expiry(
    fraction: float, failures: int, seconds: float
) -> None:
    is_backing_off = queued(rejections=failures, timestamp=START + fraction)
    leaves = START + seconds + 1
    backoff = Backoff()
    assert backoff.expiry(is_backing_off) == START + seconds
    assert [backoff.is_backing_off(is_backing_off, leaves + after) for after in (-fraction, -0.125, 0, 0.125)] == [
        fraction > 0,
        True,
        False,
        False,
    ]


def test_backoff_of_half_a_second_may_end_a_second_later() -> None:
    backoff = Backoff(initial=0.5)
    assert backoff.expiry(queued(rejections=1, timestamp=START + 0.25)) == START
    assert backoff.expiry(queued(rejections=1, timestamp=START + 0.5)) == START + 1


def test_backoff_expiry_is_computed_once_per_failure() -> None:
    backoff = Backoff()
    is_backing_off = queued(rejections=1)
    assert backoff.expiry(is_backing_off) == START + 1
    is_backing_off.unschedulable_count = 9
    assert backoff.expiry(is_backing_off) == START + 1
    is_backing_off.backoff_expiry = None
    assert backoff.expiry(is_backing_off) == START + 10


@pytest.mark.parametrize("rejection", [{"rejectors": ("Fit",)}, {"pending": ("Fit",)}])
@pytest.mark.parametrize("in_flight", [False, True])
def test_pod_skips_its_backoff_so_often_within_a_second(rejection: dict[str, tuple[str, ...]], in_flight: bool) -> None:
    rig = Rig()
    rig.add("pod")

    def attempts() -> int:
        count = 0
        while rig.pop() is not None:
            count += 1
            if in_flight:
                rig.queue.move_on_event(NODE_ADD)
            rig.put_back("pod", *rejection.get("rejectors", ()), pending=rejection.get("pending", ()))
            rig.queue.move_on_event(NODE_ADD)
        return count

    assert attempts() == 1 + MAX_SKIPS
    assert rig.place() == "backoff"
    rig.now += 1
    assert attempts() == MAX_SKIPS


def test_pod_that_skipped_its_backoff_too_often_blocks_no_other() -> None:
    rig = Rig()
    rig.add("busy")
    while rig.pop() is not None:
        rig.put_back("busy", "Fit")
        rig.queue.move_on_event(NODE_ADD)
    rig.add("other")
    assert rig.pop() == "other"
    rig.put_back("other", "Fit")
    rig.queue.move_on_event(NODE_ADD)
    assert rig.pop() == "other"
