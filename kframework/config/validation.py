"""kube-scheduler's rules for a configuration that is decoded and defaulted, each in its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kframework.config.configuration import Profile
from kframework.config.default_plugins import REMOVED_PLUGINS
from kframework.config.models import (
    API_VERSION,
    POINTS,
    Extender,
    LeaderElection,
    PluginConfigEntry,
    ProfileBlock,
    Settings,
    camel,
)
from kframework.objects.label_selectors import is_qualified_name
from kframework.objects.problem import FieldPath, Problem, duplicate, invalid, required

_JITTER_FACTOR = 1.2


def settings_problems(settings: Settings) -> Iterator[Problem]:
    """List what is wrong outside the profiles."""
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


def _leader_election_problems(election: LeaderElection) -> Iterator[Problem]:
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


def _extender_problems(extenders: Sequence[Extender]) -> Iterator[Problem]:
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


def profile_problems(profiles: Sequence[Profile], blocks: Sequence[ProfileBlock]) -> Iterator[Problem]:
    """List what is wrong with the profiles, each by itself and together; `blocks` are the same as written."""
    names = [profile.scheduler_name for profile in profiles]
    for index, (profile, written) in enumerate(zip(profiles, blocks, strict=True)):
        path: FieldPath = ("profiles", index)
        if not profile.scheduler_name:
            yield required((*path, "schedulerName"))
        if profile.scheduler_name in names[:index]:
            yield duplicate((*path, "schedulerName"), profile.scheduler_name)
        yield from _percentage_problems((*path, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score or 0)
        yield from _removed_plugin_problems(path, profile)
        yield from _weight_problems((*path, "plugins"), written)
        yield from _plugin_config_problems((*path, "pluginConfig"), [entry.name for entry in written.plugin_config])
    yield from _queue_sort_problems(profiles, [block.plugin_config for block in blocks])


def _weight_problems(path: FieldPath, block: ProfileBlock) -> Iterator[Problem]:
    """List weights that would turn a score round; kube-scheduler lets them pass."""
    for key, plugins in block.plugins.sets().items():
        for index, entry in enumerate(plugins.enabled):
            if entry.weight < 0:
                detail = "must be non-negative; to leave a score out, disable the plugin under score"
                yield invalid((*path, camel(key), "enabled", index, "weight"), entry.weight, detail)


def _removed_plugin_problems(path: FieldPath, profile: Profile) -> Iterator[Problem]:
    for point in POINTS:
        for index, entry in enumerate(profile.plugins.key(point).enabled):
            if entry.name in REMOVED_PLUGINS:
                yield _removed((*path, "plugins", camel(point), "enabled", index), entry.name)


def _plugin_config_problems(path: FieldPath, names: Sequence[str]) -> Iterator[Problem]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate((*path, index), name)
        if name in REMOVED_PLUGINS:
            yield _removed((*path, index), name)


def _removed(path: FieldPath, name: str) -> Problem:
    version = API_VERSION.rpartition("/")[2]
    detail = f'was invalid in version "{version}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(path, name, detail)


def _queue_sort_problems(
    profiles: Sequence[Profile], plugin_configs: Sequence[Sequence[PluginConfigEntry]]
) -> Iterator[Problem]:
    """Compare the `queueSort` keys alone, not `multiPoint`, and count only the first, as kube-scheduler does."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path: FieldPath = ("profiles", 0, "plugins", "queueSort", "Enabled")
        yield invalid(path, len(first.enabled), "only one queue sort plugin can be enabled")
    name = first.enabled[0].name if first.enabled else ""
    for index, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            path = ("profiles", index, "plugins", "queueSort")
            shown = profile.plugins.queue_sort.model_dump(by_alias=True)
            yield invalid(path, shown, "must be the same for all profiles")
        for at, entry in enumerate(plugin_configs[index]):
            if entry.name == name and profile.args.get(name) != profiles[0].args.get(name):
                path = ("profiles", index, "pluginConfig", at, "args")
                yield invalid(path, entry.args, "queueSort must be the same for all profiles")
