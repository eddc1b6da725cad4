"""`simulate --pdb`: stops in the hook that raised."""

from __future__ import annotations

import pdb
from bdb import BdbQuit

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.effects import Host
from kframework.core.plugin_handle import MakeProfiles
from kframework.core.pod_engine import PodEngine
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.scheduler import MakeEngine


def with_debugger(make: MakeEngine[PodEngine]) -> MakeEngine[PodEngine]:
    """Return what makes the same engine, whose plugins are debugged where they raise."""

    def made(
        configuration: Configuration, clock: Clock, effects: Host, extenders: Extenders, profiles: MakeProfiles
    ) -> PodEngine:
        engine = make(configuration, clock, effects, extenders, profiles)
        debugger = Debugger()
        for profile in engine.profiles.values():
            profile.on_fault = debugger.look_into
        return engine

    return made


class Debugger:
    """Python's debugger, for one fault after the other."""

    def __init__(self) -> None:
        self._quit = False

    def look_into(self, error: BaseException) -> None:
        """Open where this was raised; after `c` all goes on, after `q` BdbQuit ends it, wherever it is asked again."""
        if not self._quit:
            debugger = pdb.Pdb()
            debugger.reset()
            debugger.interaction(None, error.__traceback__)
            self._quit = debugger.quitting
        if self._quit:
            raise BdbQuit
