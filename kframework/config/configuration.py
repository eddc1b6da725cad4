"""A configuration as it takes effect: defaulted, merged and validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from kframework.config.decode import ApiModel, Bool, Int32, Int64, schema_type
from kframework.config.document import Json, YamlLocation
from kframework.config.duration import Duration
from kframework.config.models import API_VERSION, Plugins, Settings, camel
from kframework.objects.problem import Problem, invalid, not_supported
from kframework.objects.quantity import QuantityError, value
from kframework.values.feature_gates import LATEST_MINOR, MINORS, FeatureGates

#: The kind of the document that has our own options, and its apiVersion.
OPTIONS_KIND = "KFrameworkConfiguration"
OPTIONS_API_VERSION = "kframework.dev/v1"

_NOT_POSITIVE = "must be greater than zero"


class TracingOptions(ApiModel):
    """The destination of traces, and how many of a million scheduling attempts are traced."""

    exporter: Literal["none", "console", "otlp"] = "none"
    """`console` writes spans to stderr, `otlp` sends them to `endpoint`."""
    endpoint: str | None = None
    """The collector's address."""
    sampling_rate_per_million: Annotated[Int32, schema_type(minimum=0, maximum=1_000_000)] = 0
    """How many of a million attempts are traced."""


class HookTimeouts(ApiModel):
    """Time limits of plugins in hooks that may wait, and of one fetch of a source, in seconds."""

    start: Duration = Duration(30)
    """Time limit of a plugin's `start`, which may load data. The process ends with an error after it."""
    source: Duration = Duration(30)
    """Time limit of one fetch of a source: that of requests to the API server by default."""
    pre_bind: Duration = Duration(600)
    """Time limit of PreBind: what kube-scheduler gives volumes and devices (bindTimeoutSeconds, bindingTimeout)."""
    bind: Duration = Duration(60)
    """Time limit of Bind: two requests without an answer. The retries of `handle.api.bind` do not count."""
    post_bind: Duration = Duration(30)
    """Time limit of PostBind."""
    close: Duration = Duration(5)
    """Time limit of a plugin's `close`. With the rest of a stop it is within a pod's default grace period of 30 s."""


class ProfileOptions(ApiModel):
    """Options of a profile of the other document."""

    scheduler_name: str = ""
    """The profile's name."""
    shadow: str = ""
    """The profile that this one shadows: it decides that one's pods, too, which changes nothing; it has none itself."""
    shadow_budget: Duration = Duration(0.1)
    """How long a shadow may work in each second; of more pods than that suffices for, it takes a sample."""


@lru_cache(maxsize=64)  # nine times for each scheduler
def _feature_gates(minor: str, settings: tuple[tuple[str, bool], ...]) -> FeatureGates:
    return FeatureGates(minor, dict(settings))


class Options(ApiModel):
    """Options that kube-scheduler's file has no field for."""

    seed: Int64 = 0
    """The random seed."""
    layer_memory: str = "256Mi"
    """The memory limit of cached answers of plugins: a quantity in bytes."""
    tracing: TracingOptions = TracingOptions()
    """The destination of traces."""
    pod_max_in_unschedulable_pods_duration: Duration = Duration(300)
    """When an unschedulable pod is retried without an event; kube-scheduler's flag of that name."""
    preempt_other_schedulers_pods: Bool = True
    """Whether pods with a schedulerName of no profile may be preempted."""
    count_down_disruption_budgets: Bool = True
    """Whether an eviction counts in PodDisruptionBudgets at once; kube-scheduler waits for their status."""
    report_gated_pods: Bool = False
    """Whether pods that a plugin gates get a condition and an event (KEP-5501)."""
    gang_binding_timeout: Duration = Duration(0)
    """How long a gang may be bound in part before its bound pods are evicted; 0: never, as in kube-scheduler."""
    hook_timeouts: HookTimeouts = HookTimeouts()
    """Time limits of plugins."""
    profiles: tuple[ProfileOptions, ...] = ()
    """Options of single profiles, by name."""
    emulated_version: str = LATEST_MINOR
    """The minor of Kubernetes whose kube-scheduler is imitated: 1.36 or 1.37."""
    feature_gates: dict[str, Bool] = Field(default_factory=dict)
    """Kubernetes' feature gates, as in `--feature-gates`."""

    @property
    def gates(self) -> FeatureGates:
        """The feature gates of the emulated version with these settings."""
        return _feature_gates(self.emulated_version, tuple(self.feature_gates.items()))

    @property
    def layer_memory_bytes(self) -> int:
        """The size of the memory for remembered answers, in bytes."""
        return value(self.layer_memory)

    def problems(self) -> Iterator[Problem]:
        """Yield the options that are out of range."""
        try:
            if self.layer_memory_bytes < 0:
                yield invalid(("layerMemory",), self.layer_memory, "must be non-negative")
        except QuantityError as error:
            yield Problem(("layerMemory",), str(error))
        if self.emulated_version not in MINORS:
            yield not_supported(("emulatedVersion",), self.emulated_version, MINORS)
        else:
            yield from (problem.with_prefix(("featureGates",)) for problem in self.gates.problems())
        rate = self.tracing.sampling_rate_per_million
        if not 0 <= rate <= 1_000_000:
            yield invalid(("tracing", "samplingRatePerMillion"), rate, "not in valid range [0, 1000000]")
        duration = self.pod_max_in_unschedulable_pods_duration
        if duration <= 0:
            yield invalid(("podMaxInUnschedulablePodsDuration",), str(duration), _NOT_POSITIVE)
        if self.gang_binding_timeout < 0:
            yield invalid(("gangBindingTimeout",), str(self.gang_binding_timeout), "must be non-negative")
        for name, timeout in self.hook_timeouts:
            if timeout <= 0:
                yield invalid(("hookTimeouts", to_camel(name)), str(timeout), _NOT_POSITIVE)
        for index, profile in enumerate(self.profiles):
            if not 0 < profile.shadow_budget <= 1:
                detail = "must be greater than zero, and at most 1s"
                yield invalid(("profiles", index, "shadowBudget"), str(profile.shadow_budget), detail)


