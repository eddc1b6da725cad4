"""Concurrent work that a stop cancels: coroutines spawned by hooks, and reusable tasks."""

from __future__ import annotations

import asyncio
import logging
from bdb import BdbQuit
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from kframework.core.runtime.timing import AttemptTrace, current_attempt
from kframework.scheduler.timeouts import with_timeout

T = TypeVar("T")

BackgroundTask = Coroutine[object, object, None]

_log = logging.getLogger(__name__)


class BackgroundTasks:
    """The running work that hooks have spawned; `on_end` is called when unawaited work ends."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._scopes: dict[anyio.CancelScope, None] = {}

    def register(self, coroutine: BackgroundTask, by: str) -> Callable[[], BackgroundTask]:
        """Register a coroutine; it runs in the task that calls the returned function."""
        scope = anyio.CancelScope()
        self._scopes[scope] = None
        return partial(self._run, scope, coroutine, by)

    async def _run(self, scope: anyio.CancelScope, coroutine: BackgroundTask, by: str) -> None:
        try:
            with scope:
                await log_failures(coroutine, by)
        finally:
            del self._scopes[scope]
            self._on_end()

    async def shield(self, work: Awaitable[T]) -> T:
        """Await work to completion even if the caller is cancelled, until `cancel`."""
        scope = anyio.CancelScope(shield=True)
        self._scopes[scope] = None
        try:
            with scope:
                return await work
        finally:
            del self._scopes[scope]
            await checkpoint_if_cancelled()
        raise asyncio.CancelledError

    def cancel(self) -> None:
        for scope in self._scopes:
            scope.cancel()

    def __len__(self) -> int:
        return len(self._scopes)


async def log_failures(coroutine: BackgroundTask, by: str) -> None:
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
    try:
        await with_timeout(None, coroutine, "")
    except BdbQuit:
        raise
    except Exception:
        # Repeated failures are logged once, as for hooks.
        _log.exception("%s: coroutine %s failed", by, name, extra={"at_fault": f"{by}, coroutine {name}"})


#: The maximum number of idle tasks kept for new work.
MAX_IDLE_WORKERS = 64


class Workers:
    """A group of reusable tasks that start all work immediately; cancelling the group cancels the work.

    Work belongs to the attempt in which it is begun; any other context is what earlier work left in the task.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        #: The futures of idle tasks: work, and the attempt that it belongs to.
        self._idle: list[asyncio.Future[tuple[Awaitable[None], AttemptTrace | None]]] = []

    def start(self, work: Awaitable[None]) -> None:
        """Start work; an exception ends the group."""
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():  # or else it was cancelled with the group
                idle.set_result((work, current_attempt.get()))
                return
        self._tasks.start_soon(self._work, work)

    def start_in_own_task(self, work: Awaitable[None]) -> None:
        self._tasks.start_soon(_await, work)

    async def _work(self, work: Awaitable[None]) -> None:
        await work
        while len(self._idle) < MAX_IDLE_WORKERS:
            # An idle task keeps no reference to finished work: its pod may be gone before there is work again.
            del work
            current_attempt.set(None)
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            work, attempt = await idle
            current_attempt.set(attempt)
            del idle, attempt
            await work


async def _await(work: Awaitable[None]) -> None:
    await work
