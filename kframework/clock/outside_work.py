"""Work outside the process: what is under way there, who awaits it, and how long virtual time stands still for it.

Work is a connection that was opened from this loop or asked something, a file that is watched, a job in a thread, and
what a task declares. It counts while a task awaits it. So an idle connection of a pool holds nothing up, nor does one
that was asked for from the other side, nor one whose two ends are both here.

A timeout runs while virtual time passes, and on the machine's clock while it stands still. When the timer of a task
has run out that awaits work outside, the work is given up: time goes on, and reaches the timer. Work without such a
timer is given up after PATIENCE, and an answer that has begun when nothing came for the time of SILENCE: what is silent
then is a stream.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from kframework.clock.waiting import Tasks, tasks_around, tasks_waiting_for

if TYPE_CHECKING:  # no stub has the transport that is meant
    from asyncio import Transport
else:
    from asyncio.selector_events import _SelectorSocketTransport as Transport

_log = logging.getLogger(__name__)

#: How long work outside may take for whose end no timer is set, in seconds of the machine's clock.
PATIENCE = 30.0

#: How long an answer that has begun may be silent.
SILENCE = 5.0


class Timer(asyncio.TimerHandle):
    """A timer that knows the task that set it, and how long virtual time had stood still by then."""

    __slots__ = ("setter", "stood")

    setter: asyncio.Task[object] | None
    stood: float


class Work:
    """Something under way outside, by what name to tell of it, and how to find the tasks that await it."""

    def __init__(self, name: Callable[[], str], tasks: Callable[[], Tasks], patience: float = PATIENCE) -> None:
        self.name = name
        self.tasks = tasks
        self._patience = patience
        #: How long virtual time has stood still since it began; since the last bytes of an answer, None before the
        #: first.
        self._waited = 0.0
        self._silent: float | None = None

    @property
    def left(self) -> float:
        """How long it is still waited for, if no timer ends that earlier."""
        return min(self._patience - self._waited, inf if self._silent is None else SILENCE - self._silent)

    @property
    def answered(self) -> bool:
        """Whether bytes of an answer have come."""
        return self._silent is not None

    def answer(self) -> None:
        """Note that bytes of an answer came."""
        self._silent = 0.0

    def stand_still(self, seconds: float) -> None:
        """Note that virtual time stood still for so long."""
        self._waited += seconds
        if self._silent is not None:
            self._silent += seconds


class OutsideWork:
    """What is under way outside, each by a key of its own: a connection, a job, a file, a task that declares it."""

    def __init__(self) -> None:
        #: How long virtual time has stood still in all, in seconds of the machine's clock.
        self.stood: float = 0.0
        self._works: dict[object, Work] = {}
        self._accepted: WeakSet[Connection] = WeakSet()
        self._in_threads: frozenset[asyncio.Task[Any]] = frozenset()

    @property
    def none(self) -> bool:
        """Whether there surely is none."""
        return not self._works and threading.active_count() == 1

    def begin(self, key: object, work: Work) -> None:
        """Note that this is under way, from now on."""
        self._works[key] = work

    def end(self, key: object) -> None:
        """Note that this is over."""
        self._works.pop(key, None)

    def accept(self, connection: Connection) -> None:
        """Note a connection that was asked for from the other side."""
        self._accepted.add(connection)

    def answer(self, connection: Connection) -> None:
        """Note that bytes came over a connection."""
        work = self._works.get(connection)
        if work is not None:
            work.answer()
            if connection.streams:
                self.end(connection)

    def is_awaited(self) -> bool:
        """Return whether a task awaits any of it; forget the connections that are idle."""
        self._look_at_threads()
        for key, work in list(self._works.items()):
            if isinstance(key, Connection) and self._is_inside(key):
                self.end(key)
            elif work.tasks():
                return True
            elif isinstance(key, Connection) and (work.answered or key.is_closing()):
                self.end(key)
        return False

    def stand_still(self, seconds: float) -> None:
        """Note that virtual time stood still for so long."""
        self.stood += seconds
        for work in self._works.values():
            work.stand_still(seconds)

    def patience(self, now: float, timers: Iterable[asyncio.TimerHandle]) -> float | None:
        """Give up what has taken too long; return how long to wait for the rest, None if nothing is left."""
        left = {}
        set_by: dict[asyncio.Task[object] | None, list[Timer]] = {}
        for timer in timers:
            if isinstance(timer, Timer) and not timer.cancelled():
                set_by.setdefault(timer.setter, []).append(timer)
        for key, work in list(self._works.items()):
            if tasks := work.tasks():
                own = [timer for task in tasks for timer in set_by.get(task, ())]
                run = [timer.when() - now - (self.stood - timer.stood) for timer in own]
                left[key] = min([work.left, *run])
        for key in [key for key, seconds in left.items() if seconds <= 0]:
            del left[key]
            work = self._works.pop(key)
            if work.left > 0:
                continue  # a timeout ends it, of which its author knows
            if isinstance(key, Connection):
                key.streams = work.answered
            _log.warning("virtual time goes on without waiting any longer for %s", work.name())
        return min(PATIENCE, *left.values()) if left else None

    def _look_at_threads(self) -> None:
        """Note who awaits a thread of anyio's, which tells nobody but its limiter."""
        import anyio.to_thread

        limiter = anyio.to_thread.current_default_thread_limiter()
        if not (limiter.borrowed_tokens or self._in_threads):
            return  # beside a thread of somebody else's, a recording's for instance, every jump comes by here
        in_threads = frozenset(task for task in limiter.statistics().borrowers if isinstance(task, asyncio.Task))
        for task in self._in_threads - in_threads:
            self.end(task)
        for task in in_threads - self._in_threads:
            self.begin(task, Work(lambda: "a thread of anyio's", partial(tasks_around, task)))
        self._in_threads = in_threads

    def _is_inside(self, connection: Connection) -> bool:
        """Return whether the other end of a connection is in this loop too."""
        other = connection.get_extra_info("peername")
        return any(accepted.get_extra_info("sockname") == other for accepted in self._accepted)


class Connection(Transport):
    """A connection of a loop on virtual time: it says when something is asked and answered over it."""

    #: Whether bytes come over it that were not asked for; then an answer is over when it has begun.
    streams: bool = False

    def __init__(self, outside: OutsideWork, accepted: bool, *arguments: Any) -> None:
        self._outside = outside
        self._was_accepted = accepted
        super().__init__(*arguments)
        if accepted:
            outside.accept(self)
        self._ask()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._ask()
        super().write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._ask()
        super().writelines(list_of_data)

    def _read_ready(self) -> None:
        self._outside.answer(self)
        # Known to typeshed neither as private nor at all: selector_events calls it when there is something to read.
        super()._read_ready()  # type: ignore[misc]

    def _ask(self) -> None:
        if not self._was_accepted:
            self._outside.begin(self, Work(self._name, lambda: tasks_waiting_for(self.get_protocol())))

    def _name(self) -> str:
        return f"the connection to {self.get_extra_info('peername')}"
