"""A configuration, compiled: its actions and tiers of plugins, made from their classes and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kframework import ConfigError, PluginError
from kframework.engine import Offers, Place, Problem, RawArgs, collecting, decode, field_names, nearest, raise_all
from kframework_batch.action import Action
from kframework_batch.config import BatchConfiguration, PluginEntry
from kframework_batch.plugin import BatchArguments, BatchPlugin
from kframework_batch.registry import ACTIONS, PLUGINS, BatchRegistry
from kframework_batch.tiers import HIERARCHY, NOT_BUILT, EnabledPlugin, Tiers

N = TypeVar("N", Action, BatchPlugin)

#: What Volcano has and this distribution has not.
_ACTIONS_OF_VOLCANO = ("gangpreempt", "gangreclaim")
_PLUGINS_OF_VOLCANO = (
    "cdp",
    "deviceshare",
    "extender",
    "nodegroup",
    "numa-aware",
    "pdb",
    "rescheduling",
    "resource-strategy-fit",
    "resourcequota",
    "task-topology",
    "tdm",
    "usage",
)


@dataclass(frozen=True)
class Program:
    """What sessions run, until the configuration changes; `notices` are lines for the user, each with its place."""

    configuration: BatchConfiguration
    actions: tuple[Action, ...]
    tiers: Tiers
    notices: tuple[str, ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """What its configuration was read from."""
        return self.configuration.text


def compile_program(configuration: BatchConfiguration, registry: BatchRegistry | None = None) -> Program:
    """Make what a configuration names, of what is installed unless a registry is given.

    Raises ConfigError for a name that nobody offers and for arguments that a model refuses, ConfigErrors for several of
    them, PluginError for a class that breaks the contract.
    """
    return _Compiler(configuration, registry if registry is not None else BatchRegistry.installed()).program()


@dataclass(frozen=True)
class _Sort(Generic[N]):
    """Actions or plugins: the word for one, what is on offer and where, what only Volcano has."""

    word: str
    offers: Offers[N]
    group: str
    of_volcano: tuple[str, ...]

    def unknown(self, name: str) -> Problem:
        """Say what there is to say about a name that nobody offers."""
        if name in self.of_volcano:
            remedy = f"remove it, or install a distribution that offers it under {self.group}"
            return Problem((), f"{self.word} {name} is one of Volcano's that kframework-batch does not have; {remedy}")
        remedy = f"no installed distribution offers it under {self.group}"
        return Problem((), f"unknown {self.word} {name!r}: {remedy}", nearest(name, self.offers))


class _Compiler:
    """Goes through a configuration once and collects what is wrong and what has no effect."""

    def __init__(self, configuration: BatchConfiguration, registry: BatchRegistry) -> None:
        self._configuration = configuration
        self._actions = _Sort("action", registry.actions, ACTIONS, _ACTIONS_OF_VOLCANO)
        self._plugins = _Sort("plugin", registry.plugins, PLUGINS, _PLUGINS_OF_VOLCANO)
        self._errors: list[ConfigError] = []
        self._notices: list[ConfigError] = []

    def program(self) -> Program:
        configuration = self._configuration
        actions = [self._action(name) for name in configuration.actions]
        tiers = [[self._plugin(entry) for entry in tier] for tier in configuration.tiers]
        for name, arguments in configuration.action_arguments.items():
            if name not in self._actions.offers:
                self._notices.append(arguments.place.error(self._actions.unknown(name)))
        raise_all(self._errors)
        return Program(
            configuration,
            tuple(action for action in actions if action is not None),
            Tiers([[enabled for enabled in tier if enabled is not None] for tier in tiers]),
            (*configuration.warnings, *map(str, self._notices)),
        )

    def _action(self, name: str) -> Action | None:
        place = self._configuration.place
        arguments = self._configuration.action_arguments.get(name, RawArgs({}, place))
        return self._made(self._actions, name, place / "actions", arguments)

    def _plugin(self, entry: PluginEntry) -> EnabledPlugin | None:
        plugin = self._made(self._plugins, entry.name, entry.place / "name", entry.arguments)
        if plugin is None:
            return None
        plugin.hierarchical = entry.flags.get(HIERARCHY, False)
        for flag, subject in NOT_BUILT.items():
            if entry.flags.get(flag):
                no_effect = Problem((), f"has no effect: {subject} are not supported")
                self._notices.append((entry.place / flag).error(no_effect))
        return EnabledPlugin(plugin, entry.flags, self._plugins.offers.distribution(entry.name) or "")

    def _made(self, sort: _Sort[N], name: str, place: Place, arguments: RawArgs) -> N | None:
        """Make one of a sort; None where that went wrong."""
        if name not in sort.offers:
            self._errors.append(place.error(sort.unknown(name)))
            return None
        offered = sort.offers.load(name)
        with collecting(self._errors):
            read = decode(offered.Arguments, dict(arguments.value), arguments.place)
            self._notices += [arguments.place.error(unread) for unread in _unread(read)]
            try:
                return offered(read)
            except Exception as error:
                reason = f"cannot be made: {type(error).__name__}: {error}"
                raise PluginError(reason, plugin=name, distribution=sort.offers.distribution(name)) from error
        return None


def _unread(arguments: BatchArguments) -> Iterator[Problem]:
    """Report the arguments that a model does not know; what is below one that it knows is the plugin's own matter."""
    known = field_names(type(arguments))
    for name in arguments.model_extra or {}:
        if not any(name.startswith(f"{each}.") for each in known):
            yield Problem((name,), f'unknown argument "{name}" is passed over', nearest(name, known))
