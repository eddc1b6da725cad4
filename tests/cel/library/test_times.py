from __future__ import annotations

import pytest

from kframework.cel.errors import CelError
from kframework.cel.library.times import (
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
)
from tests.plugins.dynamic_resources.selecting import answer

AT = "timestamp('2026-02-03T04:05:06.789Z')"


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1h30m", 5400 * 10**9),
        ("-1.5s", -1500 * 10**6),
        ("1.000000001s", 10**9 + 1),
        (".5ms", 500_000),
        ("1us", 1000),
        ("1µs", 1000),
        ("+2m", 120 * 10**9),
    ],
)
def test_duration_is_parsed(text: str, nanos: int) -> None:
    assert parse_duration(text).nanos == nanos


@pytest.mark.parametrize("text", ["", "1", "1 h", "h", "1d", "-", "1h-1m", "99999999999h"])
def test_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T01:00:00+01:00"),
        ("2025-12-31T23:30:00-00:30", "2025-12-31T23:30:00-00:30"),
        ("2026-01-01T00:00:00.120Z", "2026-01-01T00:00:00.12Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_timestamp_is_parsed_and_formatted(text: str, written: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00+25:00",
        "0001-01-01T00:00:00+01:00",
        "x",
    ],
)
def test_invalid_timestamp_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        parse_timestamp(text)


def test_duration_is_formatted_in_seconds() -> None:
    assert [format_duration(parse_duration(text)) for text in ("1h", "-1.5s", "1ms", "0")] == [
        "3600s",
        "-1.5s",
        "0.001s",
        "0s",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        f"{AT}.getFullYear() == 2026 && {AT}.getMonth() == 1 && {AT}.getDate() == 3 && {AT}.getDayOfMonth() == 2",
        f"{AT}.getDayOfWeek() == 2 && {AT}.getDayOfYear() == 33",
        f"{AT}.getHours() == 4 && {AT}.getMinutes() == 5 && {AT}.getSeconds() == 6 && {AT}.getMilliseconds() == 789",
        f"{AT}.getHours('02:30') == 6 && {AT}.getMinutes('-00:10') == 55 && {AT}.getDate('-05:00') == 2",
        f"{AT}.getHours('America/New_York') == 23 && {AT}.getHours('UTC') == 4",
        "duration('1h1m').getHours() == 1",
        "duration('-90s').getMinutes() == -1 && duration('1h').getSeconds() == 3600",
        "duration('1.5s').getMilliseconds() == 1500",
    ],
)
def test_times_have_parts(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize("zone", ["Nowhere/At_All", "x:y", "99:00", "../etc"])
def test_unknown_zone_is_an_error(zone: str) -> None:
    assert answer(f"{AT}.getHours('{zone}') == 1") == f"run: unknown time zone {zone}"
