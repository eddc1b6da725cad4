"""Time limits for plugin coroutines: one that exceeds its limit is cancelled; one that ignores that is abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from typing import Final, TypeVar

import anyio

T = TypeVar("T")

#: How long a cancelled coroutine may clean up before it is closed by force, in seconds.
CANCEL_GRACE = 1.0

#: The errors of a plugin that awaits cancelled work, and of one that would end the process.
AWAITED_CANCELLED_TASK: Final = "it awaited a cancelled task"
CALLED_EXIT: Final = "it called sys.exit"


class HookTimeout(Exception):
    """Raised when a plugin exceeds its time limit; `option` is the setting that allows more."""

    def __init__(self, seconds: float, option: str) -> None:
        super().__init__(f"timed out after {seconds:g} s ({option})")


def fault_text(error: Exception) -> Exception | str:
    """Return what to report of a plugin's error; for a timeout only its message, as its traceback is not useful."""
    return str(error) if isinstance(error, HookTimeout) else error


async def guard_cancellation(work: Awaitable[T]) -> T:
    """Await `work`; a CancelledError that did not come from our own cancellation becomes RuntimeError.

    Such a CancelledError would silently end the whole scheduler.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(AWAITED_CANCELLED_TASK) from error


async def with_timeout(seconds: float | None, work: Awaitable[T], option: str) -> T:
    """Await a plugin's work; HookTimeout after this many seconds of the loop's time, None for no limit.

    The work is cancelled then, and its later result is ignored. If the caller is cancelled, so is the work, and its
    result counts.
    """
    loop = asyncio.get_running_loop()
    limit = _Limit(loop.time())
    token = _LIMIT.set(limit)
    task = asyncio.create_task(_contain_exit(work))
    _LIMIT.reset(token)
    # Retrieve the exception, so that asyncio does not log it as unretrieved.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        while not task.done() and (seconds is None or limit.since + seconds > loop.time()):
            await asyncio.wait((task,), timeout=None if seconds is None else limit.since + seconds - loop.time())
        if limit.suspensions and not task.done():
            limit.resumed = loop.create_future()
            await asyncio.wait((task, limit.resumed), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _cancel(task)
        if not task.done() or task.cancelled():
            raise
        return task.result()
    if not task.done():
        await _cancel(task)
        raise HookTimeout(seconds or 0.0, option)
    return await guard_cancellation(task)


async def _contain_exit(work: Awaitable[T]) -> T:
    """Await a plugin's work; a SystemExit, which would end the loop, becomes RuntimeError."""
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(CALLED_EXIT) from error


def without_timeout() -> AbstractContextManager[None]:
    """Suspend the time limit inside; one that has expired meanwhile takes effect at the end."""
    return _LIMIT.get()


def restart_timeout() -> None:
    """Restart the time limit; CancelledError if it has expired, even if the work swallowed that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    _LIMIT.get().since = asyncio.get_running_loop().time()


class _Limit(AbstractContextManager[None]):
    """The time limit of one piece of work: its start, the number of open `without_timeout` sections, and their end."""

    def __init__(self, since: float = 0.0) -> None:
        self.since = since
        self.suspensions = 0
        self.resumed: asyncio.Future[None] | None = None

    def __enter__(self) -> None:
        self.suspensions += 1

    def __exit__(self, *error: object) -> None:
        self.suspensions -= 1
        if not self.suspensions and self.resumed is not None and not self.resumed.done():
            self.resumed.set_result(None)


_LIMIT: ContextVar[_Limit] = ContextVar("kframework limit", default=_Limit())  # noqa: B039  # this default is never awaited


async def _cancel(task: asyncio.Task[T]) -> None:
    """Cancel a task, and close it by force if it swallows its cancellation.

    The GeneratorExit that closes a coroutine is no Exception and acts at once; when resumed, the task finds it closed.
    """
    task.cancel()
    try:
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,), timeout=CANCEL_GRACE)
    finally:
        if not task.done():
            with suppress(Exception):
                task.get_coro().close()
            task.cancel()
