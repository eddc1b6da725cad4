"""Loading of a configuration: documents by kind, decoding, defaults, validation, and command-line overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from kframework.config.configuration import (
    OPTIONS_API_VERSION,
    OPTIONS_KIND,
    Configuration,
    Options,
    ProfileConfiguration,
    RawArgs,
    ShadowConfiguration,
)
from kframework.config.decode import M, decode
from kframework.config.default_plugins import REMOVED_PLUGINS, REPLACEMENT, default_plugins
from kframework.config.document import Document, Json, YamlLocation, parse_configuration_documents, read_source
from kframework.config.expand import merge_plugins
from kframework.config.models import (
    API_VERSION,
    GROUP_POINTS,
    KIND,
    PLACEMENT_POINTS,
    POINTS,
    ExtenderSettings,
    KubeSchedulerConfiguration,
    LeaderElectionSettings,
    PluginConfigEntry,
    ProfileBlock,
    Settings,
    camel,
)
from kframework.errors import ConfigError, collect_errors, nearest_name, raise_collected
from kframework.objects.label_selectors import is_qualified_name
from kframework.objects.problem import FieldPath, Problem, duplicate, invalid, not_supported, required
from kframework.values.feature_gates import MISSING_FEATURES, FeatureGates

#: Removed versions of the configuration, with the Kubernetes version that removed them.
_REMOVED_VERSIONS = {
    "kubescheduler.config.k8s.io/v1beta1": "1.23",
    "kubescheduler.config.k8s.io/v1beta2": "1.28",
    "kubescheduler.config.k8s.io/v1beta3": "1.29",
}

#: The kind that v1.23 removed: predicates and priorities.
_POLICY = "Policy"

#: The kinds of a file's documents, and the version of each.
KINDS: Mapping[str, str] = {KIND: API_VERSION, OPTIONS_KIND: OPTIONS_API_VERSION}

#: The entry of a ConfigMap with several that holds the configuration.
CONFIG_MAP_KEY = "scheduler-config.yaml"

#: The plugin that leaves resources to extenders.
_NODE_RESOURCES_FIT = "NodeResourcesFit"

#: The location of values that are in no file.
_NO_FILE = Document(None, {}, {}).at()


def load_configuration(source: str | Path | Mapping[str, object]) -> Configuration:
    """Load a configuration from a YAML or JSON file, from standard input if `source` is `-`, or from a mapping.

    The file may be a ConfigMap that holds the configuration. Raises ConfigError, or ConfigErrors for several errors.
    """
    if isinstance(source, Mapping):
        return configuration_from_documents([Document(None, cast("Json", source), {})], None)
    file, text = read_source(source)
    return parse(text, file)


def parse(text: str, file: str | None = None) -> Configuration:
    """Load a configuration from a text; `file` is its name for error messages."""
    return configuration_from_documents(parse_configuration_documents(text, file, CONFIG_MAP_KEY), file)


def configuration_from_documents(parsed: Sequence[Document], file: str | None) -> Configuration:
    """Load a configuration from the documents of a file, at most one of each kind."""
    documents = _by_kind(parsed, file)
    absent = Document(file, {}, {})
    return _configuration(documents.get(KIND, absent).at(), documents.get(OPTIONS_KIND, absent).at())


def default_configuration() -> Configuration:
    return _configuration(_NO_FILE, _NO_FILE)


def with_overrides(
    configuration: Configuration,
    *,
    leader_election: Mapping[str, object],
    client_connection: Mapping[str, object],
    options: Mapping[str, object],
) -> Configuration:
    """Return the configuration with these fields replaced, by name; None leaves a field unchanged.

    Raises ConfigError, or ConfigErrors for several errors.
    """
    old = configuration.settings
    settings = old.model_copy(
        update={
            "leader_election": _with_fields(old.leader_election, leader_election),
            "client_connection": _with_fields(old.client_connection, client_connection),
        }
    )
    own = _with_fields(configuration.options, options)
    problems = [*settings_problems(settings), *own.problems()]
    raise_collected([_NO_FILE.error(problem) for problem in problems])
    # A gate that the options turn on may add to the default plugins.
    defaults = default_plugins(own.gates)
    profiles = [
        replace(each, plugins=merge_plugins(defaults, each.written))
        for each in configuration.with_all_profiles.profiles
    ]
    return _with_shadows(replace(configuration, settings=settings, options=own, profiles=tuple(profiles)))


def _with_fields(block: M, fields: Mapping[str, object]) -> M:
    return block.model_copy(update={name: value for name, value in fields.items() if value is not None})


def _by_kind(documents: Sequence[Document], file: str | None) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for document in documents:
        kind = _kind(document.at())
        if kind in found:
            raise document.at().error(Problem((), f"duplicate {kind}; a file contains one"))
        found[kind] = document
    if not found:
        raise ConfigError(f"is empty; want kind {KIND} ({API_VERSION})", file=file)
    return found


def _kind(document: YamlLocation) -> str:
    if not isinstance(document.value, dict):
        raise document.error(Problem((), f"is not a {KIND} ({API_VERSION}): expected apiVersion and kind"))
    kind, version = document.value.get("kind"), document.value.get("apiVersion")
    if kind == _POLICY:
        message = f"scheduling policies were removed in Kubernetes 1.23; write a {KIND} ({API_VERSION}) with plugins"
        raise document.error(Problem(("kind",), message))
    if not isinstance(kind, str) or not isinstance(version, str):
        if "actions" in document.value or "tiers" in document.value:
            remedy = "kframework batch reads it, and config check --engine batch checks it"
            raise document.error(Problem((), f"actions and tiers are Volcano's: {remedy}"))
        missing = "kind" if not isinstance(kind, str) else "apiVersion"
        raise document.error(Problem((missing,), f"Required value: want kind {KIND} ({API_VERSION})"))
    if kind not in KINDS:
        wanted = " or ".join(f"{known} ({current})" for known, current in KINDS.items())
        message = f"couldn't decode as {KIND}, got {kind} ({version}); want {wanted}"
        raise document.error(Problem(("kind",), message, nearest_name(kind, KINDS)))
    if kind == KIND and version in _REMOVED_VERSIONS:
        message = f"{version} was removed in Kubernetes {_REMOVED_VERSIONS[version]}; write apiVersion: {API_VERSION}"
        raise document.error(Problem(("apiVersion",), message))
    if version != KINDS[kind]:
        message = f'no kind "{kind}" is registered for version "{version}"; want {KINDS[kind]}'
        raise document.error(Problem(("apiVersion",), message))
    return kind


def _configuration(scheduler: YamlLocation, options: YamlLocation) -> Configuration:
    errors: list[ConfigError] = []
    with collect_errors(errors):
        written = decode(KubeSchedulerConfiguration, _strip_type_meta(scheduler), scheduler)
    with collect_errors(errors):
        own = _options(options)
    raise_collected(errors)

    blocks = _with_default_name(written.profiles)
    profiles = [_profile(block, scheduler / "profiles" / index, own.gates) for index, block in enumerate(blocks)]
    errors += [scheduler.error(problem) for problem in settings_problems(written)]
    errors += [scheduler.error(problem) for problem in profile_problems(profiles, blocks)]
    errors += [options.error(problem) for problem in shadow_problems(own, written)]
    raise_collected(errors)

    settings = Settings(**{name: getattr(written, name) for name in Settings.model_fields})
    profiles = [_without_managed_resources(profile, settings) for profile in profiles]
    warnings = [str(notice) for profile in profiles for notice in _warnings(profile, own.gates)]
    return _with_shadows(Configuration(settings, tuple(profiles), own, (*warnings, *gate_warnings(own))))


def _with_shadows(configuration: Configuration) -> Configuration:
    """Take the shadows out of the profiles."""
    marked = {each.scheduler_name: each for each in configuration.options.profiles if each.shadow}
    shadows = tuple(
        ShadowConfiguration(each, marked[each.scheduler_name].shadow, marked[each.scheduler_name].shadow_budget)
        for each in configuration.profiles
        if each.scheduler_name in marked
    )
    profiles = tuple(each for each in configuration.profiles if each.scheduler_name not in marked)
    return replace(configuration, profiles=profiles, shadows=shadows)


def shadow_problems(options: Options, written: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Yield what is wrong with the options of single profiles: names, and shadows that cannot be."""
    names = [block.scheduler_name or "" for block in _with_default_name(written.profiles)]
    shadows = {each.scheduler_name for each in options.profiles if each.shadow}
    for index, profile in enumerate(options.profiles):
        path: FieldPath = ("profiles", index)
        if profile.scheduler_name not in names:
            yield not_supported((*path, "schedulerName"), profile.scheduler_name, names)
        if profile.scheduler_name in [each.scheduler_name for each in options.profiles[:index]]:
            yield duplicate((*path, "schedulerName"), profile.scheduler_name)
        if profile.shadow and profile.shadow not in names:
            yield not_supported((*path, "shadow"), profile.shadow, [name for name in names if name not in shadows])
        elif profile.shadow in shadows:
            yield invalid((*path, "shadow"), profile.shadow, "is a shadow itself")
        elif profile.shadow and written.extenders:
            yield invalid((*path, "shadow"), profile.shadow, "extenders cannot be called for shadows: remove either")


