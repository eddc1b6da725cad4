"""One plugin in a profile of its own, on tables without a scheduler: what its contract is checked with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import yaml

from kframework.clock import SystemClock
from kframework.config import parse
from kframework.config.models import API_VERSION, KIND
from kframework.effects import Nowhere
from kframework.plugin import Plugin
from kframework.plugin_handle import PluginHandle
from kframework.pod_engine import PodEngine
from kframework.profile import Profile
from kframework.profiles import compile_profiles
from kframework.registry import Registry, points_of
from kframework.state.cluster import ClusterState

__all__ = ["profile_of"]

T = TypeVar("T")

_PROFILE = "default-scheduler"


def profile_of(plugin: type[Plugin], args: Mapping[str, object], cluster: ClusterState) -> Profile:
    """Compile a profile that has this plugin and, beside it, only what every profile must have.

    Its handle shows the cluster; what the plugin asks for through it is not done. Raises ConfigError.
    """
    outside = Nowhere()
    engine = PodEngine(cluster, SystemClock(), outside, verifying=False)
    profiles = compile_profiles(
        parse(_configuration(plugin, args), "args"),
        Registry.of(plugin),
        lambda profile, name: PluginHandle(engine, outside, profile, name),
    )
    engine.use(profiles)
    return profiles[_PROFILE]


def _configuration(plugin: type[Plugin], args: Mapping[str, object]) -> str:
    needed = {"queue_sort": "PrioritySort", "bind": "DefaultBinder"}
    names = [name for point, name in needed.items() if point not in points_of(plugin)] + [plugin.name]
    profile = {
        "schedulerName": _PROFILE,
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": plugin.name, "args": dict(args)}] if args else [],
    }
    return yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
