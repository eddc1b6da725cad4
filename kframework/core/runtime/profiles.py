"""The profiles of a configuration with their plugins, and what the queue and the scheduler need from them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import lt
from typing import Any, get_args

import msgspec

from kframework.config.args import decode_args
from kframework.config.configuration import Configuration, ProfileConfiguration, plugin_references
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.document import YamlLocation
from kframework.config.expand import ExtensionPoints, expand_all
from kframework.config.models import GROUP_POINTS, POINTS, camel
from kframework.core.queue.pool import PluginKey
from kframework.core.runtime.points import run_pre_enqueue
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.registry import GROUP, Registry, stale_install_remedy
from kframework.errors import FAULTS, ConfigError, PluginError, format_error, nearest_name, safe_repr
from kframework.framework.events import (
    DEFAULT_EVENTS,
    ActionType,
    ClusterEvent,
    EventResource,
    Hint,
    ObservedEvent,
    QueueingHint,
    event_resource,
)
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, PluginArgs, Verb, Watch
from kframework.framework.source import Source
from kframework.objects import ApiObject, Node, Pod, kind_of
from kframework.objects.problem import Problem
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import Status
from kframework.verbosity import V5

_log = logging.getLogger(__name__)

#: The name of extenders among the plugins that reject a pod.
EXTENDER = "Extender"

_VERBS = get_args(Verb)


class ProfileChanges(msgspec.Struct, frozen=True):
    """How profiles differ from those before, by scheduler name.

    Attributes:
        added: Those that were not there before.
        removed: Those that are not there any more.
        changed: Those that decide differently.
        holding: Those of `changed` that may hold pods back for other reasons than before.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    holding: tuple[str, ...]