def gate_warnings(options: Options) -> list[str]:
    """Return a warning about feature gates that change nothing here, if there are any."""
    names = options.gates.without_effect()
    described = [f"{name} ({MISSING_FEATURES[name]})" if name in MISSING_FEATURES else name for name in names]
    return [f"feature gates without effect here: {', '.join(described)}"] if names else []


def options_of(document: YamlLocation) -> Options:
    """Decode kframework's options from a document; ConfigError, or ConfigErrors for several errors."""
    _kind(document)
    return _options(document)


def _options(document: YamlLocation) -> Options:
    own = decode(Options, _strip_type_meta(document), document)
    raise_collected([document.error(problem) for problem in own.problems()])
    return own


def _strip_type_meta(document: YamlLocation) -> Json:
    assert isinstance(document.value, dict)  # _kind has refused everything else
    return {name: value for name, value in document.value.items() if name not in ("apiVersion", "kind")}


def _with_default_name(blocks: Sequence[ProfileBlock]) -> Sequence[ProfileBlock]:
    """Fill in the one name that has a default: that of an only profile."""
    only = blocks[0] if blocks else ProfileBlock()
    if len(blocks) > 1 or only.scheduler_name is not None:
        return blocks
    return [only.model_copy(update={"scheduler_name": "default-scheduler"})]


