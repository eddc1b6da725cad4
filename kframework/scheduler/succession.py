"""The succession of configurations: another one is prepared beside the running one, and taken between two cycles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial

import anyio

from kframework.config.configuration import Configuration
from kframework.core.plugin_handle import recompile_profiles, release_plugins
from kframework.core.reconfiguration import ConfigurationChanged, refuse_fixed_fields, refuse_other_order
from kframework.core.runtime.profiles import ProfileChanges, watched_kinds
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError
from kframework.objects import ApiObject, kind_of
from kframework.scheduler.running_plugins import Retired
from kframework.scheduler.scheduler import Scheduler
from kframework.scheduler.shadows import RunningShadows
from kframework.scheduler.sources import SourceFeed
from kframework.state.inbox import Message, Synced

_log = logging.getLogger(__name__)

#: How long to wait for the objects of kinds that were not watched before, in seconds.
LIST_TIMEOUT = 30.0


class Succession:
    """A configuration that is to follow that of a running scheduler of single pods: checked and compiled.

    Plugins of the same class with equal args stay as they are. The registry has the classes. Raises ConfigError. One
    must be taken, or have failed, before the next one is created.
    """

    def __init__(self, scheduler: Scheduler, configuration: Configuration, registry: Registry) -> None:
        refuse_fixed_fields(scheduler.configuration, configuration)
        running = scheduler.profiles
        profiles = recompile_profiles(scheduler.engine, configuration, registry, scheduler)
        self._scheduler = scheduler
        self._configuration = configuration
        self._profiles = profiles
        before, after = ({plugin: profile for profile, plugin in each.plugins()} for each in (running, profiles))
        self._new = {plugin: profile for plugin, profile in after.items() if plugin not in before}
        self._extenders = scheduler.extenders
        try:
            if configuration.settings.extenders != scheduler.configuration.settings.extenders:
                self._extenders = scheduler.create_extenders(configuration)
            #: They begin again: what they are compared with may be different.
            self._shadows = RunningShadows(configuration, registry, scheduler.engine, scheduler)
        except ConfigError:
            release_plugins(self._new)
            raise
        self._old = [plugin for plugin in before if plugin not in after]
        known, used = (dict.fromkeys(each.sources()) for each in (running, profiles))
        self._new_sources = [source for source in used if source not in known]
        self._old_sources = [source for source in known if source not in used]
        self._feeds: list[SourceFeed] = []
        #: What the new sources have sent so far.
        self._early: list[Message] = []
        #: How the profiles differ.
        self.changes: ProfileChanges = running.changes_to(profiles)

    async def take(self) -> None:
        """Let the engine decide by it from the next cycle on, once its plugins are started and their data are there.

        Plugins that it replaces are closed when no pod is left that they reserved. Raises ConfigError or PluginError if
        that is impossible; then the scheduler goes on as before.
        """
        scheduler, taken = self._scheduler, asyncio.Event()

        def switch() -> None:
            scheduler.plugins.retired.append(self._retired())
            scheduler.follow_configuration(self._configuration, self._extenders)
            scheduler.follow_shadows(self._shadows)
            taken.set()

        try:
            await scheduler.started.wait()
            await self._prepare()
            scheduler.engine.offer(ConfigurationChanged(self._configuration, self._profiles, self._extenders, switch))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._abandon()
            raise
        scheduler.plugins.stop_feeding(self._old_sources)
        for message in self._early:
            scheduler.engine.offer(message)
        for feed in self._feeds:
            feed.offer = scheduler.engine.offer
        await taken.wait()

    async def _prepare(self) -> None:
        scheduler, plugins = self._scheduler, self._scheduler.plugins
        refuse_other_order(scheduler.profiles, self._profiles, self._configuration)
        kinds = list(dict.fromkeys([*watched_kinds(self._profiles), *self._shadows.kinds]))
        with anyio.move_on_after(LIST_TIMEOUT) as limit:
            await self._watch(kinds)
        if limit.cancelled_caught:
            missing = ", ".join(kind_of(kind).plural for kind in kinds if kind not in scheduler.kinds)
            raise ConfigError(f"{missing} could not be listed within {LIST_TIMEOUT:g} s; the log may say why")
        if self._extenders is not scheduler.extenders:
            await self._extenders.start()
        await plugins.start((profile, plugin) for plugin, profile in self._new.items())
        self._feeds += await plugins.feed(self._new_sources, self._early.append)

    async def _watch(self, kinds: Collection[type[ApiObject]]) -> None:
        """Watch the kinds that are not watched yet, from now on, and wait until they are listed."""
        scheduler = self._scheduler

        def receive(kind: type[ApiObject], message: Message) -> None:
            if isinstance(message, Synced):
                scheduler.kinds.append(kind)
                scheduler.listed[kind].set()
            else:
                scheduler.on_message(message)

        missing = [kind for kind in kinds if kind not in scheduler.kinds]
        for kind in missing:
            if kind not in scheduler.listed:
                scheduler.listed[kind] = asyncio.Event()
                scheduler.watch([kind], partial(receive, kind))
        for kind in missing:
            await scheduler.listed[kind].wait()

    def _retired(self) -> Retired:
        """Return what the configuration before has and this one does not."""
        engine = self._scheduler.engine
        replaced = self._scheduler.extenders if self._extenders is not self._scheduler.extenders else None
        number = engine.configuration_number
        return Retired(self._old, replaced, lambda: engine.oldest_configuration >= number)

    async def _abandon(self) -> None:
        """End what is begun."""
        scheduler = self._scheduler
        scheduler.plugins.stop_feeding(self._new_sources)
        for fault in await scheduler.plugins.close(list(self._new)):
            _log.error("%s", fault)
        release_plugins(self._new)
        await self._shadows.close()
        if self._extenders is not scheduler.extenders:
            await self._extenders.close()
