"""The effective configuration, as kube-scheduler's --write-config-to writes it."""

from __future__ import annotations

from typing import TypeVar

import yaml

from kframework.config.configuration import Configuration, Profile, RawArgs
from kframework.config.document import Json
from kframework.config.models import API_VERSION, KIND, Extender, Plugins, PluginSet, camel
from kframework.config.options import OPTIONS_API_VERSION, OPTIONS_KIND, Options
from kframework.framework.plugin import PluginArgs

Mapping = dict[str, Json]
T = TypeVar("T")


def effective(configuration: Configuration) -> dict[str, Json]:
    """Return the KubeSchedulerConfiguration in v1 form with every default and merged plugin in its place."""
    settings: Mapping = configuration.settings.model_dump(mode="json", by_alias=True, exclude={"extenders"})
    if not configuration.settings.delay_cache_until_active:
        del settings["delayCacheUntilActive"]
    if configuration.settings.extenders:
        settings["extenders"] = [_extender(extender) for extender in configuration.settings.extenders]
    profiles: list[Json] = [_profile(profile) for profile in configuration.profiles]
    return {"apiVersion": API_VERSION, "kind": KIND, **settings, "profiles": profiles}


def effective_options(configuration: Configuration) -> dict[str, Json] | None:
    """Return the KFrameworkConfiguration; None when everything in it is at its default."""
    if configuration.options == Options():
        return None
    options = configuration.options.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"apiVersion": OPTIONS_API_VERSION, "kind": OPTIONS_KIND, **options}


def effective_yaml(configuration: Configuration) -> str:
    """Return the effective configuration as YAML: the scheduler's document, and ours if it says anything."""
    documents = [effective(configuration), effective_options(configuration)]
    # libyaml's emitter, as PyYAML's own writes a NEL (U+0085) as it is, which reads back as a space.
    return yaml.dump_all(
        [document for document in documents if document is not None], Dumper=yaml.CSafeDumper, allow_unicode=True
    )


def _profile(profile: Profile) -> Json:
    shown: Mapping = {
        "schedulerName": profile.scheduler_name,
        "plugins": _plugins(profile.plugins),
        "pluginConfig": [{"name": name, "args": _args(name, args)} for name, args in sorted(profile.args.items())],
    }
    if profile.percentage_of_nodes_to_score is not None:
        shown["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    return shown


def _plugins(plugins: Plugins) -> Json:
    return {camel(key): _plugin_set(entries) for key, entries in plugins.sets().items()}


def _plugin_set(plugins: PluginSet) -> Json:
    lists = {"enabled": plugins.enabled, "disabled": plugins.disabled}
    return {key: [entry.model_dump() for entry in entries] for key, entries in lists.items() if entries}


def _args(name: str, args: PluginArgs | RawArgs) -> Json:
    if isinstance(args, RawArgs):
        return dict(args.value)
    fields = args.model_dump(mode="json", by_alias=True, exclude_none=True)
    present = {field: value for field, value in fields.items() if value != []}
    return {"apiVersion": API_VERSION, "kind": f"{name}Args", **present}


def _extender(extender: Extender) -> Json:
    shown: Mapping = extender.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**shown, "httpTimeout": str(extender.http_timeout)}
