"""The hooks that are only asked for explanations: a plugin may have them, and its faults in them spoil nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, cast

from kframework.core.runtime.profile import Profile

T = TypeVar("T")

_log = logging.getLogger(__name__)


class OptionalHooks:
    """Finds these hooks in a profile; a plugin whose hook does something wrong is told of once, and asked no more."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._faulty: set[str] = set()

    def of(self, plugin: str, hook: str) -> Callable[..., object] | None:
        """Return this hook of a plugin, if it has it."""
        method = getattr(self._profile.plugins.get(plugin), hook, None)
        return cast("Callable[..., object]", method) if hasattr(method, "kframework_impl") else None

    def safely(self, plugin: str, hook: str, ask: Callable[[], T], otherwise: T) -> T:
        """Ask a plugin, or answer otherwise."""
        if plugin in self._faulty:
            return otherwise
        try:
            return ask()
        except Exception as error:
            self._faulty.add(plugin)
            _log.error("%s", self._profile.fault(plugin, hook, error), exc_info=error)
            return otherwise
