"""Clocks, RFC 3339 times, and one random generator per purpose."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import VIRTUAL_EPOCH, LoopClock, Seeds, SystemClock, rfc3339, run_virtual, seconds_of


@pytest.mark.parametrize(
    ("epoch", "expected"), [(VIRTUAL_EPOCH, "2026-01-01T00:01:30Z"), (0.0, "1970-01-01T00:01:30Z")]
)
def test_loops_clock_counts_from_its_epoch(epoch: float, expected: str) -> None:
    async def main() -> float:
        clock = LoopClock(asyncio.get_running_loop(), epoch)
        await asyncio.sleep(90)
        return clock.now()

    assert rfc3339(run_virtual(main)) == expected


def test_system_clock_is_not_moved_by_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, monotonic = 1_000_000.0, 50.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic)
    clock = SystemClock()
    assert clock.now() == 1_000_000.0
    wall, monotonic = 5.0, 62.5
    assert clock.now() == 1_000_012.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (VIRTUAL_EPOCH, "2026-01-01T00:00:00Z"),
        (VIRTUAL_EPOCH + 59.999, "2026-01-01T00:00:59Z"),
        (951782400.0, "2000-02-29T00:00:00Z"),
    ],
)
def test_times_are_written_as_kubernetes_does(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == text


@given(st.integers(0, 4_000_000_000))
def test_times_are_read_back(seconds: int) -> None:
    assert seconds_of(rfc3339(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01.500000Z", 1.5),
        ("1970-01-01T02:00:00+02:00", 0.0),
        ("2026-01-01T00:00:00Z", VIRTUAL_EPOCH),
    ],
)
def test_times_of_other_writers_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_invalid_time_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        seconds_of(text)


def test_same_seed_and_purpose_give_the_same_draws() -> None:
    assert Seeds(7).generator("ties").random() == Seeds(7).generator("ties").random()


def test_seeds_and_purposes_do_not_follow_one_another() -> None:
    drawn = {Seeds(seed).generator(purpose).random() for seed in (0, 1, 10) for purpose in ("ties", "0/ties", "jitter")}
    assert len(drawn) == 9


def test_draws_of_one_purpose_do_not_change_those_of_another() -> None:
    seeds = Seeds(7)
    alone = Seeds(7).generator("ties").random()
    seeds.generator("jitter").random()
    assert seeds.generator("ties").random() == alone


def test_another_process_draws_the_same() -> None:
    program = "from kframework.clock import Seeds; print(Seeds(7).generator('ties').random())"
    for hash_seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert float(process.stdout) == Seeds(7).generator("ties").random()
