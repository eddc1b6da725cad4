"""Reloading: a process follows its configuration file and the code of plugins, and reports what came of each change."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio

from kframework.client.event_record import LeaseReference
from kframework.config.configuration import Configuration
from kframework.core.runtime.profiles import ProfileChanges
from kframework.core.runtime.registry import Registry
from kframework.errors import KFrameworkError
from kframework.framework.plugin import Plugin
from kframework.observe.history import Reload
from kframework.process.followed_files import FollowedCode, FollowedFile
from kframework.scheduler.scheduler import Scheduler
from kframework.scheduler.succession import Succession
from kframework.verbosity import NOTICE

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FollowedConfiguration:
    """What a process follows of its configuration, and how it is loaded; both raise KFrameworkError.

    `plugins` imports the classes that are named on the command line, which `load` makes a part of the configuration.
    """

    load: Callable[[Sequence[type[Plugin]]], Configuration]
    plugins: Callable[[], Sequence[type[Plugin]]]
    file: FollowedFile | None = None
    code: FollowedCode | None = None


class Reloader:
    """Takes each new content of what a process follows, or refuses it.

    `adapt` changes a configuration as the process changed its first one; `tell` receives what came of each. The Event
    about it concerns the Lease of the leader election: the scheduler's object, whether it holds one or not.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        followed: FollowedConfiguration,
        adapt: Callable[[Configuration], Configuration],
        tell: Callable[[Reload], None],
    ) -> None:
        self._scheduler = scheduler
        self._followed = followed
        self._adapt = adapt
        self._tell = tell
        self._plugins = followed.plugins()
        self._busy = anyio.Lock()

    async def run(self) -> None:
        """Follow file and code until cancelled."""
        followed = self._followed
        async with anyio.create_task_group() as tasks:
            if followed.file is not None:
                tasks.start_soon(self._follow, followed.file.change, self.reload_file)
            if followed.code is not None:
                self._follow_code(followed.code)
                tasks.start_soon(self._follow, followed.code.change, self.reload_code)

    async def _follow(self, change: Callable[[], Awaitable[None]], reload: Callable[[], Awaitable[None]]) -> None:
        while True:
            await change()
            async with self._busy:
                await reload()

    def _follow_code(self, code: FollowedCode) -> None:
        code.follow(dict.fromkeys(type(plugin) for _, plugin in self._scheduler.profiles.plugins()))

    async def reload_file(self) -> None:
        """Load the file, and decide by it from the next cycle on if that is possible."""
        assert self._followed.file is not None

        async def take() -> str:
            configuration = self._adapt(self._followed.load(self._plugins))
            is_same = configuration == self._scheduler.configuration
            return "nothing is different" if is_same else await self._succeed(configuration, self._plugins)

        await self._reload(str(self._followed.file.path), take)

    async def reload_code(self) -> None:
        """Load the code of plugins again, and decide by it from the next cycle on if that is possible."""
        code = self._followed.code
        assert code is not None

        async def take() -> str:
            with code.loaded_again():
                plugins = self._followed.plugins()
                changes = await self._succeed(self._adapt(self._followed.load(plugins)), plugins)
            self._plugins = plugins
            self._follow_code(code)
            return changes

        await self._reload("the plugins' code", take)

    async def _reload(self, origin: str, take: Callable[[], Awaitable[str]]) -> None:
        problem, changes = "", ""
        try:
            changes = await take()
        except KFrameworkError as error:
            problem = str(error)
        except Exception as error:  # the scheduler must not end by a file
            _log.exception("cannot reload %s", origin)
            problem = f"{type(error).__name__}: {error}"
        number = self._scheduler.engine.configuration_number
        self._report(origin, Reload(self._scheduler.clock.now(), number, changes, problem))

    async def _succeed(self, configuration: Configuration, plugins: Sequence[type[Plugin]]) -> str:
        """Let the engine decide by a configuration; return what is different."""
        succession = Succession(self._scheduler, configuration, Registry.with_plugins(*plugins))
        await succession.take()
        return describe(succession.changes, [shadow.profile.scheduler_name for shadow in configuration.shadows])

    def _report(self, origin: str, reload: Reload) -> None:
        scheduler = self._scheduler
        if reload.problem:
            text = f"refused {origin}, continuing with configuration {reload.number}: {reload.problem}"
            _log.error("%s", text)
        else:
            text = f"took configuration {reload.number} from {origin}: {reload.changes}"
            _log.log(NOTICE, "%s", text)
            for warning in scheduler.profiles.warnings:
                _log.log(NOTICE, "%s", warning)
        election, profile = scheduler.configuration.settings.leader_election, next(iter(scheduler.profiles))
        scheduler.recorder.record_reload(
            profile,
            LeaseReference(election.resource_namespace, election.resource_name, ""),
            text,
            warning=bool(reload.problem),
        )
        self._tell(reload)


def describe(changes: ProfileChanges, shadows: Sequence[str]) -> str:
    """Return how the profiles differ, in words, and name those that are shadows now."""
    named = {
        "shadows are": shadows,
        "changed": changes.changed,
        "added": changes.added,
        "removed": changes.removed,
    }
    texts = [f"{verb} {', '.join(names)}" for verb, names in named.items() if names]
    return "; ".join(texts) or "the profiles are the same"
