"""The effective configuration, as kube-scheduler's --write-config-to writes it."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from kframework.config.args import ApiArgs, decode_args
from kframework.config.configuration import (
    OPTIONS_API_VERSION,
    OPTIONS_KIND,
    Configuration,
    ProfileConfiguration,
)
from kframework.config.document import Json
from kframework.config.models import API_VERSION, KIND, ExtenderSettings, PluginSet, camel
from kframework.framework.plugin import PluginArgs
from kframework.objects.yaml_loader import YamlDumper

_Block = dict[str, Json]

#: The Args of kube-scheduler's plugins, by plugin, shown with defaults. Other plugins' args stay as written.
ApiArgsByPlugin = Mapping[str, type[ApiArgs]]


def effective(configuration: Configuration, models: ApiArgsByPlugin) -> dict[str, Json]:
    """Return the KubeSchedulerConfiguration in v1 form with every default and merged plugin."""
    configuration = configuration.with_all_profiles
    settings: _Block = configuration.settings.model_dump(mode="json", by_alias=True, exclude={"extenders"})
    if not configuration.settings.delay_cache_until_active:
        del settings["delayCacheUntilActive"]
    if configuration.settings.extenders:
        settings["extenders"] = [_extender(extender) for extender in configuration.settings.extenders]
    decoded = decode_args(configuration, models)
    profiles: list[Json] = [_profile(*each) for each in zip(configuration.profiles, decoded, strict=True)]
    return {"apiVersion": API_VERSION, "kind": KIND, **settings, "profiles": profiles}


def effective_options(configuration: Configuration) -> dict[str, Json]:
    """Return the KFrameworkConfiguration with every default, the emulated version above all."""
    options = configuration.options.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"apiVersion": OPTIONS_API_VERSION, "kind": OPTIONS_KIND, **options}


def effective_yaml(configuration: Configuration, models: ApiArgsByPlugin) -> str:
    """Return the effective configuration as YAML: the scheduler's document and kframework's."""
    documents = [effective(configuration, models), effective_options(configuration)]
    # libyaml's emitter, as PyYAML's own writes a NEL (U+0085) unescaped, which reads back as a space.
    return yaml.dump_all(documents, Dumper=YamlDumper, allow_unicode=True)


def _profile(profile: ProfileConfiguration, decoded: Mapping[str, PluginArgs]) -> Json:
    given = [name for name in profile.plugins.enabled_names() if name in profile.args]
    args: _Block = {name: dict(profile.args[name].value) for name in given}
    args |= {name: _args(name, args) for name, args in decoded.items()}
    shown: _Block = {
        "schedulerName": profile.scheduler_name,
        "plugins": {camel(key): _plugin_set(entries) for key, entries in profile.plugins.sets().items()},
        "pluginConfig": [{"name": name, "args": args[name]} for name in sorted(args)],
    }
    if profile.percentage_of_nodes_to_score is not None:
        shown["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    return shown


def _plugin_set(plugins: PluginSet) -> Json:
    lists = {"enabled": plugins.enabled, "disabled": plugins.disabled}
    return {key: [entry.model_dump() for entry in entries] for key, entries in lists.items() if entries}


def _args(name: str, args: PluginArgs) -> Json:
    fields = args.model_dump(mode="json", by_alias=True, exclude_none=True)
    present = {field: value for field, value in fields.items() if value != []}
    return {"apiVersion": API_VERSION, "kind": f"{name}Args", **present}


def _extender(extender: ExtenderSettings) -> Json:
    shown: _Block = extender.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**shown, "httpTimeout": str(extender.http_timeout)}
