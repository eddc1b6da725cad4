"""A profile with a single plugin, on a cluster state without a cluster: what the contract is checked with."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import yaml
from msgspec.structs import replace

from kframework.clock import VIRTUAL_EPOCH, Clock
from kframework.config.configuration import OPTIONS_API_VERSION, OPTIONS_KIND
from kframework.config.load import parse
from kframework.config.models import API_VERSION, KIND
from kframework.core.engine import Engine
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.hooks import extension_points
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import Profiles
from kframework.core.runtime.registry import Registry
from kframework.framework.plugin import Plugin
from kframework.state.cluster import ClusterState
from kframework.state.inbox import AnswersInvalidated, Message
from kframework.values.feature_gates import FeatureGates

T = TypeVar("T")

#: The name of the profile.
PROFILE = "default-scheduler"


#: The values of a plugin's sources, by their names.
SourceValues = Mapping[str, Mapping[str, object]]

_NO_VALUES: SourceValues = {}


class StoppedClock(Clock):
    """A clock that does not move, so that the same calls have the same results on any day."""

    def __init__(self, moment: float = VIRTUAL_EPOCH) -> None:
        self._moment = moment

    def now(self) -> float:
        return self._moment


def emulated_gates(minors: Sequence[str], settings: Mapping[str, bool] | None, seed: int, example: int) -> FeatureGates:
    """Return the feature gates of an example: the minors of Kubernetes take turns."""
    return FeatureGates(minors[(seed + example) % len(minors)], settings or {})


def build_profile(
    plugin: type[Plugin], args: Mapping[str, object], cluster: ClusterState, sources: SourceValues = _NO_VALUES
) -> Profile:
    """Compile a profile with only this plugin, at the start of virtual time, on an idle engine; ConfigError."""
    profiles = functools.partial(build_profiles, plugin, args, sources=sources)
    return _IdleEngine(cluster, StoppedClock(), Host(), profiles, verifying=False).profiles[PROFILE]


class _IdleEngine(PodEngine):
    """An engine that schedules nothing: of what plugins request it only drops cached answers, at once."""

    def request(self, message: Message) -> None:
        if isinstance(message, AnswersInvalidated):
            self.drop_answers(message.node_names)


def build_profiles(
    plugin: type[Plugin],
    args: Mapping[str, object],
    engine: Engine,
    other_plugins: Sequence[str] = (),
    sources: SourceValues = _NO_VALUES,
) -> Profiles:
    """Compile a profile with this plugin, the `other_plugins` and what every profile must have.

    Raises ConfigError. Through its handle the plugin sees and uses the engine, without an API. Its sources always hold
    these values.
    """
    configuration = parse(format_configuration(plugin, args, other_plugins, engine.cluster.feature_gates), "args")
    profiles = profiles_factory(configuration, Registry.with_plugins(plugin), Host())(engine)
    for source in profiles.sources():
        source.settings = replace(source.settings, stale_after=math.inf)
        source._apply(engine.clock.now(), source.validate(sources.get(source.name, {})))
    return profiles


def format_configuration(
    plugin: type[Plugin], args: Mapping[str, object], other_plugins: Sequence[str], gates: FeatureGates
) -> str:
    """Return a configuration of this plugin, the `other_plugins` and what every profile must have, as YAML."""
    required = {"queue_sort": "PrioritySort", "bind": "DefaultBinder"}
    names = [name for point, name in required.items() if point not in extension_points(plugin)]
    names += [name for name in other_plugins if name not in (*names, plugin.name)] + [plugin.name]
    enabled = [{"name": name} for name in names]
    multi_point = {"enabled": enabled, "disabled": [{"name": "*"}]}
    profile = format_profile({"multiPoint": multi_point}, {plugin.name: args} if args else {})
    options = {
        "apiVersion": OPTIONS_API_VERSION,
        "kind": OPTIONS_KIND,
        "emulatedVersion": gates.minor,
        "featureGates": dict(gates.settings),
    }
    return f"{profile}---\n{yaml.safe_dump(options)}"


def format_profile(plugin_sets: Mapping[str, object], args: Mapping[str, Mapping[str, object]]) -> str:
    """Return a configuration of one profile with these plugins by point and these args, as YAML."""
    profile = {
        "schedulerName": PROFILE,
        "plugins": plugin_sets,
        "pluginConfig": [{"name": name, "args": dict(values)} for name, values in args.items()],
    }
    return yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}, sort_keys=False)
