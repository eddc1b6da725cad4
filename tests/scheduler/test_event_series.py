"""Events of one kind become a series: the first is created, the second starts the count, the rest is only counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.client.event_record import EventRecord, PodReference, SeriesKey
from kframework.clock import VIRTUAL_EPOCH
from kframework.objects import EventSeries
from kframework.scheduler.event_recorder import SERIES_GAP, EventAggregator

POD = PodReference("default", "p", "1", "7")
OCCASION = SeriesKey("default-scheduler", "FailedScheduling", "Scheduling", True, POD)
START = VIRTUAL_EPOCH

#: What is to be written: of which series, with which note, as how many events, the last one when.
Due = tuple[SeriesKey, str, int, float]


def came(now: float, note: str = "no room", series_key: SeriesKey = OCCASION) -> EventRecord:
    return EventRecord(series_key, note, now, 0, now)


def due(record: EventRecord | None) -> Due | None:
    return None if record is None else (record.series_key, record.note, record.count, record.seen_at - START)


def test_first_is_written_the_second_starts_a_series_and_the_rest_is_counted() -> None:
    aggregator = EventAggregator()
    first = came(START)
    assert aggregator.observe(first) is first
    assert aggregator.refresh() == []
    assert aggregator.observe(came(START + 9, "other")) is first, "name, time and note are those of the first"
    assert first.event().series == EventSeries(count=2, last_observed_time="2026-01-01T00:00:09.000000Z")
    assert first.event().note == "no room"
    assert aggregator.observe(came(START + 20, "other")) is None
    assert aggregator.observe(came(START + 30, "other")) is None
    for _ in range(2):
        (again,) = aggregator.refresh()
        assert due(again) == (OCCASION, "no room", 4, 30), "the count goes on from there"


@pytest.mark.parametrize(
    "other",
    [
        replace(OCCASION, warning=False),
        replace(OCCASION, action="Binding"),
        replace(OCCASION, reason="Scheduled"),
        replace(OCCASION, profile="other"),
        replace(OCCASION, pod=replace(POD, uid="2")),
        replace(OCCASION, pod=replace(POD, version="8")),
        replace(OCCASION, related=POD),
    ],
)
def test_all_else_makes_another_event(other: SeriesKey) -> None:
    aggregator = EventAggregator()
    aggregator.observe(came(START))
    record = came(START, series_key=other)
    assert aggregator.observe(record) is record
    assert len(aggregator) == 2


def test_silent_series_is_written_a_last_time_and_dropped() -> None:
    aggregator = EventAggregator()
    aggregator.observe(came(START, series_key=replace(OCCASION, reason="Scheduled")))
    for seconds in (0, 1, 2):
        aggregator.observe(came(START + seconds))
    assert aggregator.finish(START + SERIES_GAP) == []
    assert len(aggregator) == 2
    assert aggregator.finish(START + SERIES_GAP + 1) == []
    assert len(aggregator) == 1, "single events are only forgotten"
    (last,) = aggregator.finish(START + SERIES_GAP + 3)
    assert due(last) == (OCCASION, "no room", 3, 2)
    assert len(aggregator) == 0
    anew = came(START + SERIES_GAP + 3)
    assert aggregator.observe(anew) is anew, "the next one starts anew"


@given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from("abc")), max_size=40))
def test_writes_agree_with_those_of_a_full_history(steps: list[tuple[int, str]]) -> None:
    """After each pause comes an event, then a sweep."""
    aggregator, kept, now = EventAggregator(), dict[str, list[float]](), START
    for pause, reason in steps:
        now += pause
        times = kept.setdefault(reason, [])
        times.append(now)
        told = due(aggregator.observe(came(now, series_key=replace(OCCASION, reason=reason))))
        assert told == (counted(reason, times) if len(times) <= 2 else None)
        over = {reason: kept.pop(reason) for reason, times in list(kept.items()) if times[-1] < now - SERIES_GAP}
        assert [due(record) for record in aggregator.finish(now)] == [
            counted(reason, times) for reason, times in over.items() if len(times) > 1
        ]
        assert len(aggregator) == len(kept)


def counted(reason: str, times: list[float]) -> Due:
    return replace(OCCASION, reason=reason), "no room", len(times), times[-1] - START
