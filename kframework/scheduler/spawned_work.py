"""What hooks have begun and a scheduler that stops breaks off: what they spawned, and what they do to its end."""

from __future__ import annotations

import asyncio
import logging
from bdb import BdbQuit
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from kframework.scheduler.timeouts import within

T = TypeVar("T")

#: What hooks spawn.
Errand = Coroutine[object, object, None]

_log = logging.getLogger(__name__)


class SpawnedWork:
    """The work under way that hooks have begun; `on_end` is called when some that nobody awaits has ended."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._scopes: dict[anyio.CancelScope, None] = {}

    def begin(self, coroutine: Errand, by: str) -> Callable[[], Errand]:
        """Take a coroutine among the errands; it is done in the task that calls what is returned."""
        errand = anyio.CancelScope()
        self._scopes[errand] = None
        return partial(self._run, errand, coroutine, by)

    async def _run(self, errand: anyio.CancelScope, coroutine: Errand, by: str) -> None:
        try:
            with errand:
                await guarded(coroutine, by)
        finally:
            del self._scopes[errand]
            self._on_end()

    async def to_the_end(self, work: Awaitable[T]) -> T:
        """Await work whether or not it is cancelled meanwhile, until `cancel`."""
        errand = anyio.CancelScope(shield=True)
        self._scopes[errand] = None
        try:
            with errand:
                return await work
        finally:
            del self._scopes[errand]
            await checkpoint_if_cancelled()
        raise asyncio.CancelledError

    def cancel(self) -> None:
        """Break off what is under way."""
        for errand in self._scopes:
            errand.cancel()

    def __len__(self) -> int:
        return len(self._scopes)


async def guarded(coroutine: Errand, by: str) -> None:
    """Do what somebody has spawned; what it raises is logged."""
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
    try:
        await within(None, coroutine, "")
    except BdbQuit:
        raise
    except Exception:
        # What fails over and over is said once, as a hook is.
        _log.exception("%s: its coroutine %s failed", by, name, extra={"at_fault": f"{by}, coroutine {name}"})
