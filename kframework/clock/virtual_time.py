"""An event loop on virtual time: when nothing is ready to run, it jumps to its next timer.

A plugin's own `asyncio.sleep` is therefore virtual too, and an hour of backoff takes milliseconds. While a task awaits
an operation outside the process (`external_io`) time is paused. Data from outside, over a connection or from another
thread, is processed only when nothing else is ready, so the order of events does not depend on when it arrived.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import Context
from functools import partial
from itertools import count
from math import inf
from socket import SO_ACCEPTCONN, SOL_SOCKET, socket
from typing import Any, TypeVar, TypeVarTuple
from weakref import WeakSet

from kframework.clock.awaiters import find_awaiters, task_and_awaiters
from kframework.clock.external_io import ExternalIO, Operation, Timer, TrackedTransport
from kframework.errors import exit_on_debugger_quit

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: How long to wait for data before the timers are checked, in seconds: most responses arrive earlier.
_FIRST_WAIT = 0.02

#: Polls for I/O are skipped at most this often in a row: a task that spins until data arrives must get it.
_MAX_UNPOLLED_SELECTS = 100_000

_Ready = list[tuple[selectors.SelectorKey, int]]


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the loop's time instead of waiting for a timer."""

    def __init__(self, timers: Callable[[], Iterable[asyncio.TimerHandle]]) -> None:
        super().__init__()
        self.elapsed = 0.0
        self.external = ExternalIO()
        #: How often data or calls have arrived from outside.
        self.answers = 0
        #: Calls submitted by other threads.
        self.calls: deque[Callable[[], object]] = deque()
        #: Futures to resolve before time advances, lowest number first.
        self.turns: list[tuple[int, int, asyncio.Future[None]]] = []
        self._timers = timers
        self._unpolled = 0

    def select(self, timeout: float | None = None) -> _Ready:
        """Return ready I/O; if there is none, wait for operations in flight or jump to the next timer.

        Callbacks that are ready run before any I/O. Without timers, wait for I/O.
        """
        if timeout == 0:
            self._unpolled += 1
            if self._unpolled % _MAX_UNPOLLED_SELECTS:
                return []
        ready = super().select(0)
        if self.calls or ready:
            while self.calls:
                self.calls.popleft()()
            self.answers += 1
            return ready
        if timeout == 0:
            return []
        if not self.external.is_idle and self.external.is_awaited():
            answers = self._wait_for_external()
            if answers is not None:
                return answers
        if self.turns:
            turns, self.turns = self.turns, []
            for _, _, turn in sorted(turns):
                if not turn.done():
                    turn.set_result(None)
            return []
        if timeout is None:
            return super().select(None)
        self.elapsed += timeout
        return []

    def _wait_for_external(self) -> _Ready | None:
        """Wait for operations in flight; None if all of them are abandoned."""
        answers = self._wait(_FIRST_WAIT)
        if answers:
            return answers
        seconds = self.external.drop_overdue(self.elapsed, self._timers())
        return None if seconds is None else self._wait(seconds)

    def _wait(self, seconds: float) -> _Ready:
        began = time.monotonic()
        answers = super().select(seconds)
        self.external.add_pause(time.monotonic() - began)
        self.answers += bool(answers)
        return answers

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._track(super().register(fileobj, events, data))

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._track(super().modify(fileobj, events, data))

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self.external.end(key.fd)
        return key

    def _track(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        """Track a file as an operation, unless it is a connection, which tracks itself, or a listening socket."""
        if not any(map(_is_transport_callback, key.data)) and not _is_listening(key.fd):
            self.external.begin(key.fd, Operation(lambda: f"file {key.fd}", lambda: find_awaiters(key.data)))
        return key


def _is_transport_callback(handle: asyncio.Handle | None) -> bool:
    return isinstance(getattr(getattr(handle, "_callback", None), "__self__", None), TrackedTransport)


def _is_listening(file: int) -> bool:
    try:
        subject = socket(fileno=file)
    except OSError:  # no socket
        return False
    try:
        return bool(subject.getsockopt(SOL_SOCKET, SO_ACCEPTCONN))
    finally:
        subject.detach()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, starting at 0 s."""

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        self._jumping = _JumpingSelector(lambda: self._scheduled)
        self._external = self._jumping.external
        self._accepted: WeakSet[socket] = WeakSet()
        self._numbers = count()
        super().__init__(self._jumping)
        for file in self._jumping.get_map():  # the pipe that wakes the loop
            self._external.end(file)

    def time(self) -> float:
        return self._jumping.elapsed

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer that knows its task, which may await an operation when the timer is due."""
        timer = Timer(when, callback, args, self, context)
        timer.task, timer.paused, timer.number = asyncio.current_task(self), self._external.paused, next(self._numbers)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # asyncio counts cancelled timers by it
        return timer

    def begin(self, task: asyncio.Task[Any]) -> object:
        """Treat whatever this task awaits as an operation; return the key that ends it."""
        key = object()
        self._external.begin(key, Operation(task.get_name, partial(task_and_awaiters, task), timeout=inf))
        return key

    def end(self, key: object) -> None:
        self._external.end(key)

    @property
    def answers(self) -> int:
        """How often data or calls have arrived from outside."""
        return self._jumping.answers

    async def wait_turn(self, number: int, answers: int) -> None:
        """If answers arrived since `answers`, wait until none is awaited; lower numbers resume first."""
        if self.answers != answers:
            turn = self.create_future()
            self._jumping.turns.append((number, next(self._numbers), turn))
            await turn

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        job = super().run_in_executor(executor, func, *args)
        self._external.begin(job, Operation(lambda: f"{func!r} in a thread", lambda: find_awaiters(job)))
        job.add_done_callback(self._external.end)
        return job

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call this, for another thread, when nothing else is ready."""
        call = partial(self.call_soon, callback, *args, context=context)
        return super().call_soon_threadsafe(self._jumping.calls.append, call)

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        key = self.begin(task)
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self.end(key)

    async def connect_accepted_socket(self, protocol_factory: Any, sock: socket, **settings: Any) -> Any:
        self._accepted.add(sock)
        return await super().connect_accepted_socket(protocol_factory, sock, **settings)

    def _make_socket_transport(
        self, sock: socket, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> TrackedTransport:
        accepted = server is not None or sock in self._accepted
        return TrackedTransport(self._external, accepted, self, sock, protocol, waiter, extra, server)


@asynccontextmanager
async def external_wait(seconds: float) -> AsyncIterator[None]:
    """Pause virtual time for an await that the loop cannot attribute; TimeoutError after `seconds` of real time.

    Connections, subprocesses and threads started through asyncio, anyio or a library on top of them do not need this.
    The result of a simulation then depends on the answer, not on how long it takes.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    async with asyncio.timeout(seconds):
        if not isinstance(loop, VirtualTimeLoop) or task is None:
            yield
            return
        key = loop.begin(task)
        try:
            yield
        finally:
            loop.end(key)


async def await_in_order(number: int, work: Awaitable[T]) -> T:
    """Await `work`; if answers arrived from outside meanwhile, resume in order of `number`, once none is awaited.

    The order of what follows then does not depend on the order in which the answers arrived.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        return await work
    before = loop.answers
    try:
        answer = await work
    except Exception:
        await loop.wait_turn(number, before)
        raise
    await loop.wait_turn(number, before)
    return answer


def run_virtual(main: Callable[[], Coroutine[object, object, T]]) -> T:
    results: list[T] = []

    async def run() -> None:
        results.append(await main())

    # Not returned by the task: at exit Python formats a task's result for a hidden error, 50 µs per simulated pod.
    with exit_on_debugger_quit(), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())
    return results[0]


def call_off_loop(run: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call a function that runs an event loop; from inside another loop (a notebook), in a thread."""
    if asyncio._get_running_loop() is None:
        return run(*args)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run, *args).result()
