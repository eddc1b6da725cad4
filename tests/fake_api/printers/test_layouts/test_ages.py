"""Durations and ages as kubectl writes them."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.layouts import format_age, format_duration, format_elapsed

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE + 59, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (8 * YEAR + 200 * DAY, "8y"),
    ],
)
def test_durations_have_two_or_three_digits(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("", "<unknown>"),
        ("2026-01-01T00:00:00Z", "90s"),
        ("2026-01-01T00:00:29.500000Z", "60s"),
        ("2026-01-01T01:00:00+01:00", "90s"),
        ("yesterday", "<invalid>"),
        ("2026-01-01T01:00:00Z", "<invalid>"),
    ],
)
def test_elapsed_time_is_formatted(timestamp: str, expected: str) -> None:
    assert format_elapsed(timestamp, 1767225690.0) == expected


def test_age_is_that_of_the_object() -> None:
    assert format_age({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}, 1767225605.0) == "5s"
