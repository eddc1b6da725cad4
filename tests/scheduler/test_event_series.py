"""Events of one kind become a series: the first is created, the second starts the count, the rest is only counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.clock import VIRTUAL_EPOCH, rfc3339_micro
from kframework.objects import Event, EventSeries, ObjectMeta, ObjectReference
from kframework.scheduler.event_recorder import SILENCE, EventAggregator

POD = ObjectReference(kind="Pod", name="p", uid="1", resource_version="7")
EVENT = Event(
    metadata=ObjectMeta(name="p.1"),
    event_time="2026-01-01T00:00:00.000000Z",
    type="Warning",
    action="Scheduling",
    reason="FailedScheduling",
    reporting_controller="default-scheduler",
    reporting_instance="default-scheduler-host",
    regarding=POD,
    note="no room",
)
START = VIRTUAL_EPOCH


def series(count: int, seconds: float) -> Event:
    return counted(EVENT, [START + seconds] * count)


def test_the_first_is_written_the_second_starts_a_series_and_the_rest_is_counted() -> None:
    aggregator = EventAggregator()
    assert aggregator.observe(EVENT, START) == EVENT
    assert aggregator.refresh() == []
    again = replace(EVENT, metadata=ObjectMeta(name="p.2"), event_time="2026-01-01T00:00:09.000000Z", note="other")
    assert aggregator.observe(again, START + 9) == series(2, 9), "name, time and note are those of the first"
    assert aggregator.observe(again, START + 20) is None
    assert aggregator.observe(again, START + 30) is None
    assert aggregator.refresh() == [series(4, 30)]
    assert aggregator.refresh() == [series(4, 30)], "the count goes on from there"


@pytest.mark.parametrize(
    "other",
    [
        replace(EVENT, type="Normal"),
        replace(EVENT, action="Binding"),
        replace(EVENT, reason="Scheduled"),
        replace(EVENT, reporting_controller="other"),
        replace(EVENT, reporting_instance="other-host"),
        replace(EVENT, regarding=replace(POD, uid="2")),
        replace(EVENT, regarding=replace(POD, resource_version="8")),
        replace(EVENT, related=POD),
    ],
)
def test_all_else_makes_another_event(other: Event) -> None:
    aggregator = EventAggregator()
    aggregator.observe(EVENT, START)
    assert aggregator.observe(other, START) == other
    assert len(aggregator) == 2


def test_what_is_silent_is_written_a_last_time_and_forgotten() -> None:
    aggregator = EventAggregator()
    single = replace(EVENT, reason="Scheduled")
    aggregator.observe(single, START)
    for seconds in (0, 1, 2):
        aggregator.observe(EVENT, START + seconds)
    assert aggregator.finish(START + SILENCE) == []
    assert len(aggregator) == 2
    assert aggregator.finish(START + SILENCE + 1) == []
    assert len(aggregator) == 1, "single events are only forgotten"
    assert aggregator.finish(START + SILENCE + 3) == [series(3, 2)]
    assert len(aggregator) == 0
    assert aggregator.observe(EVENT, START + SILENCE + 3) == EVENT, "the next one starts anew"


@given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from("abc")), max_size=40))
def test_it_writes_what_one_would_write_who_kept_every_event(steps: list[tuple[int, str]]) -> None:
    """After each pause comes an event, then a sweep."""
    aggregator, kept, now = EventAggregator(), dict[str, list[float]](), START
    for pause, reason in steps:
        now += pause
        event = replace(EVENT, reason=reason)
        times = kept.setdefault(reason, [])
        times.append(now)
        expected = [event, counted(event, times), None][min(len(times), 3) - 1]
        assert aggregator.observe(event, now) == expected
        over = {reason: kept.pop(reason) for reason, times in list(kept.items()) if times[-1] < now - SILENCE}
        assert aggregator.finish(now) == [
            counted(replace(EVENT, reason=reason), times) for reason, times in over.items() if len(times) > 1
        ]
        assert len(aggregator) == len(kept)


def counted(event: Event, times: list[float]) -> Event:
    return replace(event, series=EventSeries(count=len(times), last_observed_time=rfc3339_micro(times[-1])))
