"""The actions and session plugins on offer: found by entry point, imported only when a configuration names them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kframework.engine import Offer, Offers, beside_installed
from kframework_batch.action import Action
from kframework_batch.plugin import BatchArguments, BatchPlugin

#: The entry-point groups in which distributions offer actions and plugins.
ACTIONS = "kframework.batch.actions"
PLUGINS = "kframework.batch.plugins"


class BatchRegistry:
    """What can be named in a scheduler configuration.

    `BatchRegistry.installed()` finds what is installed; `BatchRegistry.of(...)` takes classes, for tests and embedding.
    """

    def __init__(self, actions: Iterable[Offer], plugins: Iterable[Offer]) -> None:
        self.actions: Offers[Action] = Offers(actions, partial(_problem, Action))
        self.plugins: Offers[BatchPlugin] = Offers(plugins, partial(_problem, BatchPlugin))

    @classmethod
    def installed(cls) -> BatchRegistry:
        """Offer the actions and plugins of every installed distribution, this one's among them."""
        return cls.of()

    @classmethod
    def of(cls, *classes: type[Action] | type[BatchPlugin]) -> BatchRegistry:
        """Offer these classes, each under its name, beside the installed ones, which they replace."""
        actions = [offered for offered in classes if issubclass(offered, Action)]
        plugins = [offered for offered in classes if issubclass(offered, BatchPlugin)]
        return cls(beside_installed(ACTIONS, actions), beside_installed(PLUGINS, plugins))


def _problem(base: type[Action] | type[BatchPlugin], offer: Offer, loaded: object) -> str:
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        return f"{offer.target or loaded!r} is no class derived from kframework_batch's {base.__name__}"
    if loaded.name != offer.name:
        return f"its entry point is named {offer.name!r} but the class says name = {loaded.name!r}"
    if not (isinstance(loaded.Arguments, type) and issubclass(loaded.Arguments, BatchArguments)):
        return "its Arguments do not derive from kframework_batch's BatchArguments"
    return ""