class Profiles(dict[str, Profile]):
    """The profiles by scheduler name, in the order of the configuration.

    `warnings` are lines for the user about oddities in the configured plugins.
    """

    def __init__(self, profiles: Mapping[str, Profile], warnings: tuple[str, ...] = ()) -> None:
        super().__init__(profiles)
        self._first_profile: Profile = next(iter(self.values()))
        #: The registrations of an event with their hints (None for none), by the event's resource and action: computed
        #: when such an event first happens.
        self._registered: dict[tuple[str, ActionType], _Registrations] = {}
        self.warnings: tuple[str, ...] = warnings

    def changes_to(self, others: Profiles) -> ProfileChanges:
        """Return how other profiles, compiled beside these, differ from them."""
        changed = [name for name, profile in others.items() if name in self and self[name] is not profile]
        return ProfileChanges(
            added=tuple(name for name in others if name not in self),
            removed=tuple(name for name in self if name not in others),
            changed=tuple(changed),
            holding=tuple(name for name in changed if not others[name].rejects_as(self[name])),
        )

    def become(self, others: Profiles) -> ProfileChanges:
        """Be these other profiles from now on, and return what is different."""
        changes = self.changes_to(others)
        self.clear()
        self.update(others)
        self._first_profile, self.warnings = others._first_profile, others.warnings
        self._registered.clear()
        return changes

    def sort_key(self, queued: QueuedPod) -> Hashable:
        """Return the pod's key in the active queue; a pod for which `queue_sort` fails comes after all others."""
        try:
            key: Any = self._first_profile.queue_sort(queued)
            lt(key, key)  # TypeError for None, and for all else that has no order
        except FAULTS as error:
            self.on_incomparable_keys(error)
            return (1, queued.timestamp)
        return (0, key)

    @property
    def sort_by_objects(self) -> bool:
        """Whether the keys of pods may depend on objects that arrive after them."""
        plugin = self._first_profile.plugins[self._first_profile.points["queue_sort"][0]]
        return bool(plugin.watches)

    def on_incomparable_keys(self, error: BaseException) -> None:
        """Report that `queue_sort` failed or returned keys that cannot be compared with each other."""
        self._first_profile.fault_status(self._first_profile.points["queue_sort"][0], "queue_sort", error)

    def run_pre_enqueue(self, pod: PendingPod) -> Status | None:
        """Run the PreEnqueue plugins of the pod's profile."""
        return run_pre_enqueue(self[pod.scheduler_name], pod)

    def registered_for(self, event: ObservedEvent) -> Mapping[PluginKey, Collection[str] | None]:
        """Return the plugins of all profiles that registered the event, and the pods, by uid, that it may help."""
        registered = self._registrations(event.resource, event.action)
        if not registered.for_some_pods:
            return registered.for_any_pod
        some = {plugin: self._affected_pods(plugin, each, event) for plugin, each in registered.for_some_pods.items()}
        return {**registered.for_any_pod, **some}

    def _affected_pods(
        self, plugin: PluginKey, registrations: Iterable[ClusterEvent], event: ObservedEvent
    ) -> Collection[str] | None:
        affected = set[str]()
        for each in registrations:
            assert each.affects is not None
            try:
                uids = each.affects(event.old, event.new)
            except FAULTS as error:
                self[plugin[0]].fault_status(plugin[1], "affects", error)
                return None
            if uids is None:
                return None
            affected.update(uids)
        return affected

    def _registrations(self, resource: str, action: ActionType) -> _Registrations:
        kind = (resource, action)
        registrations = self._registered.get(kind)
        if registrations is None:
            event = ObservedEvent(resource, action)
            registrations = self._registered[kind] = _Registrations(
                {
                    (profile.name, plugin): matching
                    for profile in self.values()
                    for plugin, events in profile.events.items()
                    if (matching := tuple(each for each in events if each.matches(event)))
                }
            )
        return registrations

    def follows_waiting_pods(self, action: ActionType) -> bool:
        """Return whether a plugin registered this change of waiting pods by their own name, `UNSCHEDULED_POD`."""
        return self._registrations(EventResource.UNSCHEDULED_POD, action).for_waiting_pods

    def is_worth_requeuing(self, event: ObservedEvent, pod: PendingPod, plugin: str) -> bool:
        """Run the hints that this plugin of the pod's profile registered for the event; one Queue is enough.

        A missing or failing hint counts as Queue: a useless attempt is better than a pod that sleeps.
        """
        profile = self[pod.scheduler_name]
        registered = self._registrations(event.resource, event.action).by_plugin.get((profile.name, plugin), ())
        is_worthwhile = False
        for each in registered:
            if each.hint is None or _run_hint(profile, plugin, each.hint, event, pod):
                is_worthwhile = True
                break
        if _log.isEnabledFor(V5):
            answer = "Queue" if is_worthwhile else "QueueSkip"
            fields = {"pod": pod.key, "event": event.label, "plugin": plugin, "hint": answer}
            _log.log(V5, "Called the queueing hint of a plugin that rejected the pod", extra=fields)
        return is_worthwhile

    def sources(self) -> Iterator[Source[object]]:
        """Yield the sources that plugins of all profiles have declared."""
        for profile in self.values():
            yield from chain.from_iterable(profile.sources.values())

    def plugins(self) -> Iterator[tuple[Profile, Plugin]]:
        """List every plugin instance with its profile."""
        for profile in self.values():
            for plugin in profile.plugins.values():
                yield profile, plugin

    def watches(self) -> Iterator[tuple[Plugin, Watch]]:
        """List what the plugins watch, without the kinds whose feature gate is off."""
        for _, plugin in self.plugins():
            for watch in plugin.watches:
                if not watch.gate or plugin.handle.feature_gates.is_enabled(watch.gate):
                    yield plugin, watch


class _Registrations:
    """The registrations that match one kind of event."""

    def __init__(self, by_plugin: Mapping[PluginKey, tuple[ClusterEvent, ...]]) -> None:
        self.by_plugin = by_plugin
        #: The plugins with a registration that may help any pod, and the registrations of the others.
        self.for_any_pod: Mapping[PluginKey, None] = {
            plugin: None for plugin, events in by_plugin.items() if not all(each.affects for each in events)
        }
        self.for_some_pods: Mapping[PluginKey, tuple[ClusterEvent, ...]] = {
            plugin: events for plugin, events in by_plugin.items() if plugin not in self.for_any_pod
        }
        #: Whether one of them names pods that wait, rather than pods of any kind.
        self.for_waiting_pods: bool = any(
            each.resource == EventResource.UNSCHEDULED_POD for events in by_plugin.values() for each in events
        )


def _run_hint(profile: Profile, plugin: str, hint: Hint, event: ObservedEvent, pod: PendingPod) -> bool:
    try:
        answer = hint(pod, event.old, event.new)
    except FAULTS as error:
        profile.fault_status(plugin, "queueing hint", error)
        return True
    if not isinstance(answer, QueueingHint):
        profile.fault_status(plugin, "queueing hint", f"answered {safe_repr(answer)}, which is not a QueueingHint")
        return True
    return answer is QueueingHint.QUEUE


_NONE_RUNNING: Mapping[str, Profile] = {}


