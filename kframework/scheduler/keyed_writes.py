"""Writes that wait for their turn: some side by side, but never two of one key, so that they land in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio

from kframework.core.cycle.asking import Asking, awaited

K = TypeVar("K", bound=Hashable)
W = TypeVar("W")


class KeyedWriteQueue(Generic[K, W]):
    """Makes at most `limit` writes at a time, first come, first served; `on_idle` is called after the last one.

    A write that is put while one of its key waits takes that one's place; while one of its key is in flight, it waits
    for the end of that and then goes to the tail. `write` raises nothing. What has nothing to wait for is written in
    one go with all else that waits, and only what has costs a task.
    """

    def __init__(self, write: Callable[[W], Asking[None]], limit: int, on_idle: Callable[[], None]) -> None:
        self._write = write
        self._limit = limit
        self._on_idle = on_idle
        self._waiting: dict[K, W] = {}
        self._in_flight: dict[K, W] = {}
        #: The keys whose turn it is next. One that was dropped meanwhile, or is in flight, is passed over.
        self._turns: deque[K] = deque()
        #: Set when there is a turn to take that no writer takes which is at work; None before it is waited for.
        self._woken: asyncio.Future[None] | None = None
        self._landings: dict[K, asyncio.Event] = {}

    def put(self, key: K, write: W) -> None:
        """Let a write wait for its turn."""
        if key not in self._waiting and key not in self._in_flight:
            self._turns.append(key)
            self._wake()
        self._waiting[key] = write

    def waiting(self, key: K) -> W | None:
        """Return the write that waits under a key."""
        return self._waiting.get(key)

    def in_flight(self, key: K) -> W | None:
        """Return the write of this key that is in flight."""
        return self._in_flight.get(key)

    def drop(self, key: K) -> W | None:
        """Do not make the write that waits under this key; return it."""
        return self._waiting.pop(key, None)

    async def landed(self, key: K) -> None:
        """Wait until the write of this key that is in flight has ended, if there is one."""
        if key in self._in_flight:
            await self._landings.setdefault(key, asyncio.Event()).wait()

    async def run(self) -> None:
        """Write for ever."""
        async with anyio.create_task_group() as tasks:
            while True:
                woken = self._woken = asyncio.get_running_loop().create_future()
                while len(self._in_flight) < self._limit and (work := self._next()) is not None:
                    if (question := next(work, None)) is not None:
                        tasks.start_soon(self._write_on, work, question)
                await woken

    async def _write_on(self, work: Asking[None], question: Awaitable[object]) -> None:
        """Bring a write to its end that has to wait, and make others in turn while there are any."""
        await awaited(work, question)
        while (following := self._next()) is not None:
            await awaited(following)

    def _wake(self) -> None:
        if self._woken is not None and len(self._in_flight) < self._limit and not self._woken.done():
            self._woken.set_result(None)

    def _next(self) -> Asking[None] | None:
        """Return the write whose turn it is."""
        while self._turns:
            key = self._turns.popleft()
            if key in self._waiting and key not in self._in_flight:
                return self._make(key, self._waiting.pop(key))
        return None

    def _make(self, key: K, write: W) -> Asking[None]:
        self._in_flight[key] = write
        try:
            yield from self._write(write)
        finally:
            del self._in_flight[key]
            if self._landings and (landing := self._landings.pop(key, None)) is not None:
                landing.set()
            if key in self._waiting:
                self._turns.append(key)
        if self.idle:
            self._on_idle()

    def __contains__(self, key: K) -> bool:
        """Whether something waits or is in flight under this key."""
        return key in self._waiting or key in self._in_flight

    def __len__(self) -> int:
        """Count the writes that wait; those in flight are no longer among them."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not (self._waiting or self._in_flight)
