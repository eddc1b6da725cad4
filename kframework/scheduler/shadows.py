"""The shadows of a running scheduler: their plugins start and close, and fetch data, beside those that schedule.

Nothing waits for them, and nothing ends with them: a shadow that cannot start decides no pods, and says why.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterator

import anyio
from anyio.abc import TaskGroup

from kframework.config.configuration import Configuration
from kframework.core.engine import Engine
from kframework.core.host import Host
from kframework.core.plugin_handle import release_plugins
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import watched_kinds
from kframework.core.runtime.registry import Registry
from kframework.core.shadow.budget import Budget
from kframework.core.shadow.engine import ShadowEngine
from kframework.core.shadow.follower import ShadowFollower
from kframework.core.shadow.isolation import ShadowHost
from kframework.core.shadow.shadow import Shadow
from kframework.errors import ConfigError
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject
from kframework.scheduler.background import log_failures
from kframework.scheduler.sources import SourceFeed
from kframework.scheduler.timeouts import fault_text, with_timeout

_log = logging.getLogger(__name__)


class RunningShadows:
    """The shadows of a configuration, beside an engine; raises ConfigError for one that cannot be created.

    They decide from `attach` on, each once its plugins are started.
    """

    def __init__(self, configuration: Configuration, registry: Registry, engine: Engine, host: Host) -> None:
        self._timeouts = configuration.options.hook_timeouts
        self._engine = engine
        self._shadows: list[Shadow] = []
        self._started: list[tuple[Shadow, Plugin]] = []
        self._scope: anyio.CancelScope | None = None
        for shadow in configuration.shadows:
            if not isinstance(engine, PodEngine):
                raise ConfigError(f"{type(engine).__name__} supports no shadow profiles: remove them")
            name, shadow_host = shadow.profile.scheduler_name, ShadowHost(engine.cluster, host)
            own = ShadowEngine(engine, configuration.of_shadow(shadow), registry, shadow_host)
            budget = Budget(shadow.budget, engine.seeds.generator(f"shadow {name}"), engine.clock.now())
            self._shadows.append(Shadow(name, shadow.shadowed, own, shadow_host, budget))

    def __iter__(self) -> Iterator[Shadow]:
        return iter(self._shadows)

    @property
    def kinds(self) -> list[type[ApiObject]]:
        """The kinds that their plugins watch."""
        return list(dict.fromkeys(kind for shadow in self for kind in watched_kinds(shadow.engine.profiles)))

    def attach(self) -> None:
        """Decide what the engine decides from now on; objects that only shadows watch requeue no pod."""
        engine = self._engine
        if isinstance(engine, PodEngine):
            known = [*watched_kinds(engine.profiles), *(watch.kind for watch in engine.watches)]
            engine.handlers.silent_kinds = frozenset(self.kinds).difference(known)
            engine.follower = ShadowFollower(engine, self._shadows) if self._shadows else None

    def start(self, tasks: TaskGroup) -> None:
        """Start the plugins in the background, and keep fetching their sources."""
        if self._shadows:
            tasks.start_soon(self._run)

    async def _run(self) -> None:
        with anyio.CancelScope() as self._scope:
            async with anyio.create_task_group() as tasks:
                for shadow in self:
                    tasks.start_soon(self._start, shadow, tasks)
                await anyio.Event().wait()  # plugins may run more at any time

    async def _start(self, shadow: Shadow, tasks: TaskGroup) -> None:
        def run_in_background(work: Coroutine[object, object, None], by: str) -> None:
            tasks.start_soon(log_failures, work, f"{by} of shadow {shadow.name!r}")

        shadow.host.run_in_background = run_in_background
        for _, plugin in shadow.engine.profiles.plugins():
            if type(plugin).start is not Plugin.start:
                try:
                    await with_timeout(self._timeouts.start, plugin.start(), "hookTimeouts.start")
                except Exception as error:
                    shadow.problem = f"plugin {plugin.name!r} cannot start: {fault_text(error)}"
                    _log.warning("shadow %r decides no pods: %s", shadow.name, shadow.problem)
                    return
            self._started.append((shadow, plugin))
        for feed in self._feeds(shadow):
            tasks.start_soon(feed.run)
        shadow.problem = ""

    def _feeds(self, shadow: Shadow) -> Iterator[SourceFeed]:
        engine = shadow.engine
        for number, source in enumerate(engine.profiles.sources()):
            random = engine.seeds.generator(f"source {source.key}")
            yield SourceFeed(source, engine.offer, engine.clock, random, self._timeouts.source, number)

    async def close(self) -> None:
        """End what their plugins run, and close those that were started; what one raises is logged."""
        if self._scope is not None:
            self._scope.cancel()
        async with anyio.create_task_group() as closing:
            for shadow, plugin in self._started:
                if type(plugin).close is not Plugin.close:
                    work = with_timeout(self._timeouts.close, plugin.close(), "hookTimeouts.close")
                    closing.start_soon(log_failures, work, f"plugin {plugin.name!r} of shadow {shadow.name!r}")
        for shadow in self:
            release_plugins(plugin for _, plugin in shadow.engine.profiles.plugins())