def _profile(block: ProfileBlock, location: YamlLocation, gates: FeatureGates) -> ProfileConfiguration:
    args = {
        entry.name: RawArgs(entry.args or {}, location / "pluginConfig" / index / "args")
        for index, entry in enumerate(block.plugin_config)
    }
    name, percentage = block.scheduler_name or "", block.percentage_of_nodes_to_score
    plugins = merge_plugins(default_plugins(gates), block.plugins)
    return ProfileConfiguration(name, percentage, plugins, args, location, block.plugins)


def _without_managed_resources(profile: ProfileConfiguration, settings: Settings) -> ProfileConfiguration:
    """Make NodeResourcesFit ignore resources that extenders manage with `ignoredByScheduler`."""
    managed = [resource for extender in settings.extenders for resource in extender.managed_resources]
    ignored: list[Json] = [resource.name for resource in managed if resource.ignored_by_scheduler]
    if not ignored:
        return profile
    if _NODE_RESOURCES_FIT not in profile.args and _NODE_RESOURCES_FIT not in profile.plugins.enabled_names():
        message = "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
        raise profile.location.error(Problem(("pluginConfig",), message))
    written = profile.raw_args(_NODE_RESOURCES_FIT)
    changed = RawArgs({**written.value, "ignoredResources": ignored}, written.location)
    return replace(profile, args={**profile.args, _NODE_RESOURCES_FIT: changed})


def _warnings(profile: ProfileConfiguration, gates: FeatureGates) -> Iterator[ConfigError]:
    for key in GROUP_POINTS:
        is_placement = key in PLACEMENT_POINTS
        if profile.plugins.key(key).enabled and not (gates.has_placements if is_placement else gates.has_pod_groups):
            gate = "TopologyAwareWorkloadScheduling" if is_placement else "GenericWorkload"
            message = f"has no effect without the feature gate {gate}"
            yield profile.location.error(Problem(("plugins", camel(key)), message))
    enabled = profile.plugins.enabled_names()
    for name in profile.args:
        if name not in enabled:
            message = f"args of {name} have no effect: the profile does not enable it"
            yield profile.location.error(Problem(("pluginConfig",), message, nearest_name(name, enabled)))


_JITTER_FACTOR = 1.2


def settings_problems(settings: Settings) -> Iterator[Problem]:
    burst = settings.client_connection.burst
    if burst < 0:
        yield invalid(("clientConnection", "burst"), burst, "must be non-negative")
    if settings.leader_election.leader_elect:
        yield from _leader_election_problems(settings.leader_election)
    if settings.parallelism <= 0:
        yield invalid(("parallelism",), settings.parallelism, "should be an integer value greater than zero")
    yield from _percentage_problems(("percentageOfNodesToScore",), settings.percentage_of_nodes_to_score)
    initial, longest = settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid(("podInitialBackoffSeconds",), initial, "must be greater than 0")
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid(("podMaxBackoffSeconds",), longest, detail)
    yield from _extender_problems(settings.extenders)


