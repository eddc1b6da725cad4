"""What a timeline comes to, against answers worked out by hand: ten units, times in seconds."""

from __future__ import annotations

import pytest
from kframework_batch.compare.measures import Measures, TimePercentiles, jain, measure
from kframework_batch.compare.timeline import EventKind, GangPod, GangSummary, RunTimeline, TimelineEvent
from kframework_batch.resource import Resource


def timeline(*moments: tuple[float, EventKind, str, str]) -> RunTimeline:
    """Make a timeline of gangs `a` (queue one) and `b` (queue two), each of two pods of five units, both needed."""
    made = RunTimeline()
    for name, queue in (("a", "one"), ("b", "two")):
        made.gangs[name] = GangSummary(name, queue, 2, 2, Resource(gpu=10))
        for index in range(2):
            made.members[f"{name}{index}"] = GangPod(f"default/{name}{index}", name, Resource(gpu=5))
    made.events = [TimelineEvent(*moment) for moment in moments]
    return made


def measured(made: RunTimeline, duration: float | None = None) -> Measures:
    return measure(made, resource="gpu", capacity=10, weights={"one": 1, "two": 1}, duration=duration)[0]


#: Gang a runs from 10 s to 30 s, with its first pod bound 4 s before the second; b comes at 10 s and runs from 30 s.
ONE_AFTER_THE_OTHER = (
    (0.0, EventKind.ARRIVED, "a", ""),
    (2.0, EventKind.MADE, "a", "a0"),
    (2.0, EventKind.MADE, "a", "a1"),
    (6.0, EventKind.BOUND, "a", "a0"),
    (10.0, EventKind.BOUND, "a", "a1"),
    (10.0, EventKind.ARRIVED, "b", ""),
    (30.0, EventKind.SUCCEEDED, "a", "a0"),
    (30.0, EventKind.SUCCEEDED, "a", "a1"),
    (30.0, EventKind.FINISHED, "a", ""),
    (30.0, EventKind.MADE, "b", "b0"),
    (30.0, EventKind.MADE, "b", "b1"),
    (30.0, EventKind.BOUND, "b", "b0"),
    (30.0, EventKind.BOUND, "b", "b1"),
    (40.0, EventKind.GONE, "b", "b0"),
)


def test_gangs_that_run_one_after_another_are_measured() -> None:
    made = timeline(*ONE_AFTER_THE_OTHER)
    made.gangs["a"].finished, made.gangs["a"].phase = 30.0, "Completed"
    found = measured(made)
    assert (found.jobs, found.completed, found.never_ran, found.seconds) == (2, 1, 0, 40.0)
    assert (found.completion, found.last) == (TimePercentiles(30.0, 30.0), 30.0)
    assert found.gang_waiting == TimePercentiles(10.0, 20.0)
    assert found.pod_waiting == TimePercentiles(10.0, 20.0), "waits of 6, 10, 20 and 20 s, from the arrival of the job"
    assert found.half_gang_seconds == 5 * 4
    assert found.utilisation == pytest.approx((10 * 20 + 10 * 10) / 400)
    one, two = found.queues
    assert (one.held, one.due) == pytest.approx((20 / 30, (10 + 0.5 * 20) / 30))
    assert (two.held, two.due) == pytest.approx((10 / 30, (0.5 * 20 + 10) / 30))
    assert found.fairness == pytest.approx(jain([1.0, 0.5]))


def test_pending_pods_count_as_waiting_until_the_end() -> None:
    found = measured(timeline((0.0, EventKind.ARRIVED, "a", ""), (5.0, EventKind.MADE, "a", "a0")), duration=60.0)
    assert (found.never_ran, found.gang_waiting.p50, found.pod_waiting) == (1, 60.0, TimePercentiles(60.0, 60.0))
    assert (found.completion, found.last) == (TimePercentiles(None, None), None)


def test_room_reserved_in_permit_counts_as_held_by_incomplete_gang() -> None:
    moments = [
        (0.0, EventKind.ARRIVED, "a", ""),
        (0.0, EventKind.MADE, "a", "a0"),
        (1.0, EventKind.PLACED, "a", "a0"),
        (31.0, EventKind.RELEASED, "a", "a0"),
    ]
    found = measured(timeline(*moments), duration=100.0)
    assert (found.half_gang_seconds, found.half_gangs, found.utilisation) == pytest.approx((150.0, 0.15, 0.0))


def test_events_after_the_duration_are_not_measured() -> None:
    assert measured(timeline(*ONE_AFTER_THE_OTHER), duration=8.0).jobs == 1


def test_recreated_pod_waits_from_its_creation_and_evictions_are_counted() -> None:
    moments = [
        (0.0, EventKind.ARRIVED, "a", ""),
        (0.0, EventKind.MADE, "a", "a0"),
        (1.0, EventKind.BOUND, "a", "a0"),
        (9.0, EventKind.EVICTED, "a", "a0"),
        (10.0, EventKind.GONE, "a", "a0"),
        (10.0, EventKind.MADE, "a", "again"),
        (13.0, EventKind.BOUND, "a", "again"),
    ]
    made = timeline(*moments)
    made.members["again"] = made.members["a0"]
    found = measured(made, duration=20.0)
    assert (found.evictions, found.pod_waiting) == (1, TimePercentiles(3.0, 20.0)), (
        "waits of 1 and 3 s; one was never made"
    )


@pytest.mark.parametrize(
    ("values", "index"), [([1.0, 1.0, 1.0], 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25), ([3.0, 1.0], 0.8), ([], 1.0)]
)
def test_jains_index_measures_fairness(values: list[float], index: float) -> None:
    assert jain(values) == pytest.approx(index)


def test_percentiles_are_nearest_ranks() -> None:
    assert TimePercentiles.from_values(map(float, range(100, 0, -1))) == TimePercentiles(50.0, 99.0)
