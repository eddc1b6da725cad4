"""Where time and chance come from: one Clock, real or virtual, and one seed."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import Protocol

from kframework.clock.virtual_time import VirtualTimeLoop as VirtualTimeLoop
from kframework.clock.virtual_time import beside_running_loop as beside_running_loop
from kframework.clock.virtual_time import in_turn as in_turn
from kframework.clock.virtual_time import outside
from kframework.clock.virtual_time import run_virtual as run_virtual

__all__ = ["VIRTUAL_EPOCH", "Seeds", "SystemClock", "outside", "rfc3339", "rfc3339_micro", "seconds_of"]

#: The instant at which virtual time starts: 2026-01-01T00:00:00Z, in seconds since 1970.
VIRTUAL_EPOCH = 1767225600.0


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""
        ...


class SystemClock:
    """The wall clock of this machine, as it stood at the start and moved on by the monotonic clock.

    A step of the machine's clock (NTP, a suspended laptop) therefore moves no backoff and no timeout.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""
        return self._offset + time.monotonic()


class LoopClock:
    """The time of an event loop, counted from an epoch; virtual when the loop is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = VIRTUAL_EPOCH) -> None:
        self._loop_time = loop.time
        self._epoch = epoch

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""
        return self._epoch + self._loop_time()


def rfc3339(seconds: float) -> str:
    """Write an instant as Kubernetes does: UTC, whole seconds, e.g. `2026-01-01T00:00:00Z`."""
    return f"{_second(int(seconds))}Z"


def rfc3339_micro(seconds: float) -> str:
    """Write an instant with microseconds, as Events and Leases want it: `2026-01-01T00:00:00.000000Z`."""
    second, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_second(second)}.{microseconds:06d}Z"


@lru_cache(maxsize=16)  # much is written within one second, and to write the second down costs most of it
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def seconds_of(text: str) -> float:
    """Return the seconds since 1970 of a Kubernetes timestamp; ValueError if it is none."""
    return datetime.fromisoformat(text).timestamp()


class Seeds:
    """Generators derived from one seed; the same purpose gets the same sequence in every process.

    Each purpose has its own, so that no one's draws move another's: a run with one plugin more breaks ties exactly as
    the run without it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, purpose: str) -> Random:
        """Return a new generator for a purpose, e.g. `ties` or `plugin default-scheduler/Fancy`."""
        return Random(f"{self.seed}/{purpose}")
