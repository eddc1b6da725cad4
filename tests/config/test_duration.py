from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.config.duration import Duration

YEAR = 365 * 24 * 3600


@pytest.mark.parametrize(
    ("text", "seconds", "printed"),
    [
        ("15s", 15, "15s"),
        ("90s", 90, "1m30s"),
        ("1m30s", 90, "1m30s"),
        ("10m", 600, "10m0s"),
        ("1h", 3600, "1h0m0s"),
        ("36h5m0.5s", 36 * 3600 + 300.5, "36h5m0.5s"),
        ("1.5h", 5400, "1h30m0s"),
        (".5s", 0.5, "500ms"),
        ("1.s", 1, "1s"),
        ("1.5ms", 0.0015, "1.5ms"),
        ("7us", 7e-6, "7µs"),
        ("7µs", 7e-6, "7µs"),
        ("100ns", 1e-7, "100ns"),
        ("0", 0, "0s"),
        ("0s", 0, "0s"),
        ("-0", 0, "0s"),
        ("-1m30s", -90, "-1m30s"),
        ("+5s", 5, "5s"),
        ("1s1s", 2, "2s"),
    ],
)
def test_durations_are_read_and_printed_as_in_go(text: str, seconds: float, printed: str) -> None:
    duration = Duration.parse(text)
    assert duration == seconds
    assert str(duration) == printed
    assert f"{duration}" == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("1.2.3s", 'time: missing unit in duration "1.2.3s"'),
        ("3000000h", 'time: invalid duration "3000000h"'),
    ],
)
def test_invalid_duration_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Duration.parse(text)
    assert str(caught.value) == message


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_every_nanosecond_of_eleven_days_survives_printing(nanoseconds: int) -> None:
    duration = Duration(nanoseconds / 10**9)
    assert Duration.parse(str(duration)) == duration


@given(st.integers(min_value=0, max_value=200 * YEAR))
def test_whole_seconds_print_without_decimals(seconds: int) -> None:
    printed = str(Duration(seconds))
    assert "." not in printed
    assert Duration.parse(printed) == float(seconds)