_GROUP = API_VERSION.partition("/")[0]


@dataclass(frozen=True)
class RawArgs:
    """The args of a plugin as written in the file, to be decoded by the plugin's Args."""

    value: Mapping[str, Json]
    location: YamlLocation = field(compare=False, repr=False)


@dataclass(frozen=True)
class ProfileConfiguration:
    """A profile: `plugins` with the default set merged in, `args` of the plugins that have any.

    `location` is the profile's location in the file, `written` the plugins that it has there.
    `percentage_of_nodes_to_score` None uses the global setting.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: Plugins
    args: Mapping[str, RawArgs]
    location: YamlLocation = field(compare=False, repr=False)
    written: Plugins = field(default_factory=Plugins, compare=False, repr=False)

    def raw_args(self, plugin_name: str) -> RawArgs:
        """Return the args of a plugin as written in the file, empty if there are none."""
        return self.args.get(plugin_name) or RawArgs({}, self.location / "pluginConfig" / plugin_name)


@dataclass(frozen=True)
class ShadowConfiguration:
    """A profile that decides the pods of the one named `shadowed` again, within a budget of seconds per second."""

    profile: ProfileConfiguration
    shadowed: str
    budget: float


@dataclass(frozen=True)
class Configuration:
    """The content of a configuration file.

    `settings` is the KubeSchedulerConfiguration without its profiles, `options` kframework's document. The `shadows`
    are not among the `profiles`. `warnings` are lines for the user, each with its location.
    """

    settings: Settings
    profiles: tuple[ProfileConfiguration, ...]
    options: Options
    warnings: tuple[str, ...] = field(default=(), compare=False)
    shadows: tuple[ShadowConfiguration, ...] = ()

    @property
    def with_all_profiles(self) -> Configuration:
        """The same with the shadows among the profiles, as they are written."""
        return replace(self, profiles=(*self.profiles, *(shadow.profile for shadow in self.shadows)), shadows=())

    def of_shadow(self, shadow: ShadowConfiguration) -> Configuration:
        """Return the configuration of an engine with the profile of a shadow alone, under the shadowed name."""
        profile = replace(shadow.profile, scheduler_name=shadow.shadowed)
        return replace(self, profiles=(profile,), shadows=())


def plugin_references(
    profile: ProfileConfiguration, key: str, verb: Literal["enabled", "disabled"], name: str
) -> Iterator[YamlLocation]:
    """Yield the locations where the file names a plugin under a key, `multi_point` or a point; none for defaults."""
    entries = profile.location / "plugins" / camel(key) / verb
    for index, entry in enumerate(entries.value if isinstance(entries.value, list) else ()):
        if isinstance(entry, dict) and entry.get("name") == name:
            yield entries / index / "name"


def strip_type_meta(args: Mapping[str, Json], plugin_name: str, location: YamlLocation) -> dict[str, Json]:
    """Return args without their `apiVersion` and `kind`, which must be `<plugin>Args` if they are given."""
    wanted = f"{plugin_name}Args"
    kind = args.get("kind", wanted)
    if kind != wanted:
        group = str(args.get("apiVersion", API_VERSION)).rpartition("/")[0]
        message = f"args for plugin {plugin_name} were not of type {wanted}.{_GROUP}, got {kind}.{group}"
        raise location.error(Problem(("kind",), message))
    return {name: value for name, value in args.items() if name not in ("apiVersion", "kind")}
