"""The feeds of the plugins' sources: one task each, which puts what it fetches into the inbox.

A feed affects nothing else: an error in its plugin's code is a failure of its source, logged with the plugin's name if
it is new, and retried.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import types
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from random import Random
from typing import TypeVar, cast

import anyio

from kframework.clock import Clock, await_in_order
from kframework.errors import format_error
from kframework.framework.source import Source, SourceChange
from kframework.scheduler.timeouts import CANCEL_GRACE, HookTimeout, guard_cancellation, restart_timeout, with_timeout
from kframework.state.inbox import Message, SourceChanged, SourceFailed

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: How long the first pods wait for the first answers of sources, in seconds.
FIRST_FETCH_TIMEOUT = 10.0

#: The minimum time between two values of a generator, in seconds, so that it cannot flood the inbox.
_MIN_INTERVAL = 0.05

#: The maximum number of values of a source, to bound what a peer can send.
MAX_VALUES = 200_000

_Values = Mapping[str, object] | SourceChange[object]


class SourceFeed:
    """A task that fetches one source; a poll may last `timeout` seconds (None: no limit) unless the source has its own.

    In virtual time, feeds that receive outside answers at the same time publish them in the order of their numbers, and
    before all binding cycles.
    """

    def __init__(
        self,
        source: Source[object],
        offer: Callable[[Message], None],
        clock: Clock,
        random: Random,
        timeout: float | None = None,
        number: int = 0,
    ) -> None:
        self.source = source
        self._number = number - 1_000_000  # those of binding cycles are the numbers of their attempts
        self._timeout = timeout
        #: Where its messages go.
        self.offer: Callable[[Message], None] = offer
        self._clock = clock
        self._random = random
        #: The values published so far.
        self._published: dict[str, object] = {}
        self._failures = 0
        self._error = ""
        #: Set after the first try, successful or not.
        self.first_fetch_done: asyncio.Event = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self.fetch()
            self.first_fetch_done.set()
            await asyncio.sleep(self.pause())

    async def fetch(self) -> None:
        try:
            await guard_cancellation(self._fetch())
        except Exception as error:
            self._fail(error)

    async def _fetch(self) -> None:
        own, answer = self.source.settings.timeout, self.source.fetch()
        if isinstance(answer, AsyncIterator):
            try:
                await with_timeout(own, self._follow(answer), "its timeout")
            finally:
                if isinstance(answer, AsyncGenerator):  # ignore errors of its cleanup
                    with anyio.CancelScope(shield=True), suppress(Exception):
                        await with_timeout(CANCEL_GRACE, answer.aclose(), "")
        elif not inspect.isawaitable(answer):
            raise TypeError(f"fetch must be `async def`; it returned a {type(answer).__name__}")
        else:
            timeout, limit = (own, "its timeout") if own else (self._timeout, "hookTimeouts.source")
            self._publish(cast("_Values", await await_in_order(self._number, with_timeout(timeout, answer, limit))))

    def pause(self) -> float:
        """Return the seconds to wait before the next try."""
        settings = self.source.settings
        if not self._failures:
            return settings.every * (1 + settings.jitter * self._random.uniform(-1, 1))
        return min(settings.retry * 2.0 ** min(self._failures - 1, 30), max(settings.every, settings.retry))

    async def _follow(self, stream: AsyncIterator[_Values]) -> None:
        """Publish what a generator yields until its end; in one task, as its resources may have to be closed there."""
        try:
            while True:
                values = await await_in_order(self._number, _closeable_step(anext(stream)))
                restart_timeout()
                self._publish(values)
                self.first_fetch_done.set()
                await asyncio.sleep(_MIN_INTERVAL)
        except StopAsyncIteration:
            return

    def _publish(self, values: _Values) -> None:
        """Publish the changes since the last fetch; an empty change still marks the source fresh."""
        if isinstance(values, SourceChange):
            new, removed = values.values, tuple(dict.fromkeys(key for key in values.removed if key in self._published))
        elif isinstance(values, Mapping):
            new, removed = values, tuple(key for key in self._published if key not in values)
        else:
            raise TypeError(f"fetched a {type(values).__name__}, expected a mapping")
        published, checked = self._published, self.source.validate(new)
        changed = {key: value for key, value in checked.items() if key not in published or published[key] != value}
        if len(published.keys() | changed.keys()) - len(removed) > MAX_VALUES:
            raise ValueError(f"has more than {MAX_VALUES} values")
        published.update(changed)
        for key in removed:
            del published[key]
        if self._failures:
            _log.info("source %s recovered", self._name)
        self._failures = 0
        self.offer(SourceChanged(self.source.key, self._clock.now(), changed, removed))

    def _fail(self, error: Exception) -> None:
        text = str(error) if isinstance(error, HookTimeout) else format_error(error)
        if not self._failures or text != self._error:
            _log.warning("source %s failed: %s", self._name, text, exc_info=error)
        self._failures, self._error = self._failures + 1, text
        self.offer(SourceFailed(self.source.key, text))

    @property
    def _name(self) -> str:
        return f"{self.source.name!r} of plugin {self.source.plugin} (profile {self.source.profile})"


@types.coroutine
def _closeable_step(step: Awaitable[T]) -> Generator[object, None, T]:
    """Await a step of an async generator so that closing this closes the generator (from Python 3.13 on).

    One that swallows its cancellation would otherwise never be closed, and asyncio would report it without a name.
    """
    inside = step.__await__()
    try:
        awaited = next(inside)
        while True:
            try:
                yield awaited
            except BaseException as error:
                awaited = inside.throw(error)
            else:
                awaited = next(inside)
    except StopIteration as end:
        return cast("T", end.value)
