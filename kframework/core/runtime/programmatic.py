"""The configuration for plugin classes passed in code, in addition to installed ones, like Go's `WithPlugin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kframework.config.configuration import Configuration
from kframework.config.default_plugins import default_plugins
from kframework.config.load import load_configuration
from kframework.config.models import API_VERSION, KIND
from kframework.core.runtime.hooks import extension_points
from kframework.framework.plugin import Plugin
from kframework.values.feature_gates import DEFAULT_GATES

_NO_WEIGHTS: Mapping[str, int] = {}

#: A configuration: a file, its content as a mapping, or the decoded object.
ConfigurationSource = str | Path | Mapping[str, object] | Configuration


def configuration_with_plugins(source: ConfigurationSource | None, plugins: Sequence[type[Plugin]]) -> Configuration:
    """Return the configuration, by default the default profile with these plugins enabled at all their points.

    An explicit configuration enables only the plugins it names: for the others a warning explains how.
    """
    if source is None:
        profile = {"plugins": plugin_sets(plugins)}
        return load_configuration({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
    configuration = source if isinstance(source, Configuration) else load_configuration(source)
    profiles = configuration.with_all_profiles.profiles
    enabled = {name for profile in profiles for name in profile.plugins.enabled_names()}
    warnings = list(configuration.warnings)
    for plugin in plugins:
        if plugin.name not in enabled:
            remedy = f"to enable it, name it under plugins.multiPoint.enabled: [{{name: {plugin.name}}}]"
            warnings.append(f"no profile enables plugin {plugin.name!r}, so it does not run; {remedy}")
    return replace(configuration, warnings=tuple(warnings))


def plugin_sets(plugins: Sequence[type[Plugin]], weights: Mapping[str, int] = _NO_WEIGHTS) -> dict[str, object]:
    """Return the `plugins` of a profile that enables these beside the default ones, with weights by name.

    They bind before the defaults, and a QueueSort plugin replaces PrioritySort, as there can be only one.
    """
    default = default_plugins(DEFAULT_GATES).enabled_names()
    added = [plugin for plugin in plugins if plugin.name not in default or plugin.name in weights]
    weighted = {name: {"weight": weight} for name, weight in weights.items()}
    sets: dict[str, object] = {
        "multiPoint": {"enabled": [{"name": plugin.name, **weighted.get(plugin.name, {})} for plugin in added]}
    }
    if binding := [plugin for plugin in added if "bind" in extension_points(plugin)]:
        sets["bind"] = {"enabled": [{"name": plugin.name} for plugin in binding]}
    if any("queue_sort" in extension_points(plugin) for plugin in added):
        sets["queueSort"] = {"disabled": [{"name": "PrioritySort"}]}
    return sets