def compile_profiles(
    configuration: Configuration,
    registry: Registry,
    handle: Callable[[str, str], Handle],
    running: Mapping[str, Profile] = _NONE_RUNNING,
) -> Profiles:
    """Import the configured plugins, create one instance per profile, and compile the profiles.

    `handle(profile, plugin)` returns each instance's handle. Of the `running` profiles, those that would decide alike
    stay, and so do plugins of the same class with equal args, in a profile of the same name. Raises ConfigError with
    its location: for an unknown name, two distributions that claim one, or a plugin that cannot be imported, created or
    used.
    """
    expansions = _expand(configuration, registry)
    # The Args of the enabled plugins, and of kube-scheduler's plugins that have args in the configuration.
    enabled = (name for profile in configuration.profiles for name in profile.plugins.enabled_names())
    with_args = (name for profile in configuration.profiles for name in profile.args if name in IN_TREE_PLUGINS)
    models = {name: registry.load(name).Args for name in {*enabled, *with_args} if name in registry}
    decoded = decode_args(configuration, models)
    profiles = {
        profile.scheduler_name: _compile_profile(
            configuration, profile, args, points, registry, handle, running.get(profile.scheduler_name)
        )
        for profile, args, points in zip(configuration.profiles, decoded, expansions, strict=True)
    }
    return Profiles(profiles, tuple(find_warnings(configuration, expansions, registry)))


def load_plugins(configuration: Configuration, registry: Registry) -> None:
    """Import the configured plugins so that the kinds they declare are known; raises ConfigError."""
    _expand(configuration, registry)


def _expand(configuration: Configuration, registry: Registry) -> Sequence[ExtensionPoints]:
    """Return which plugins each profile has at which points; they are imported to see which points they extend."""
    return expand_all(configuration, functools.partial(_extension_points, configuration, registry), list(registry))


def _extension_points(configuration: Configuration, registry: Registry, name: str) -> frozenset[str]:
    """Return the points that a plugin extends; raises KeyError for a name that is not registered."""
    if name not in registry:
        if remedy := stale_install_remedy(GROUP, name):
            raise _locate_error(configuration.profiles, PluginError(remedy, plugin=name))
        raise KeyError(name)
    try:
        return registry.points(name)
    except PluginError as error:
        raise _locate_error(configuration.profiles, error) from error


def _compile_profile(
    configuration: Configuration,
    profile: ProfileConfiguration,
    args: Mapping[str, PluginArgs],
    points: ExtensionPoints,
    registry: Registry,
    handle: Callable[[str, str], Handle],
    running: Profile | None,
) -> Profile:
    enabled = dict.fromkeys(chain(*points.order.values()))
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = configuration.settings.percentage_of_nodes_to_score
    try:
        instances = {
            name: _instance(name, args[name], registry, functools.partial(handle, profile.scheduler_name), running)
            for name in enabled
            if name in registry
        }
        plugins = {name: plugin for name, (plugin, _) in instances.items()}
        compiled = Profile(
            profile.scheduler_name,
            plugins,
            {point: [name for name in names if name in plugins] for point, names in points.order.items()},
            points.weights,
            percentage_of_nodes_to_score=percentage,
            distributions={plugin: registry.distribution(plugin) for plugin in plugins},
            # An extender registers no events, so any event may requeue a pod that it rejected.
            other_events={EXTENDER: DEFAULT_EVENTS} if configuration.settings.extenders else {},
            sources={name: sources for name, (_, sources) in instances.items() if sources},
            placement_weights=points.placement_weights,
            gates=configuration.options.gates,
            args={name: args[name] for name in plugins},
        )
    except PluginError as error:
        raise _locate_error([profile], error) from error
    return running if running is not None and compiled.equals(running) else compiled


def _instance(
    name: str, args: PluginArgs, registry: Registry, handle: Callable[[str], Handle], running: Profile | None
) -> tuple[Plugin, tuple[Source[object], ...]]:
    """Return the running instance of a plugin if that can stay, or create one; with the sources that it declared."""
    plugin = None if running is None else running.running_plugin(registry.load(name), args)
    if running is not None and plugin is not None:
        return plugin, tuple(running.sources.get(name, ()))
    created_for = handle(name)
    return _create_plugin(name, args, registry, created_for), tuple(created_for.sources.values())


def _create_plugin(name: str, args: PluginArgs, registry: Registry, handle: Handle) -> Plugin:
    try:
        return registry.load(name)(args, handle)
    except FAULTS as error:
        reason = f"cannot be created: {format_error(error)}"
        raise PluginError(reason, plugin=name, distribution=registry.distribution(name)) from error


