"""Operations outside the process, the tasks that await them, and how long virtual time is paused for them.

An operation is a connection that this loop opened or sent a request over, a watched file, a job in a thread, or what a
task declares. It counts only while a task awaits it. An idle connection of a pool therefore does not pause time, nor
does an accepted connection, nor one with both ends in this loop.

A timeout counts virtual time while that passes, and real time while it is paused. When a timer of a task that awaits
an operation is due, the operation is abandoned: virtual time moves on and reaches the timer. An operation without such
a timer is abandoned after `OPERATION_TIMEOUT`, and a response that has begun after `SILENCE_TIMEOUT` without data: it
is taken for a stream.
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

from kframework.clock.awaiters import Tasks, find_awaiters, task_and_awaiters

if TYPE_CHECKING:  # no stub has the class that runs
    from asyncio import Transport
else:
    from asyncio.selector_events import _SelectorSocketTransport as Transport

_log = logging.getLogger(__name__)

#: How long to wait for an operation without a timer, in real seconds.
OPERATION_TIMEOUT = 30.0

#: How long a response that has begun may send nothing, in real seconds.
SILENCE_TIMEOUT = 5.0


class Timer(asyncio.TimerHandle):
    """A timer with the task that set it and the pause total (`ExternalIO.paused`) at that time.

    Of timers that are due at once the first one set, which has the lowest `number`, comes first, whatever other timers
    there are: asyncio leaves that to the shape of its heap.
    """

    __slots__ = ("number", "paused", "task")

    task: asyncio.Task[object] | None
    paused: float
    number: int

    def __lt__(self, other: Timer) -> bool:  # type: ignore[override]  # the loop has no others
        due, others = self.when(), other.when()
        return due < others or (due == others and self.number < other.number)


class Operation:
    """An operation in flight: how to name it in the log, and how to find the tasks that await it."""

    def __init__(
        self, name: Callable[[], str], awaiters: Callable[[], Tasks], timeout: float = OPERATION_TIMEOUT
    ) -> None:
        self.name = name
        self.awaiters = awaiters
        self._timeout = timeout
        #: Seconds paused since it began; since the last bytes of a response, None before the first.
        self._paused = 0.0
        self._silent: float | None = None

    @property
    def remaining(self) -> float:
        """Seconds to wait for it at most, if no timer ends it earlier."""
        return min(self._timeout - self._paused, inf if self._silent is None else SILENCE_TIMEOUT - self._silent)

    @property
    def has_response(self) -> bool:
        return self._silent is not None

    def record_data(self) -> None:
        self._silent = 0.0

    def add_pause(self, seconds: float) -> None:
        self._paused += seconds
        if self._silent is not None:
            self._silent += seconds


class ExternalIO:
    """The operations in flight, each with its own key: a connection, a job, a file, a task that declares it."""

    def __init__(self) -> None:
        #: Total pauses of virtual time, in real seconds.
        self.paused: float = 0.0
        self._operations: dict[object, Operation] = {}
        self._accepted: WeakSet[TrackedTransport] = WeakSet()
        self._in_threads: frozenset[asyncio.Task[Any]] = frozenset()

    @property
    def is_idle(self) -> bool:
        """Whether certainly nothing is in flight."""
        return not self._operations and threading.active_count() == 1

    def begin(self, key: object, operation: Operation) -> None:
        self._operations[key] = operation

    def end(self, key: object) -> None:
        self._operations.pop(key, None)

    def add_accepted(self, connection: TrackedTransport) -> None:
        self._accepted.add(connection)

    def record_data(self, connection: TrackedTransport) -> None:
        operation = self._operations.get(connection)
        if operation is not None:
            operation.record_data()
            if connection.is_stream:
                self.end(connection)

    def is_awaited(self) -> bool:
        """Return whether a task awaits any operation; drop idle connections."""
        self._update_threads()
        for key, operation in list(self._operations.items()):
            if isinstance(key, TrackedTransport) and self._is_internal(key):
                self.end(key)
            elif operation.awaiters():
                return True
            elif isinstance(key, TrackedTransport) and (operation.has_response or key.is_closing()):
                self.end(key)
        return False

    def add_pause(self, seconds: float) -> None:
        self.paused += seconds
        for operation in self._operations.values():
            operation.add_pause(seconds)

    def drop_overdue(self, now: float, timers: Iterable[asyncio.TimerHandle]) -> float | None:
        """Abandon overdue operations; return the seconds to wait for the others, None if there are none."""
        remaining = {}
        timers_by_task: dict[asyncio.Task[object] | None, list[Timer]] = {}
        for timer in timers:
            if isinstance(timer, Timer) and not timer.cancelled():
                timers_by_task.setdefault(timer.task, []).append(timer)
        for key, operation in list(self._operations.items()):
            if tasks := operation.awaiters():
                own = [timer for task in tasks for timer in timers_by_task.get(task, ())]
                until_due = [timer.when() - now - (self.paused - timer.paused) for timer in own]
                remaining[key] = min([operation.remaining, *until_due])
        for key in [key for key, seconds in remaining.items() if seconds <= 0]:
            del remaining[key]
            operation = self._operations.pop(key)
            if operation.remaining > 0:
                continue  # ended by the caller's own timeout: no warning
            if isinstance(key, TrackedTransport):
                key.is_stream = operation.has_response
            _log.warning("virtual time moves on: gave up waiting for %s", operation.name())
        return min(OPERATION_TIMEOUT, *remaining.values()) if remaining else None

    def _update_threads(self) -> None:
        """Track the tasks that await a worker thread of anyio, which only its limiter lists."""
        import anyio.to_thread

        limiter = anyio.to_thread.current_default_thread_limiter()
        if not (limiter.borrowed_tokens or self._in_threads):
            return  # runs at every jump of time while any other thread exists, such as a recording's
        in_threads = frozenset(task for task in limiter.statistics().borrowers if isinstance(task, asyncio.Task))
        for task in self._in_threads - in_threads:
            self.end(task)
        for task in in_threads - self._in_threads:
            self.begin(task, Operation(lambda: "a thread of anyio's", partial(task_and_awaiters, task)))
        self._in_threads = in_threads

    def _is_internal(self, connection: TrackedTransport) -> bool:
        """Return whether the other end of a connection is in this loop too."""
        other = connection.get_extra_info("peername")
        return any(accepted.get_extra_info("sockname") == other for accepted in self._accepted)


class TrackedTransport(Transport):
    """A connection of a loop on virtual time that tracks its requests and responses."""

    #: Whether bytes arrive without a request; a response is then over as soon as it has begun.
    is_stream: bool = False

    def __init__(self, external: ExternalIO, is_accepted: bool, *arguments: Any) -> None:
        self._external = external
        self._is_accepted = is_accepted
        super().__init__(*arguments)
        if is_accepted:
            external.add_accepted(self)
        self._track_request()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._track_request()
        super().write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._track_request()
        super().writelines(list_of_data)

    def _read_ready(self) -> None:
        self._external.record_data(self)
        # Missing in typeshed: selector_events calls it when data can be read.
        super()._read_ready()  # type: ignore[misc]

    def _track_request(self) -> None:
        if not self._is_accepted:
            self._external.begin(self, Operation(self._describe, lambda: find_awaiters(self.get_protocol())))

    def _describe(self) -> str:
        return f"the connection to {self.get_extra_info('peername')}"
