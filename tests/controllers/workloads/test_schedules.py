"""When schedules are due, in the words that Kubernetes reads, in time zones and over their changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kframework.clock import rfc3339, seconds_of
from kframework.controllers.workloads.schedules import ScheduleError, most_recent, schedule


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("*/15 * * * *", "2026-01-01T00:00:00Z", ["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"]),
        ("5/20 3 * * *", "2026-01-01T00:00:00Z", ["2026-01-01T03:05:00Z", "2026-01-01T03:25:00Z"]),
        ("0 0 1 */3 *", "2026-01-01T00:00:00Z", ["2026-04-01T00:00:00Z", "2026-07-01T00:00:00Z"]),
        ("30 6-7,9 * JAN mon-Tue", "2026-01-05T07:00:00Z", ["2026-01-05T07:30:00Z", "2026-01-05T09:30:00Z"]),
        ("0 12 13 * fri", "2026-01-09T12:00:00Z", ["2026-01-13T12:00:00Z", "2026-01-16T12:00:00Z"]),
        ("0 0 */2 * sun", "2026-01-01T00:00:00Z", ["2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"]),
        ("0 0 ? * sun", "2026-01-01T00:00:00Z", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", ["2028-02-29T00:00:00Z"]),
        ("@hourly", "2026-01-01T00:00:00Z", ["2026-01-01T01:00:00Z"]),
        ("@daily", "2026-01-01T00:00:01Z", ["2026-01-02T00:00:00Z"]),
        ("@weekly", "2026-01-01T00:00:00Z", ["2026-01-04T00:00:00Z"]),
        ("@yearly", "2026-01-01T00:00:00Z", ["2027-01-01T00:00:00Z"]),
        ("@every 1h30m", "2026-01-01T00:00:07Z", ["2026-01-01T01:30:07Z", "2026-01-01T03:00:07Z"]),
        ("59 23 31 2 *", "2026-01-01T00:00:00Z", []),
    ],
)
def test_when_it_is_due(text: str, after: str, due: list[str]) -> None:
    when, time = schedule(text, None), seconds_of(after)
    for expected in due:
        found = when.after(time)
        assert found is not None and rfc3339(found) == expected
        time = found
    assert due or when.after(time) is None


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("0 8 * * *", "2026-01-01T00:00:00Z", ["2026-01-01T07:00:00Z"]),
        ("30 2 * * *", "2026-03-28T12:00:00Z", ["2026-03-30T00:30:00Z"]),  # there is no half past two on the 29th
        ("30 2 * * *", "2026-10-24T12:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),  # and two on this day
    ],
)
def test_in_a_time_zone(text: str, after: str, due: list[str]) -> None:
    when, time = schedule(text, "Europe/Berlin"), seconds_of(after)
    for expected in due:
        found = when.after(time)
        assert found is not None and rfc3339(found) == expected
        time = found


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("* * * *", None),
        ("60 * * * *", None),
        ("* * 0 * *", None),
        ("* * * * 7", None),
        ("5-3 * * * *", None),
        ("*/0 * * * *", None),
        ("x * * * *", None),
        ("", None),
        ("@every", None),
        ("@every " + "9" * 400 + "h", None),
        ("@sometimes", None),
        ("* * * * *", "Europe/Nowhere"),
        ("* * * * *", "../../etc/passwd"),
    ],
)
def test_what_is_no_schedule(text: str, zone: str | None) -> None:
    with pytest.raises(ScheduleError):
        schedule(text, zone)


@pytest.mark.parametrize(
    ("text", "now", "last"),
    [
        ("@hourly", "2026-01-01T00:59:59Z", None),
        ("@hourly", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z"),
        ("@hourly", "2026-02-03T10:20:00Z", "2026-02-03T10:00:00Z"),
        ("* * * * *", "2029-01-01T00:00:30Z", "2029-01-01T00:00:00Z"),
        ("0 9,10 * * 1-5", "2026-01-12T09:30:00Z", "2026-01-12T09:00:00Z"),
        ("@every 7s", "2026-01-01T01:00:00Z", "2026-01-01T00:59:58Z"),
    ],
)
def test_what_was_due_last(text: str, now: str, last: str | None) -> None:
    earliest = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    found = most_recent(schedule(text, None), earliest, seconds_of(now))
    assert (rfc3339(found) if found is not None else None) == last
