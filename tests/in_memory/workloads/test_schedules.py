"""When schedules are due, in the words that Kubernetes reads, in time zones and over their changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kframework.clock import rfc3339, seconds_of
from kframework.in_memory.workloads.schedules import CronScheduleError, most_recent_time, parse_schedule


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
def test_schedule_has_its_times(text: str, after: str, due: list[str]) -> None:
    schedule, time = parse_schedule(text, None), seconds_of(after)
    for expected in due:
        result = schedule.next_after(time)
        assert result is not None and rfc3339(result) == expected
        time = result
    assert due or schedule.next_after(time) is None


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("0 8 * * *", "2026-01-01T00:00:00Z", ["2026-01-01T07:00:00Z"]),
        ("30 2 * * *", "2026-03-28T12:00:00Z", ["2026-03-30T00:30:00Z"]),  # there is no half past two on the 29th
        ("30 2 * * *", "2026-10-24T12:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),  # and two on this day
    ],
)
def test_schedule_follows_its_time_zone(text: str, after: str, due: list[str]) -> None:
    schedule, time = parse_schedule(text, "Europe/Berlin"), seconds_of(after)
    for expected in due:
        result = schedule.next_after(time)
        assert result is not None and rfc3339(result) == expected
        time = result


@pytest.mark.parametrize("text", ["TZ=Europe/Berlin 0 8 * * *", "CRON_TZ=Europe/Berlin  0 8 * * * "])
def test_time_zone_in_the_schedule_takes_precedence(text: str) -> None:
    assert parse_schedule(text, "Asia/Tokyo") == parse_schedule("0 8 * * *", "Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("+5 007 * * *", "5 7 * * *"),
        (",5,,6, 0 * * *", "5,6 0 * * *"),
        ("*-7 */1 * * *", "* * * * *"),
        ("1 2 3 4 */2", "1 2 3 4 0,2,4,6"),
        ("@every 500ms", "@every 1s"),
        ("@every -3h", "@every 1s"),
        ("@every .5h", "@every 30m"),
        ("TZ=UTC @hourly", "@hourly"),
    ],
)
def test_equal_schedules_can_be_written_differently(text: str, same: str) -> None:
    assert parse_schedule(text) == parse_schedule(same)


def test_schedule_with_an_empty_field_is_never_due() -> None:
    assert parse_schedule(", * * * *").next_after(0.0) is None


ATOI = 'failed to parse int from {0}: strconv.Atoi: parsing "{0}": {1}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty spec string"),
        (" ", "expected exactly 5 fields, found 0: []"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 5-7/2", "end of range (7) above maximum (6): 5-7/2"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("1/-2 * * * *", "negative number (-2) not allowed: -2"),
        ("x * * * *", ATOI.format("x", "invalid syntax")),
        ("5- * * * *", ATOI.format("", "invalid syntax")),
        ("* * * januar *", ATOI.format("januar", "invalid syntax")),
        ("jan * * * *", ATOI.format("jan", "invalid syntax")),
        ("9223372036854775808 * * * *", ATOI.format("9223372036854775808", "value out of range")),
        ("9223372036854775807 * * * *", f"end of range ({2**63 - 1}) above maximum (59): {2**63 - 1}"),
        ("\u0665 * * * *", ATOI.format("\u0665", "invalid syntax")),
        (" @hourly", "expected exactly 5 fields, found 1: [@hourly]"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every x", 'failed to parse duration x: time: invalid duration "x"'),
        ("@every 1d", 'failed to parse duration 1d: time: unknown unit "d" in duration "1d"'),
        ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
    ],
)
def test_invalid_schedule_is_rejected(text: str, why: str) -> None:
    with pytest.raises(CronScheduleError) as refused:
        parse_schedule(text)
    assert str(refused.value) == why


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "../../etc/passwd", "Europe"])
def test_unknown_time_zone_is_rejected(zone: str) -> None:
    with pytest.raises(CronScheduleError) as refused:
        parse_schedule("* * * * *", zone)
    assert str(refused.value) == f"unknown time zone {zone}"


@pytest.mark.parametrize("text", ["@every " + "9" * 400 + "h", "9" * 5000 + " * * * *"])
def test_too_large_number_is_rejected(text: str) -> None:
    with pytest.raises(CronScheduleError):
        parse_schedule(text)


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
def test_most_recent_time_is_the_last_due_one(text: str, now: str, last: str | None) -> None:
    earliest = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    result = most_recent_time(parse_schedule(text, None), earliest, seconds_of(now))
    assert (rfc3339(result) if result is not None else None) == last
