"""An event loop on virtual time in which a schedule decides when each thing from outside comes in.

What is ready runs first in, first out, as asyncio promises. Between two turns of the loop a schedule chooses what comes
in: a request that reaches the API, an answer, a line of a watch, what others do to the cluster, a call of a thread; or
that time passes until the next timer, even if much is left to do. A real loop may see all of this (`tests/README.md`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from kframework.clock import VirtualTimeLoop

__all__ = ["GO_ON", "NOT_YET", "TIME", "Arrival", "ExploringLoop", "Option", "Schedule"]

#: The labels of the two options that are no arrival: nothing comes in yet; the next timer is due.
GO_ON, TIME = "the loop goes on", "time passes"

#: How the label of what is held back begins.
NOT_YET = "not yet: "

#: Timers that are due within this time of each other, in seconds, are due at once: asyncio does not say which is first.
SAME_INSTANT = 1e-5

#: How often a schedule is asked within one run: whoever asks more often never comes to rest.
MAX_POINTS = 20_000


class Option(NamedTuple):
    """Something that may happen next; options of one source keep their order."""

    source: str
    label: str
    happen: Callable[[], object]


class Schedule(Protocol):
    """Decides what happens next."""

    def choose(self, time: float, options: list[Option]) -> int:
        """Return the index of one of several options; the first is what happens without interference."""
        ...


class Arrival:
    """Something outside that is ready to come in, in one of several ways."""

    __slots__ = ("awaited", "loop", "source", "ways")

    def __init__(
        self, loop: ExploringLoop, source: str, ways: tuple[tuple[str, Callable[[], object]], ...], awaited: bool
    ) -> None:
        self.loop = loop
        self.source = source
        self.ways = ways
        self.awaited = awaited

    def hold(self) -> None:
        """Let it not come in by itself until the run is to end."""
        self.awaited = False

    def withdraw(self) -> None:
        """Let it not come in any more."""
        if self in self.loop.arrivals:
            self.loop.arrivals.remove(self)


class ExploringLoop(VirtualTimeLoop):
    """An event loop whose schedule decides when what is outside comes in."""

    _ready: Any
    _stopping: bool

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.arrivals: list[Arrival] = []
        #: From then on all comes in as it comes, so that the run ends.
        self.settling = False
        self.points = 0
        self._schedule = schedule

    def offer(self, source: str, *ways: tuple[str, Callable[[], object]], awaited: bool = True) -> Arrival:
        """Let something come in when the schedule says so, after what this source has offered before.

        Without interference, awaited results come before time passes, and other things when the run is to end.
        """
        arrival = Arrival(self, source, ways, awaited)
        self.arrivals.append(arrival)
        return arrival

    async def come(self, source: str, label: str, *others: tuple[str, BaseException]) -> None:
        """Wait until something comes in, unless one of the other ways, each with what it raises, is taken."""
        come: asyncio.Future[None] = self.create_future()

        def arrive() -> None:
            if not come.done():
                come.set_result(None)

        def fail(error: BaseException) -> Callable[[], object]:
            return lambda: None if come.done() else come.set_exception(error)

        arrival = self.offer(source, (label, arrive), *((text, fail(error)) for text, error in others))
        try:
            await come
        finally:
            arrival.withdraw()

    def _run_once(self) -> None:
        while not self._stopping:
            options = list(self._options())
            if not options:
                break
            option = options[0 if len(options) == 1 else self._chosen(options)]
            option.happen()
            if option.label == GO_ON or option.source == TIME:
                break
        super()._run_once()  # type: ignore[misc]  # the one step of a loop, which asyncio hides

    def _chosen(self, options: list[Option]) -> int:
        self.points += 1
        if self.settling:
            return 0
        if self.points > MAX_POINTS:
            raise RuntimeError(f"this never comes to rest: {', '.join(option.label for option in options)}")
        return self._schedule.choose(self.time(), options)

    def _options(self) -> Iterator[Option]:
        """List what may happen next, first what happens without interference."""
        if self._ready:
            yield Option(GO_ON, GO_ON, _nothing)
        heads: dict[str, Arrival] = {}
        for arrival in self.arrivals:
            heads.setdefault(arrival.source, arrival)
        yield from self._ways(each for each in heads.values() if each.awaited or self.settling)
        timers = sorted(timer for timer in self._scheduled if not timer.cancelled())
        for number, timer in enumerate(timers):
            if timer.when() - timers[0].when() > SAME_INSTANT:
                break
            label = TIME if not number else f"{TIME} for timer {number + 1} that is due"
            yield Option(TIME, label, self._passing(timer, timers[:number]))
        yield from self._ways(each for each in heads.values() if not each.awaited and not self.settling)

    def _ways(self, arrivals: Iterable[Arrival]) -> Iterator[Option]:
        for arrival in arrivals:
            for label, happen in arrival.ways:
                yield Option(arrival.source, label, self._coming(arrival, happen))
            if arrival.awaited and not self.settling:
                yield Option(arrival.source, f"{NOT_YET}{arrival.ways[0][0]}", arrival.hold)

    def _coming(self, arrival: Arrival, happen: Callable[[], object]) -> Callable[[], object]:
        def come() -> None:
            self.arrivals.remove(arrival)
            happen()

        return come

    def _passing(self, timer: asyncio.TimerHandle, others: list[asyncio.TimerHandle]) -> Callable[[], object]:
        """Let time pass until this timer is due, before those others, which were to be first."""

        def pass_time() -> None:
            for late in others:
                late._when = timer.when() + SAME_INSTANT / 2  # type: ignore[attr-defined]  # a timer may always be late
            heapq.heapify(self._scheduled)
            self._jumping.elapsed = max(self._jumping.elapsed, timer.when())

        return pass_time


def _nothing() -> None:
    """Let nothing come in."""
