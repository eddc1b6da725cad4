"""How long is waited for a plugin: what takes longer is cancelled, and what ignores that is not waited for either."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, TypeVar

import anyio

T = TypeVar("T")

#: How long what is cancelled may take to clean up before it is ended by force, in seconds.
GRACE = 1.0


#: What is said of a plugin that awaits what somebody has cancelled.
WAS_CANCELLED: Final = "what it awaited was cancelled"


class HookTimeout(Exception):
    """Raised when a plugin has not done in time what it was asked for; `option` is what allows it more."""

    def __init__(self, seconds: float, option: str) -> None:
        super().__init__(f"timed out after {seconds:g} s ({option})")


def said(error: Exception) -> Exception | str:
    """Return what to say of a plugin's fault; of a timeout its words alone, as its traceback says nothing."""
    return str(error) if isinstance(error, HookTimeout) else error


async def contained(work: Awaitable[T]) -> T:
    """Await what is to be done; RuntimeError where it awaits what was cancelled, though nobody cancels the work itself.

    Such a CancelledError would end the whole scheduler, without a word.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(WAS_CANCELLED) from error


async def within(seconds: float | None, work: Awaitable[T], option: str) -> T:
    """Await what a plugin is to do, contained; HookTimeout after so many seconds of the loop's time, None for never.

    It is cancelled then, and what it still answers nobody hears. If whoever waits is cancelled, so is it, and has the
    last word.
    """
    loop = asyncio.get_running_loop()
    limit = _Limit(loop.time())
    token = _LIMIT.set(limit)
    task = asyncio.ensure_future(work)
    _LIMIT.reset(token)
    # It is heard what it ends with, so that asyncio does not log that nobody did.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        while not task.done() and (seconds is None or limit.since + seconds > loop.time()):
            await asyncio.wait((task,), timeout=None if seconds is None else limit.since + seconds - loop.time())
        if limit.uncut and not task.done():
            limit.over = loop.create_future()
            await asyncio.wait((task, limit.over), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _end(task)
        if not task.done() or task.cancelled():
            raise
        return task.result()
    if not task.done():
        await _end(task)
        raise HookTimeout(seconds or 0.0, option)
    return await contained(task)


@contextmanager
def uncut() -> Iterator[None]:
    """Let no time limit break off what is done inside; one that has run out meanwhile does at the end."""
    limit = _LIMIT.get()
    limit.uncut += 1
    try:
        yield
    finally:
        limit.uncut -= 1
        if not limit.uncut and limit.over is not None and not limit.over.done():
            limit.over.set_result(None)


def renew() -> None:
    """Let the time limit count from now on; CancelledError where it has run out, though the work swallowed that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    _LIMIT.get().since = asyncio.get_running_loop().time()


class _Limit:
    """The limit on one piece of work: since when, how many sections must not be cut, and who waits for their end."""

    def __init__(self, since: float = 0.0) -> None:
        self.since = since
        self.uncut = 0
        self.over: asyncio.Future[None] | None = None


_LIMIT: ContextVar[_Limit] = ContextVar("kframework limit", default=_Limit())  # noqa: B039  # nobody waits for this one


async def _end(task: asyncio.Future[T]) -> None:
    """Cancel a task, and see to it that it ends, though it may swallow its cancellation.

    The GeneratorExit that closes a coroutine is no Exception and comes at once; awoken, the task finds it closed.
    """
    task.cancel()
    try:
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,), timeout=GRACE)
    finally:
        if not task.done() and isinstance(task, asyncio.Task):
            with suppress(Exception):
                task.get_coro().close()
            task.cancel()
