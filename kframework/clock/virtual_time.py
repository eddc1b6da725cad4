"""Virtual time lives in the event loop: when nothing is ready to run, the loop jumps to its next timer.

So a plugin's own `asyncio.sleep` is virtual too, and an hour of back-off takes milliseconds. While a task awaits work
outside the process (`outside_work`) time stands still. What comes from there, over a connection or from another thread,
is taken in when nothing is left to do inside: what happens meanwhile does not depend on when it came.
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

from kframework.clock.outside_work import Connection, OutsideWork, Timer, Work
from kframework.clock.waiting import tasks_around, tasks_waiting_for
from kframework.errors import quitting

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: How long an answer is waited for before anybody looks at the timers, in seconds: most answers come earlier.
_FIRST_WAIT = 0.02

#: So many turns of the loop are made without a look outside: whoever turns until an answer is there must get it.
_TURNS = 100_000

_Ready = list[tuple[selectors.SelectorKey, int]]


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits for a timer: it moves the loop's time instead."""

    def __init__(self, timers: Callable[[], Iterable[asyncio.TimerHandle]]) -> None:
        super().__init__()
        self.elapsed = 0.0
        self.outside = OutsideWork()
        #: How often something has come from outside.
        self.answers = 0
        #: What other threads want to have called.
        self.calls: deque[Callable[[], object]] = deque()
        #: Who goes on before time does, lowest number first.
        self.turns: list[tuple[int, int, asyncio.Future[None]]] = []
        self._timers = timers
        self._turned = 0

    def select(self, timeout: float | None = None) -> _Ready:
        """Do not look while something is ready to run; else take in what came, stand still, or jump to the next timer.

        With no timer at all, wait for I/O.
        """
        if timeout == 0:
            self._turned += 1
            if self._turned % _TURNS:
                return []
        ready = super().select(0)
        if self.calls or ready:
            while self.calls:
                self.calls.popleft()()
            self.answers += 1
            return ready
        if timeout == 0:
            return []
        if not self.outside.none and self.outside.is_awaited():
            answers = self._stand_still()
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

    def _stand_still(self) -> _Ready | None:
        """Wait for what is under way outside; None if none of it is to be waited for any longer."""
        answers = self._wait(_FIRST_WAIT)
        if answers:
            return answers
        seconds = self.outside.patience(self.elapsed, self._timers())
        return None if seconds is None else self._wait(seconds)

    def _wait(self, seconds: float) -> _Ready:
        began = time.monotonic()
        answers = super().select(seconds)
        self.outside.stand_still(time.monotonic() - began)
        self.answers += bool(answers)
        return answers

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._watched(super().register(fileobj, events, data))

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._watched(super().modify(fileobj, events, data))

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self.outside.end(key.fd)
        return key

    def _watched(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        """Take it for work, unless it is a connection, which tells of itself, or a door at which others ask."""
        if not any(map(_is_of_connection, key.data)) and not _listens(key.fd):
            self.outside.begin(key.fd, Work(lambda: f"file {key.fd}", lambda: tasks_waiting_for(key.data)))
        return key


def _is_of_connection(handle: asyncio.Handle | None) -> bool:
    return isinstance(getattr(getattr(handle, "_callback", None), "__self__", None), Connection)


def _listens(file: int) -> bool:
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
        self._outside = self._jumping.outside
        self._accepted: WeakSet[socket] = WeakSet()
        self._numbers = count()
        super().__init__(self._jumping)
        for file in self._jumping.get_map():  # the pipe that wakes the loop
            self._outside.end(file)

    def time(self) -> float:
        return self._jumping.elapsed

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer; whoever sets it may be waiting for something outside when it is due."""
        timer = Timer(when, callback, args, self, context)
        timer.setter, timer.stood = asyncio.current_task(self), self._outside.stood
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # by which a loop counts the cancelled
        return timer

    def begin(self, task: asyncio.Task[Any]) -> object:
        """Note that whatever this task awaits is outside; return what ends that."""
        key = object()
        self._outside.begin(key, Work(task.get_name, partial(tasks_around, task), patience=inf))
        return key

    def end(self, key: object) -> None:
        """Note that it is over."""
        self._outside.end(key)

    @property
    def answers(self) -> int:
        """How often something has come from outside."""
        return self._jumping.answers

    async def turn(self, number: int, answers: int) -> None:
        """Wait, if there have been more answers than these, until none is awaited; lower numbers go on first."""
        if self.answers != answers:
            turn = self.create_future()
            self._jumping.turns.append((number, next(self._numbers), turn))
            await turn

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run a job in a thread: that is outside."""
        job = super().run_in_executor(executor, func, *args)
        self._outside.begin(job, Work(lambda: f"{func!r} in a thread", lambda: tasks_waiting_for(job)))
        job.add_done_callback(self._outside.end)
        return job

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call what another thread wants, when nothing is left to do inside."""
        call = partial(self.call_soon, callback, *args, context=context)
        return super().call_soon_threadsafe(self._jumping.calls.append, call)

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        """Wait for the threads, which are outside."""
        task = asyncio.current_task()
        assert task is not None
        key = self.begin(task)
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self.end(key)

    async def connect_accepted_socket(self, protocol_factory: Any, sock: socket, **settings: Any) -> Any:
        """Take over a connection for which the other side asked."""
        self._accepted.add(sock)
        return await super().connect_accepted_socket(protocol_factory, sock, **settings)

    def _make_socket_transport(
        self, sock: socket, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> Connection:
        accepted = server is not None or sock in self._accepted
        return Connection(self._outside, accepted, self, sock, protocol, waiter, extra, server)


@asynccontextmanager
async def outside(seconds: float) -> AsyncIterator[None]:
    """Await what comes from outside the process unseen by the loop; TimeoutError after so many seconds.

    Connections, subprocesses and threads that asyncio, anyio or a library on them started need no such word. In virtual
    time the seconds are those of the machine's clock, and time stands still meanwhile: a simulation depends on what the
    answer is, not on how long it takes.
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


async def in_turn(number: int, work: Awaitable[T]) -> T:
    """Await this; if answers came from outside meanwhile, go on when none is awaited any more, lowest number first.

    So what follows on them has an order that does not depend on theirs.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        return await work
    before = loop.answers
    try:
        answer = await work
    except Exception:
        await loop.turn(number, before)
        raise
    await loop.turn(number, before)
    return answer


def run_virtual(main: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine function to its end on virtual time and return its result."""
    results: list[T] = []

    async def run() -> None:
        results.append(await main())

    # At the end Python writes a task out, in an error that nobody sees, with all that it returns: 50 µs for each pod of
    # a simulation.
    with quitting(), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())
    return results[0]


def beside_running_loop(run: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run what runs a loop; where one runs already, as in a notebook, in a thread, for whose end is waited."""
    if asyncio._get_running_loop() is None:
        return run(*args)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run, *args).result()
