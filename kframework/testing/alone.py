"""One plugin in a profile of its own, on tables without a cluster behind them: what its contract is checked with."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import yaml
from msgspec.structs import replace

from kframework.clock import VIRTUAL_EPOCH, Clock
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

T = TypeVar("T")

#: The name of the profile.
PROFILE = "default-scheduler"


#: What the sources of a plugin hold, by their names.
SourceValues = Mapping[str, Mapping[str, object]]

_NONE: SourceValues = {}


class _StoppedClock(Clock):
    """A stopped clock: the same calls have the same results on any day, and at the turn of a minute."""

    def now(self) -> float:
        return VIRTUAL_EPOCH


def profile_of(
    plugin: type[Plugin], args: Mapping[str, object], cluster: ClusterState, sources: SourceValues = _NONE
) -> Profile:
    """Compile a profile with only this plugin and what every profile must have.

    Its handle shows the cluster at the start of virtual time; requests through it are ignored. Raises ConfigError.
    """
    profiles = functools.partial(profiles_of, plugin, args, sources=sources)
    return PodEngine(cluster, _StoppedClock(), Host(), profiles, verifying=False).profiles[PROFILE]


def profiles_of(
    plugin: type[Plugin],
    args: Mapping[str, object],
    engine: Engine,
    beside: Sequence[str] = (),
    sources: SourceValues = _NONE,
) -> Profiles:
    """Compile a profile with this plugin, those of `beside` and what every profile must have; raises ConfigError.

    Through its handle the plugin sees and uses the engine, without an API. Its sources always hold these values.
    """
    configuration = parse(configuration_of(plugin, args, beside), "args")
    profiles = profiles_factory(configuration, Registry.with_plugins(plugin), Host())(engine)
    for source in profiles.sources():
        source.settings = replace(source.settings, stale_after=math.inf)
        source._apply(engine.clock.now(), source.validate(sources.get(source.name, {})))
    return profiles


def configuration_of(plugin: type[Plugin], args: Mapping[str, object], beside: Sequence[str] = ()) -> str:
    """Write a configuration of this plugin, those of `beside` and what every profile must have."""
    needed = {"queue_sort": "PrioritySort", "bind": "DefaultBinder"}
    names = [name for point, name in needed.items() if point not in extension_points(plugin)]
    names += [name for name in beside if name not in (*names, plugin.name)] + [plugin.name]
    enabled = [{"name": name} for name in names]
    return profile_text({"enabled": enabled, "disabled": [{"name": "*"}]}, {plugin.name: args} if args else {})


def profile_text(multi_point: Mapping[str, object], args: Mapping[str, Mapping[str, object]]) -> str:
    """Write a configuration of one profile with these plugins at every point, and their args by name."""
    profile = {
        "schedulerName": PROFILE,
        "plugins": {"multiPoint": multi_point},
        "pluginConfig": [{"name": name, "args": dict(values)} for name, values in args.items()],
    }
    return yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}, sort_keys=False)
