"""Decoding of plugin args by each plugin's Args model, with additional rules for kube-scheduler's plugins.

As in kube-scheduler, decoding fills in defaults, and then the rules of the Args are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from kframework.config.configuration import Configuration, ProfileConfiguration, strip_type_meta
from kframework.config.decode import ApiModel, decode
from kframework.config.models import API_VERSION
from kframework.errors import ConfigError, collect_errors, raise_collected
from kframework.framework.plugin import PluginArgs
from kframework.objects.problem import Problem, short_repr
from kframework.values.feature_gates import FeatureGates


class ApiArgs(PluginArgs, ApiModel):
    """The Args of a plugin of kube-scheduler: a kind of `kubescheduler.config.k8s.io`, checked by its rules."""

    #: Whether the args of a plugin that is not enabled are checked too.
    checked_when_disabled: ClassVar[bool] = True

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        """Yield the violations of kube-scheduler's rules, in its words."""
        return iter(())


def decode_args(
    configuration: Configuration, models: Mapping[str, type[PluginArgs]]
) -> Sequence[Mapping[str, PluginArgs]]:
    """Decode the args of each profile's enabled plugins by these models, defaulted.

    The args of a plugin that is not enabled are checked, too. Raises ConfigError (ConfigErrors) for all that is wrong.
    """
    errors: list[ConfigError] = []
    decoded = [
        _decode_profile(profile, models, configuration.options.gates, errors) for profile in configuration.profiles
    ]
    raise_collected(errors)
    return decoded


def _decode_profile(
    profile: ProfileConfiguration,
    models: Mapping[str, type[PluginArgs]],
    gates: FeatureGates,
    errors: list[ConfigError],
) -> Mapping[str, PluginArgs]:
    enabled = profile.plugins.enabled_names()
    decoded: dict[str, PluginArgs] = {}
    for name in dict.fromkeys((*profile.args, *enabled)):
        if name not in models:
            continue
        written, model = profile.raw_args(name), models[name]
        version = written.value.get("apiVersion", API_VERSION)
        with collect_errors(errors):
            if issubclass(model, ApiArgs) and version != API_VERSION:
                message = f'no kind "{name}Args" is registered for version {short_repr(version)}; want {API_VERSION}'
                raise written.location.error(Problem(("apiVersion",), message))
            args = decode(model, strip_type_meta(written.value, name, written.location), written.location)
            if isinstance(args, ApiArgs) and (name in enabled or args.checked_when_disabled):
                raise_collected([written.location.error(problem) for problem in args.problems(gates)])
            decoded[name] = args
    return {name: decoded[name] for name in enabled if name in decoded}
