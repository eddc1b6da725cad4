"""Reloading: a process follows its configuration file, and tells everybody what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kframework.client.event_record import LeaseReference
from kframework.config.configuration import Configuration
from kframework.core.runtime.profiles import ProfileChanges
from kframework.core.runtime.registry import Registry
from kframework.errors import KFrameworkError
from kframework.observe.history import Reload
from kframework.scheduler.scheduler import Scheduler
from kframework.scheduler.succession import Succession
from kframework.verbosity import NOTICE

_log = logging.getLogger(__name__)

#: How often the file is read, in seconds.
INTERVAL = 1.0

#: A larger file is not a configuration, in bytes.
_MAX_SIZE = 16 << 20


class FollowedFile:
    """A file whose content is followed by reading it, whatever replaces it: an editor, or a ConfigMap's volume.

    A volume swaps the symbolic link `..data` on the way to the file, which no notice about the file itself would tell.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self._known = self._read()

    async def change(self) -> None:
        """Wait until the content is not what it was before, and has been the same twice in a row.

        A file that is being written is not read in the middle, unless its writer pauses for longer than the interval.
        """
        last = self._known
        while True:
            await asyncio.sleep(INTERVAL)
            content = self._read()
            if content == last != self._known:
                self._known = content
                return
            last = content

    def _read(self) -> bytes | str:
        """Return the content, or why there is none."""
        try:
            with self.path.open("rb") as file:
                return file.read(_MAX_SIZE)
        except OSError as error:
            return str(error)


@dataclass(frozen=True)
class FollowedConfiguration:
    """A configuration file that a process follows, and how it is loaded; raises KFrameworkError for a bad one."""

    file: FollowedFile
    load: Callable[[], Configuration]
    registry: Registry


class Reloader:
    """Takes each new content of a configuration file, or refuses it.

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

    async def run(self) -> None:
        """Follow the file until cancelled."""
        while True:
            await self._followed.file.change()
            await self.reload()

    async def reload(self) -> None:
        """Load the file, and decide by it from the next cycle on if that is possible."""
        scheduler, problem, changes = self._scheduler, "", ""
        try:
            changes = await self._take(self._adapt(self._followed.load()))
        except KFrameworkError as error:
            problem = str(error)
        except Exception as error:  # the scheduler must not end by a file
            _log.exception("cannot reload %s", self._followed.file.path)
            problem = f"{type(error).__name__}: {error}"
        self._report(Reload(scheduler.clock.now(), scheduler.engine.configuration_number, changes, problem))

    async def _take(self, configuration: Configuration) -> str:
        """Take a configuration; return what is different."""
        if configuration == self._scheduler.configuration:
            return "nothing is different"
        succession = Succession(self._scheduler, configuration, self._followed.registry)
        await succession.take()
        return describe(succession.changes)

    def _report(self, reload: Reload) -> None:
        scheduler, file = self._scheduler, self._followed.file.path
        if reload.problem:
            text = f"refused {file}, and go on with configuration {reload.number}: {reload.problem}"
            _log.error("%s", text)
        else:
            text = f"took configuration {reload.number} from {file}: {reload.changes}"
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


def describe(changes: ProfileChanges) -> str:
    """Return how the profiles differ, in words."""
    return "; ".join(_describe(changes)) or "the profiles are the same"


def _describe(changes: ProfileChanges) -> Iterator[str]:
    for verb in ("changed", "added", "removed"):
        if names := getattr(changes, verb):
            yield f"{verb} {', '.join(names)}"