def _leader_election_problems(election: LeaderElectionSettings) -> Iterator[Problem]:
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, duration in durations.items():
        if duration <= 0:
            yield invalid(("leaderElection", name), str(duration), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        detail = "must be greater than `RenewDeadline`"
        yield invalid(("leaderElection", "leaseDuration"), str(election.renew_deadline), detail)
    if election.renew_deadline <= election.retry_period * _JITTER_FACTOR:
        detail = "renewDeadline must be greater than retryPeriod*JitterFactor"  # the election library's own check
        yield invalid(("leaderElection", "renewDeadline"), str(election.renew_deadline), detail)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid(("leaderElection", "resourceLock"), election.resource_lock, detail)


def _percentage_problems(path: FieldPath, percentage: int) -> Iterator[Problem]:
    if not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _extender_problems(extenders: Sequence[ExtenderSettings]) -> Iterator[Problem]:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            yield invalid(("extenders", index, "weight"), extender.weight, detail)
        for at, resource in enumerate(extender.managed_resources):
            path: FieldPath = ("extenders", index, "managedResources", at, "name")
            if not _is_extended_resource(resource.name):
                yield invalid(path, resource.name, "is an invalid extended resource name")
            if resource.name in managed:
                yield invalid(path, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid(("extenders",), found, "only one extender can implement bind")


def _is_extended_resource(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return not native and not name.startswith("requests.") and is_qualified_name(f"requests.{name}")


def profile_problems(profiles: Sequence[ProfileConfiguration], blocks: Sequence[ProfileBlock]) -> Iterator[Problem]:
    """Yield the problems of the profiles, individually and together; `blocks` are the same as written."""
    names = [profile.scheduler_name for profile in profiles]
    for index, (profile, written) in enumerate(zip(profiles, blocks, strict=True)):
        path: FieldPath = ("profiles", index)
        if not profile.scheduler_name:
            yield required((*path, "schedulerName"))
        if profile.scheduler_name in names[:index]:
            yield duplicate((*path, "schedulerName"), profile.scheduler_name)
        yield from _percentage_problems((*path, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score or 0)
        for point in POINTS:
            for at, entry in enumerate(profile.plugins.key(point).enabled):
                if entry.name in REMOVED_PLUGINS:
                    yield _removed_field_problem((*path, "plugins", camel(point), "enabled", at), entry.name)
        # A negative weight would invert a score; kube-scheduler accepts it.
        for key, plugins in written.plugins.sets().items():
            for at, entry in enumerate(plugins.enabled):
                if entry.weight < 0:
                    detail = "must be non-negative; to ignore its score, disable the plugin under score"
                    yield invalid((*path, "plugins", camel(key), "enabled", at, "weight"), entry.weight, detail)
        configured = [entry.name for entry in written.plugin_config]
        for at, name in enumerate(configured):
            if name in configured[:at]:
                yield duplicate((*path, "pluginConfig", at), name)
            if name in REMOVED_PLUGINS:
                yield _removed_field_problem((*path, "pluginConfig", at), name)
    yield from _queue_sort_problems(profiles, [block.plugin_config for block in blocks])


def _removed_field_problem(path: FieldPath, name: str) -> Problem:
    version = API_VERSION.rpartition("/")[2]
    detail = (
        f'was invalid in version "{version}" (KubeSchedulerConfiguration is version "{API_VERSION}"); {REPLACEMENT}'
    )
    return invalid(path, name, detail)


def _queue_sort_problems(
    profiles: Sequence[ProfileConfiguration], plugin_configs: Sequence[Sequence[PluginConfigEntry]]
) -> Iterator[Problem]:
    """Compare the `queueSort` keys alone, not `multiPoint`, and count only the first, as kube-scheduler does."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path: FieldPath = ("profiles", 0, "plugins", "queueSort", "Enabled")
        yield invalid(path, len(first.enabled), "only one queue sort plugin can be enabled")
    name = first.enabled[0].name if first.enabled else ""
    enabled = ", ".join(entry.name for entry in first.enabled) or "no plugin"
    for index, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            path = ("profiles", index, "plugins", "queueSort")
            shown = profile.plugins.queue_sort.model_dump(by_alias=True)
            yield invalid(path, shown, f"must be the same for all profiles; profiles[0] enables {enabled} there")
        for at, entry in enumerate(plugin_configs[index]):
            if entry.name == name and profile.args.get(name) != profiles[0].args.get(name):
                path = ("profiles", index, "pluginConfig", at, "args")
                yield invalid(path, entry.args, "queueSort must be the same for all profiles")
