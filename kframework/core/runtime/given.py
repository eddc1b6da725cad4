"""A configuration for plugin classes that are given beside the installed ones, as Go's `WithPlugin` gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kframework.config.configuration import Configuration
from kframework.config.default_plugins import DEFAULT_PLUGINS
from kframework.config.load import load_configuration
from kframework.config.models import API_VERSION, KIND
from kframework.core.runtime.hooks import points_of
from kframework.framework.plugin import Plugin

#: What says how to schedule: a file, the same as a mapping, or what was made of it.
ConfigurationSource = str | Path | Mapping[str, object] | Configuration


def configuration_for(source: ConfigurationSource | None, plugins: Sequence[type[Plugin]]) -> Configuration:
    """Return the configuration, or without one the default profile with these plugins enabled wherever they can run.

    A configuration of its own enables what it names: of a plugin that it does not, a warning says how to.
    """
    if source is None:
        # To bind they are asked first, to sort there can be but one.
        default = DEFAULT_PLUGINS.enabled_names()
        added = [plugin for plugin in plugins if plugin.name not in default]
        written: dict[str, object] = {"multiPoint": _enabled(added)}
        if binding := [plugin for plugin in added if "bind" in points_of(plugin)]:
            written["bind"] = _enabled(binding)
        if any("queue_sort" in points_of(plugin) for plugin in added):
            written["queueSort"] = {"disabled": [{"name": "PrioritySort"}]}
        return load_configuration({"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": written}]})
    configuration = source if isinstance(source, Configuration) else load_configuration(source)
    enabled = {name for profile in configuration.profiles for name in profile.plugins.enabled_names()}
    warnings = list(configuration.warnings)
    for plugin in plugins:
        if plugin.name not in enabled:
            remedy = f"to enable it, name it under plugins.multiPoint.enabled: [{{name: {plugin.name}}}]"
            warnings.append(f"no profile enables plugin {plugin.name!r}, so it does not run; {remedy}")
    return replace(configuration, warnings=tuple(warnings))


def _enabled(plugins: Sequence[type[Plugin]]) -> object:
    return {"enabled": [{"name": plugin.name} for plugin in plugins]}