def _locate_error(profiles: Sequence[ProfileConfiguration], error: PluginError) -> ConfigError:
    """Return the error with the location in the file that names the plugin."""
    keys = (*POINTS, *GROUP_POINTS, "multi_point")
    locations = (plugin_references(profile, key, "enabled", error.plugin) for profile in profiles for key in keys)
    location = next(chain(*locations), profiles[0].location)
    return location.error(Problem((), str(error)))


# -- the kinds that plugins watch ----------------------------------------------------------------------------------


def watched_kinds(profiles: Profiles) -> list[type[ApiObject]]:
    """Return the kinds to watch; ConfigError for an invalid watch, or for events of a kind that is not watched."""
    kinds: dict[type[ApiObject], None] = {Node: None, Pod: None}
    for plugin, watch in profiles.watches():
        _check_watch(plugin, watch)
        kinds[watch.kind] = None
    # A registration that matches no event would never requeue its pods.
    sources = (source.key for source in profiles.sources())
    resources = {*EventResource, *(event_resource(kind_of(kind)) for kind in kinds), *sources}
    for profile in profiles.values():
        for name, registrations in profile.events.items():
            for resource in (registration.resource for registration in registrations):
                if resource not in resources:
                    message = f"plugin {name!r} registers events on {resource!r}, a kind that no plugin watches"
                    raise ConfigError(message, nearest=nearest_name(resource, resources))
    return list(kinds)


def _check_watch(plugin: Plugin, watch: Watch) -> None:
    name = getattr(watch.kind, "__qualname__", repr(watch.kind))
    try:
        kind_of(watch.kind)
    except KeyError:
        remedy = "use a struct of kframework.objects, or declare one with @kind"
        raise ConfigError(f"plugin {plugin.name!r} watches {name}, which is not a kind: {remedy}") from None
    for verb in watch.verbs:
        if verb not in _VERBS:
            known = f"supported besides list and watch: {', '.join(_VERBS)}"
            message = f"plugin {plugin.name!r} watches {name} with the verb {verb!r}; {known}"
            raise ConfigError(message, nearest=nearest_name(verb, _VERBS))


#: The points that prepare for a point's hooks.
_PREPARED = {"filter": "pre_filter", "score": "pre_score"}


def find_warnings(
    configuration: Configuration, expansions: Collection[ExtensionPoints], registry: Registry
) -> Iterator[str]:
    """Yield oddities in the plugins of each profile."""
    enabled = dict.fromkeys(name for points in expansions for name in chain(*points.order.values()))
    missing = [name for name in enabled if name not in registry]
    if missing:
        yield f"not implemented, so they do not run: {', '.join(missing)}"
    known = {*registry, *IN_TREE_PLUGINS}
    for profile, points in zip(configuration.profiles, expansions, strict=True):
        yield from _unprepared_warnings(profile, points, registry)
        running = set(chain(*points.order.values()))
        for entry in profile.plugins.multi_point.enabled:
            for location in plugin_references(profile, "multi_point", "enabled", entry.name):
                if entry.name in registry and entry.name not in running:
                    extended = ", ".join(map(camel, sorted(registry.points(entry.name))))
                    yield _format_warning(location, f"plugin {entry.name!r} runs nowhere: it is disabled at {extended}")
        for key, plugins in profile.plugins.sets().items():
            for name in dict.fromkeys(entry.name for entry in plugins.disabled if entry.name not in ("*", *known)):
                for location in plugin_references(profile, key, "disabled", name):
                    yield _format_warning(
                        location, f"there is no plugin {name!r} to disable", nearest_name(name, known)
                    )


def _unprepared_warnings(profile: ProfileConfiguration, points: ExtensionPoints, registry: Registry) -> Iterator[str]:
    """Yield a warning for plugins that run at a point without the point that prepares for it."""
    for point, before in _PREPARED.items():
        for name in points[point]:
            if name in registry and name not in points[before] and before in registry.points(name):
                remedy = f"which prepares for it; enable it at {camel(before)} too, or under multiPoint"
                message = f"plugin {name!r} runs at {camel(point)} without its {camel(before)}, {remedy}"
                location = next(
                    plugin_references(profile, point, "enabled", name), profile.location / "plugins" / camel(before)
                )
                yield _format_warning(location, message)


def _format_warning(location: YamlLocation, message: str, hint: str | None = None) -> str:
    return str(location.error(Problem((), message, hint)))
