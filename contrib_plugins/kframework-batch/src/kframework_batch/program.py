"""Compile a configuration into actions and tiers of installed plugins, and compile it again when its file changes.

The core is configured by it: profiles of the Filter and Score plugins that session plugins want to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from kframework import ConfigError, KFrameworkError, PluginError
from kframework.engine import (
    Configuration,
    NodeResourcesFit,
    Offer,
    Offers,
    Problem,
    RawArgs,
    Registry,
    YamlLocation,
    collect_errors,
    decode,
    field_names,
    load_configuration,
    nearest_name,
    override_installed,
    raise_collected,
    read_source,
)
from kframework_batch.action import Action
from kframework_batch.config import BatchConfiguration, TierPlugin, default_configuration, load, parse
from kframework_batch.plugin import BatchArguments, BatchPlugin
from kframework_batch.tiers import HIERARCHY, UNSUPPORTED_FLAGS, EnabledPlugin, Tiers

#: The entry-point groups in which distributions offer actions and plugins.
ACTIONS = "kframework.batch.actions"
PLUGINS = "kframework.batch.plugins"


class BatchRegistry:
    """The actions and plugins that a scheduler configuration can name."""

    def __init__(self, actions: Iterable[Offer], plugins: Iterable[Offer]) -> None:
        self.actions: Offers[Action] = Offers(actions, partial(_problem, Action))
        self.plugins: Offers[BatchPlugin] = Offers(plugins, partial(_problem, BatchPlugin))

    @classmethod
    def with_classes(cls, *classes: type[Action] | type[BatchPlugin]) -> BatchRegistry:
        """Offer these classes, each under its name, in addition to the installed ones, which they replace."""
        actions = [offered for offered in classes if issubclass(offered, Action)]
        plugins = [offered for offered in classes if issubclass(offered, BatchPlugin)]
        return cls(override_installed(ACTIONS, actions), override_installed(PLUGINS, plugins))


def _problem(base: type[Action] | type[BatchPlugin], offer: Offer, loaded: object) -> str:
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        return f"{offer.target or loaded!r} is no class derived from kframework_batch's {base.__name__}"
    if loaded.name != offer.name:
        return f"its entry point is named {offer.name!r} but the class has name = {loaded.name!r}"
    if not (isinstance(loaded.Arguments, type) and issubclass(loaded.Arguments, BatchArguments)):
        return "its Arguments do not derive from kframework_batch's BatchArguments"
    return ""


N = TypeVar("N", Action, BatchPlugin)

#: What Volcano has and this distribution has not.
_VOLCANO_ACTIONS = ("gangpreempt", "gangreclaim")
_VOLCANO_PLUGINS = (
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
    """The actions and plugins of sessions, until the configuration changes; `notices` are lines for the user."""

    configuration: BatchConfiguration
    actions: tuple[Action, ...]
    tiers: Tiers
    notices: tuple[str, ...] = field(default=(), compare=False)


def compile_program(configuration: BatchConfiguration, registry: BatchRegistry | None = None) -> Program:
    """Create what a configuration names, from the installed offers unless a registry is given.

    Raises ConfigError(s) for unknown names and rejected arguments, PluginError for a class that breaks the contract.
    """
    return _ProgramCompiler(configuration, registry or BatchRegistry.with_classes()).program()


def load_program(file: str | None) -> Program:
    """Compile the configuration in a file, the default one without; raises what reading it and compiling it do."""
    return compile_program(default_configuration() if file is None else load(file))


@dataclass(frozen=True)
class _OfferKind(Generic[N]):
    """Actions or plugins: the word for one, what is on offer and where, what only Volcano has."""

    word: str
    offers: Offers[N]
    group: str
    of_volcano: tuple[str, ...]

    def unknown(self, name: str) -> Problem:
        if name in self.of_volcano:
            remedy = f"remove it, or install a distribution that offers it under {self.group}"
            return Problem((), f"{self.word} {name} is one of Volcano's that kframework-batch does not have; {remedy}")
        remedy = f"no installed distribution offers it under {self.group}"
        return Problem((), f"unknown {self.word} {name!r}: {remedy}", nearest_name(name, self.offers))


class _ProgramCompiler:
    """Goes through a configuration once and collects what is wrong and what has no effect."""

    def __init__(self, configuration: BatchConfiguration, registry: BatchRegistry) -> None:
        self._configuration = configuration
        self._actions = _OfferKind("action", registry.actions, ACTIONS, _VOLCANO_ACTIONS)
        self._plugins = _OfferKind("plugin", registry.plugins, PLUGINS, _VOLCANO_PLUGINS)
        self._errors: list[ConfigError] = []
        self._notices: list[ConfigError] = []

    def program(self) -> Program:
        configuration = self._configuration
        given, location = configuration.action_arguments, configuration.location
        actions = [
            self._create(self._actions, name, location / "actions", given.get(name, RawArgs({}, location)))
            for name in configuration.actions
        ]
        tiers = [[self._plugin(entry) for entry in tier] for tier in configuration.tiers]
        for name, arguments in given.items():
            if name not in self._actions.offers:
                self._notices.append(arguments.location.error(self._actions.unknown(name)))
        raise_collected(self._errors)
        return Program(
            configuration,
            tuple(action for action in actions if action is not None),
            Tiers([[enabled for enabled in tier if enabled is not None] for tier in tiers]),
            (*configuration.warnings, *map(str, self._notices)),
        )

    def _plugin(self, entry: TierPlugin) -> EnabledPlugin | None:
        plugin = self._create(self._plugins, entry.name, entry.location / "name", entry.arguments)
        if plugin is None:
            return None
        plugin.hierarchical = entry.flags.get(HIERARCHY, False)
        for flag, subject in UNSUPPORTED_FLAGS.items():
            if entry.flags.get(flag):
                no_effect = Problem((), f"has no effect: {subject} are not supported")
                self._notices.append((entry.location / flag).error(no_effect))
        return EnabledPlugin(plugin, entry.flags, self._plugins.offers.distribution(entry.name) or "")

    def _create(self, sort: _OfferKind[N], name: str, location: YamlLocation, arguments: RawArgs) -> N | None:
        """Make one of a sort; None where that went wrong."""
        if name not in sort.offers:
            self._errors.append(location.error(sort.unknown(name)))
            return None
        offered = sort.offers.load(name)
        with collect_errors(self._errors):
            read = decode(offered.Arguments, dict(arguments.value), arguments.location)
            # What is below an argument that the model knows is the plugin's own matter.
            known = field_names(offered.Arguments)
            for unread in read.model_extra or {}:
                if not any(unread.startswith(f"{each}.") for each in known):
                    message = f'unknown argument "{unread}" is ignored'
                    self._notices.append(
                        arguments.location.error(Problem((unread,), message, nearest_name(unread, known)))
                    )
            try:
                return offered(read)
            except Exception as error:
                reason = f"cannot be made: {type(error).__name__}: {error}"
                raise PluginError(reason, plugin=name, distribution=sort.offers.distribution(name)) from error
        return None


# -- its file ----------------------------------------------------------------------------------------------------------

#: How long to wait between two looks at the file, and at most for its text, in seconds.
POLL_INTERVAL = 1.0
READ_TIMEOUT = 10.0


class ConfigurationFile:
    """A configuration file that may change while the scheduler runs.

    Only its text counts, however it changes: by writing, by replacement, or by switching a symbolic link, as in a
    mounted ConfigMap.
    """

    def __init__(self, path: str | Path, registry: BatchRegistry | None = None) -> None:
        self._path = path
        self._registry = registry
        self._text: str | None = None

    def load(self) -> Program:
        """Read and compile the file; ConfigError, PluginError."""
        _, self._text = read_source(self._path)
        return self._compile(self._text)

    async def watch(self, use: Callable[[Program], None], log: Callable[[str], None]) -> None:
        """Hand over a new program whenever the file has changed, until cancelled.

        A file that cannot be read or used is reported in one line, once, and the last good program stays in use.
        """
        unreadable = ""
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            try:
                text = await self._read()
            except ConfigError as error:
                if str(error) != unreadable:
                    log(_format_error(error))
                unreadable = str(error)
                continue
            unreadable = ""
            if text == self._text:
                continue
            self._text = text
            try:
                use(self._compile(text))
            except KFrameworkError as error:
                log(_format_error(error))

    async def _read(self) -> str:
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                _, text = await asyncio.to_thread(read_source, self._path)
        except TimeoutError as error:
            raise ConfigError(f"cannot be read: no answer within {READ_TIMEOUT:g} s", file=str(self._path)) from error
        return text

    def _compile(self, text: str) -> Program:
        return compile_program(parse(text, str(self._path)), self._registry)


def _format_error(error: KFrameworkError) -> str:
    return f"{'; '.join(str(error).splitlines())}; keeping the last good configuration"


# -- the core it asks --------------------------------------------------------------------------------------------------

_CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]

#: The arguments of the core's plugins where Volcano's differ from kube-scheduler's defaults.
_ARGS: Mapping[str, Mapping[str, object]] = {
    "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": _CPU_AND_MEMORY}},
    "MostAllocated": {"scoringStrategy": {"type": "MostAllocated", "resources": _CPU_AND_MEMORY}},
    "NodeResourcesBalancedAllocation": {"resources": [*_CPU_AND_MEMORY, {"name": "nvidia.com/gpu", "weight": 1}]},
    "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": []},
}


class MostAllocated(NodeResourcesFit):
    """NodeResourcesFit under a second name: a profile may prefer full nodes and empty ones, by weight."""

    name = "MostAllocated"


def core_registry() -> Registry:
    """Offer the installed plugins of the core, and the second name of one of them."""
    return Registry.with_plugins(MostAllocated)


def core_configuration(program: Program, schedulers: Sequence[str], seed: int = 0) -> Configuration:
    """Configure a core profile for each scheduler name, with what the plugins of a program ask, and this seed."""
    filters: dict[str, None] = {}
    scores: dict[str, int] = {}
    for plugin in program.tiers.plugins:
        filters |= dict.fromkeys(plugin.core_filters)
        scores |= plugin.core_scores
    plugins: dict[str, object] = {
        "multiPoint": {"disabled": [{"name": "*"}]},
        "queueSort": _enabled(["PrioritySort"]),
        "bind": _enabled(["DefaultBinder"]),
        "preScore": _enabled(_plugins_at("pre_score", scores)),
        "score": {"enabled": [{"name": name, "weight": weight} for name, weight in scores.items()]},
    }
    for point, key in _POINTS.items():
        plugins[key] = _enabled(_plugins_at(point, filters))
    args = [{"name": name, "args": _ARGS[name]} for name in dict.fromkeys((*filters, *scores)) if name in _ARGS]
    profiles = [{"schedulerName": name, "plugins": plugins, "pluginConfig": args} for name in schedulers]
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": profiles,
    }
    options = program.configuration.options.model_copy(update={"seed": seed})
    return replace(load_configuration(scheduler), options=options)


_POINTS = {"pre_filter": "preFilter", "filter": "filter", "reserve": "reserve", "pre_bind": "preBind"}


def _enabled(names: Iterable[str]) -> dict[str, object]:
    return {"enabled": [{"name": name} for name in names]}


def _plugins_at(point: str, plugins: Iterable[str]) -> list[str]:
    registry = core_registry()
    return [name for name in plugins if point in registry.points(name)]
