"""The sources of time (`Clock`, real or virtual) and of randomness (`Seeds`)."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import Protocol

from kframework.clock.virtual_time import VirtualTimeLoop as VirtualTimeLoop
from kframework.clock.virtual_time import await_in_order as await_in_order
from kframework.clock.virtual_time import call_off_loop as call_off_loop
from kframework.clock.virtual_time import external_wait
from kframework.clock.virtual_time import run_virtual as run_virtual

__all__ = ["VIRTUAL_EPOCH", "Seeds", "SystemClock", "external_wait", "rfc3339", "rfc3339_micro", "seconds_of"]

#: The instant at which virtual time starts: 2026-01-01T00:00:00Z, in seconds since 1970.
VIRTUAL_EPOCH = 1767225600.0


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""


class SystemClock:
    """The wall clock at start plus the monotonic clock, so that a clock step (NTP, suspend) moves no timeout."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""
        return self._offset + time.monotonic()


class LoopClock:
    """The time of an event loop, counted from an epoch; virtual if the loop is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = VIRTUAL_EPOCH) -> None:
        self._loop_time = loop.time
        self._epoch = epoch

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""
        return self._epoch + self._loop_time()


def rfc3339(seconds: float) -> str:
    """Format seconds since 1970 as Kubernetes does: UTC, whole seconds, e.g. `2026-01-01T00:00:00Z`."""
    return f"{_format_second(int(seconds))}Z"


def rfc3339_micro(seconds: float) -> str:
    """Format seconds since 1970 with microseconds, for Events and Leases: `2026-01-01T00:00:00.000000Z`."""
    second, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_format_second(second)}.{microseconds:06d}Z"


@lru_cache(maxsize=16)  # most calls share a second, and strftime is most of the cost
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def seconds_of(text: str) -> float:
    """Parse a Kubernetes timestamp into seconds since 1970; raises ValueError."""
    return datetime.fromisoformat(text).timestamp()


class Seeds:
    """Random generators derived from one seed; a purpose gets the same sequence in every process.

    Purposes do not share a generator, so a run with one more plugin breaks ties exactly as the run without it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, purpose: str) -> Random:
        """Return a new generator for a purpose, e.g. `ties` or `plugin default-scheduler/Fancy`."""
        return Random(f"{self.seed}/{purpose}")
