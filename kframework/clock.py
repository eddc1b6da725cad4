"""Where time and chance come from: one Clock, real or virtual, and one seed.

Virtual time lives in the event loop: when nothing is ready to run, the loop jumps to its next timer. So a plugin's own
`asyncio.sleep` is virtual too, and an hour of back-off takes milliseconds. It stands still while an answer from outside
the process is awaited (`outside`).
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import Protocol, TypeVar

from kframework.errors import quitting

__all__ = ["VIRTUAL_EPOCH", "Seeds", "SystemClock", "outside", "rfc3339", "rfc3339_micro", "seconds_of"]

T = TypeVar("T")

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
        self._loop = loop
        self._epoch = epoch

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""
        return self._epoch + self._loop.time()


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits for a timer: it moves the loop's time instead.

    `awaited` holds the limits of what is awaited from outside, with the moments of the machine's clock when they end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0
        self.awaited: dict[asyncio.Timeout, float] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Poll; with nothing ready and a timer to wait for, jump to it; with no timer at all, wait for I/O."""
        if self.awaited:
            return self._select_outside(timeout)
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            self.elapsed += timeout
        return ready

    def _select_outside(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for I/O on the machine's clock, once all that was ready has run: its order must not depend on others."""
        if timeout == 0:
            return []
        ready = super().select(max(min(self.awaited.values()) - time.monotonic(), 0))
        now = time.monotonic()
        for limit in [limit for limit, end in self.awaited.items() if end <= now]:
            del self.awaited[limit]
            limit.reschedule(self.elapsed)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, starting at 0 s."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def stand_still(self, limit: asyncio.Timeout, seconds: float) -> None:
        """Let time stand still until `move_on`, and end the limit after so many seconds of the machine's clock."""
        self._jumping.awaited[limit] = time.monotonic() + seconds

    def move_on(self, limit: asyncio.Timeout) -> None:
        """Let time go on, unless something else is awaited."""
        self._jumping.awaited.pop(limit, None)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._jumping.elapsed


@asynccontextmanager
async def outside(seconds: float) -> AsyncIterator[None]:
    """Await an answer from outside the process, TimeoutError after so many seconds of the machine's clock.

    Virtual time stands still meanwhile: a simulation depends on what the answer is, not on how long it takes.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        async with asyncio.timeout(seconds):
            yield
        return
    async with asyncio.timeout(None) as limit:
        loop.stand_still(limit, seconds)
        try:
            yield
        finally:
            loop.move_on(limit)


def run_virtual(main: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine function to its end on virtual time and return its result."""
    with quitting(), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())


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
