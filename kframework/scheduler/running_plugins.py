"""The plugins of a scheduler while it runs: started, fed by their sources, and closed."""

from __future__ import annotations

import logging
from bdb import BdbQuit
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskGroup

from kframework.clock import Clock, Seeds
from kframework.config.configuration import HookTimeouts
from kframework.core.plugin_handle import release_plugins
from kframework.core.runtime.hooks import source_location
from kframework.core.runtime.profile import Profile
from kframework.errors import PluginError, format_error
from kframework.framework.plugin import Plugin
from kframework.framework.source import Source
from kframework.scheduler.background import log_failures
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.sources import FIRST_FETCH_TIMEOUT, SourceFeed
from kframework.scheduler.timeouts import HookTimeout, fault_text, with_timeout
from kframework.state.inbox import Message

_log = logging.getLogger(__name__)

#: The plugin in whose `start` this task is; None elsewhere.
_starting: ContextVar[Plugin | None] = ContextVar("kframework start", default=None)


@dataclass(frozen=True)
class Retired:
    """Plugins, and extenders if those were replaced, that later configurations do not have.

    They are closed when `is_over`, which is when no pod is left that they reserved.
    """

    plugins: Collection[Plugin]
    extenders: Extenders | None
    is_over: Callable[[], bool]


class RunningPlugins:
    """The started plugins of a scheduler, the coroutines that their `start` spawned, and the feeds of their sources.

    Attributes:
        timeouts: The time limits of plugins.
        retired: What only earlier configurations had.
        starting: The plugin whose `start` runs, and since when, in seconds since 1970; None before and after.
    """

    def __init__(self, clock: Clock, seeds: Seeds, timeouts: HookTimeouts) -> None:
        self.timeouts: HookTimeouts = timeouts
        self.starting: tuple[Plugin, float] | None = None
        #: The task group of all that plugins run besides cycles; set before the first start.
        self.tasks: TaskGroup
        self._clock = clock
        self._seeds = seeds
        self._started: dict[Plugin, Profile] = {}
        #: The scopes of what runs for each plugin and each source.
        self._scopes: dict[object, list[anyio.CancelScope]] = {}
        self._feeds = 0
        self.retired: list[Retired] = []

    async def start(self, plugins: Iterable[tuple[Profile, Plugin]]) -> None:
        """Start one plugin after the other, each within its time; PluginError for one that cannot."""
        for profile, plugin in plugins:
            # A plugin without `start` gives up no turn of the loop, in which other tasks would run first.
            if type(plugin).start is not Plugin.start:
                await self._start(profile, plugin)
            self._started[plugin] = profile

    async def _start(self, profile: Profile, plugin: Plugin) -> None:
        self.starting = plugin, self._clock.now()
        token = _starting.set(plugin)
        try:
            await with_timeout(self.timeouts.start, plugin.start(), "hookTimeouts.start")
        except Exception as error:
            self._cancel(plugin)
            raise profile.fault_error(plugin.name, "start", _located(plugin, error)) from error
        finally:
            _starting.reset(token)
            self.starting = None

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> bool:
        """Run a coroutine until its plugin is closed, if a `start` spawns it; return whether one does."""
        plugin = _starting.get()
        if plugin is None or self.starting is None or self.starting[0] is not plugin:
            return False
        self._run(plugin, partial(log_failures, coroutine, by))
        return True

    async def feed(self, sources: Iterable[Source[object]], offer: Callable[[Message], None]) -> Collection[SourceFeed]:
        """Start to fetch sources, and wait for the first try of each, so that the first pods do not miss their values.

        Their messages go to `offer`.
        """
        feeds = [self._create_feed(source, offer) for source in sources]
        for feed in feeds:
            self._run(feed.source, feed.run)
        with anyio.move_on_after(FIRST_FETCH_TIMEOUT):
            for feed in feeds:
                await feed.first_fetch_done.wait()
        return feeds

    def _create_feed(self, source: Source[object], offer: Callable[[Message], None]) -> SourceFeed:
        self._feeds += 1
        random = self._seeds.generator(f"source {source.key}")
        return SourceFeed(source, offer, self._clock, random, self.timeouts.source, self._feeds - 1)

    def _run(self, owner: object, work: Callable[[], Awaitable[None]]) -> None:
        scope = anyio.CancelScope()
        self._scopes.setdefault(owner, []).append(scope)

        async def run() -> None:
            _starting.set(None)
            with scope:
                await work()

        self.tasks.start_soon(run)

    def _cancel(self, owner: object) -> None:
        for scope in self._scopes.pop(owner, ()):
            scope.cancel()

    def stop_feeding(self, sources: Iterable[Source[object]]) -> None:
        """Fetch these sources no more."""
        for source in sources:
            self._cancel(source)

    def close_retired(self) -> None:
        """Close what only earlier configurations had, once nothing is left of them."""
        for retired in [each for each in self.retired if each.is_over()]:
            self.retired.remove(retired)
            self.tasks.start_soon(self._close_last, retired)

    async def _close_last(self, retired: Retired) -> None:
        release_plugins(retired.plugins)
        for fault in await self.close(retired.plugins):
            _log.error("%s", fault)
        if retired.extenders is not None:
            await retired.extenders.close()

    async def close_retired_extenders(self) -> None:
        """Close the extenders that were replaced, whatever is left of them."""
        for retired in self.retired:
            if retired.extenders is not None:
                await retired.extenders.close()

    async def close(self, plugins: Collection[Plugin] | None = None) -> list[PluginError]:
        """Close plugins that are started side by side, each within its time, by default all; return their errors."""
        seconds, faults = self.timeouts.close, list[PluginError]()

        async def close(plugin: Plugin, profile: Profile) -> None:
            try:
                await with_timeout(seconds, plugin.close(), "hookTimeouts.close")
            except HookTimeout as late:
                _log.warning("%s", profile.fault_error(plugin.name, "close", str(late)))
            except Exception as error:
                faults.append(profile.fault_error(plugin.name, "close", error))

        closing = list(self._started) if plugins is None else [each for each in plugins if each in self._started]
        async with anyio.create_task_group() as tasks:
            for plugin in closing:
                profile = self._started.pop(plugin)
                self._cancel(plugin)
                if type(plugin).close is not Plugin.close:
                    tasks.start_soon(close, plugin, profile)
        return faults


def _located(plugin: Plugin, error: Exception) -> Exception | str:
    """Return what to report of an exception in `start`, with its file and line: there is no traceback at `-v 0`."""
    text, location = fault_text(error), source_location(type(plugin), "start", error)
    if isinstance(text, str | BdbQuit) or not location:
        return text
    return f"{format_error(error)} ({location})"
