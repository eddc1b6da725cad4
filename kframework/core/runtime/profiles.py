"""The profiles of a configuration with their plugins, and what the queue and the scheduler need from them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import lt
from typing import Any, get_args

from kframework.config.args import decode_args
from kframework.config.configuration import Configuration, plugin_references
from kframework.config.configuration import Profile as ProfileConfiguration
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.document import Place
from kframework.config.expand import ExtensionPoints, expand_all
from kframework.config.models import POINTS, camel
from kframework.core.queue.pool import PluginKey
from kframework.core.runtime.points import run_pre_enqueue
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.registry import GROUP, Registry, stale_install
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


class Profiles(dict[str, Profile]):
    """The profiles by scheduler name, in the order of the configuration.

    `notices` are lines for the user about oddities in the configured plugins.
    """

    def __init__(self, profiles: Mapping[str, Profile], notices: tuple[str, ...] = ()) -> None:
        super().__init__(profiles)
        self._first = next(iter(self.values()))
        #: The registrations of an event with their hints (None for none), by the event's resource and action: computed
        #: when such an event first happens.
        self._registered: dict[tuple[str, ActionType], _Registered] = {}
        self.notices = notices

    def sort_key(self, queued: QueuedPod) -> Hashable:
        """Return the pod's key in the active queue; a pod for which `queue_sort` fails comes after all others."""
        try:
            key: Any = self._first.queue_sort(queued)
            lt(key, key)  # TypeError for None, and for all else that has no order
        except FAULTS as error:
            self.on_incomparable_keys(error)
            return (1, queued.timestamp)
        return (0, key)

    def on_incomparable_keys(self, error: BaseException) -> None:
        """Report that `queue_sort` failed, or answered keys that do not compare with each other."""
        self._first.faulty(self._first.points["queue_sort"][0], "queue_sort", error)

    def gate(self, pod: PendingPod) -> Status | None:
        """Run the PreEnqueue plugins of the pod's profile."""
        return run_pre_enqueue(self[pod.scheduler_name], pod)

    def interested(self, event: ObservedEvent) -> Mapping[PluginKey, Collection[str] | None]:
        """Return the plugins of all profiles that registered the event, and the pods, by uid, that it may help."""
        registered = self._registrations(event)
        if not registered.some_name_pods:
            return registered.anyone
        return {holder: self._concerned(holder, each, event) for holder, each in registered.by_holder.items()}

    def _concerned(
        self, holder: PluginKey, registrations: Iterable[ClusterEvent], event: ObservedEvent
    ) -> Collection[str] | None:
        """Return the uids of the pods that the registrations name; None for any, also if one of them fails."""
        named = set[str]()
        for each in registrations:
            try:
                uids = None if each.affects is None else each.affects(event.old, event.new)
            except FAULTS as error:
                self[holder[0]].faulty(holder[1], "concerns", error)
                return None
            if uids is None:
                return None
            named.update(uids)
        return named

    def _registrations(self, event: ObservedEvent) -> _Registered:
        kind = (event.resource, event.action)
        found = self._registered.get(kind)
        if found is None:
            found = self._registered[kind] = _Registered(
                {
                    (profile.name, plugin): matching
                    for profile in self.values()
                    for plugin, registrations in profile.events.items()
                    if (matching := tuple(each for each in registrations if each.matches(event)))
                }
            )
        return found

    def wakes(self, event: ObservedEvent, pod: PendingPod, plugin: str) -> bool:
        """Run the hints that this plugin of the pod's profile registered for the event; one Queue is enough.

        A missing or failing hint counts as Queue: a useless attempt is better than a pod that sleeps.
        """
        profile = self[pod.scheduler_name]
        registered = self._registrations(event).by_holder.get((profile.name, plugin), ())
        wakes = any(each.hint is None or _says_queue(profile, plugin, each.hint, event, pod) for each in registered)
        if _log.isEnabledFor(V5):
            answer = "Queue" if wakes else "QueueSkip"
            fields = {"pod": pod.key, "event": event.label, "plugin": plugin, "hint": answer}
            _log.log(V5, "Asked a plugin that holds the pod back about an event", extra=fields)
        return wakes

    def sources(self) -> Iterator[Source[object]]:
        """Yield the sources that plugins of all profiles have declared."""
        for profile in self.values():
            yield from chain.from_iterable(profile.sources.values())

    def plugins(self) -> Iterator[tuple[Profile, Plugin]]:
        """List every plugin instance with its profile."""
        for profile in self.values():
            for plugin in profile.plugins.values():
                yield profile, plugin


class _Registered:
    """The registrations that match one kind of event."""

    def __init__(self, by_holder: Mapping[PluginKey, tuple[ClusterEvent, ...]]) -> None:
        self.by_holder = by_holder
        self.anyone: Mapping[PluginKey, None] = dict.fromkeys(by_holder)
        self.some_name_pods: bool = any(each.affects for events in by_holder.values() for each in events)


def _says_queue(profile: Profile, plugin: str, hint: Hint, event: ObservedEvent, pod: PendingPod) -> bool:
    try:
        answer = hint(pod, event.old, event.new)
    except FAULTS as error:
        profile.faulty(plugin, "queueing hint", error)
        return True
    if not isinstance(answer, QueueingHint):
        profile.faulty(plugin, "queueing hint", f"answered {safe_repr(answer)}, which is no QueueingHint")
        return True
    return answer is QueueingHint.QUEUE


def compile_profiles(
    configuration: Configuration, registry: Registry, handle: Callable[[str, str], Handle]
) -> Profiles:
    """Import the configured plugins, create one instance per profile, and compile the profiles.

    `handle(profile, plugin)` returns each instance's handle. Raises ConfigError with its place: for an unknown name,
    two distributions that claim one, or a plugin that cannot be imported, created or used.
    """
    expansions = _expansions(configuration, registry)
    # The Args of the enabled plugins, and of kube-scheduler's plugins that have args in the configuration.
    enabled = (name for profile in configuration.profiles for name in profile.plugins.enabled_names())
    written = (name for profile in configuration.profiles for name in profile.args if name in IN_TREE_PLUGINS)
    models = {name: registry.load(name).Args for name in {*enabled, *written} if name in registry}
    decoded = decode_args(configuration, models)
    profiles = {
        profile.scheduler_name: _compile(configuration, profile, args, points, registry, handle)
        for profile, args, points in zip(configuration.profiles, decoded, expansions, strict=True)
    }
    return Profiles(profiles, tuple(notices(configuration, expansions, registry)))


def load_plugins(configuration: Configuration, registry: Registry) -> None:
    """Import the configured plugins so that the kinds they declare are known; raises ConfigError."""
    _expansions(configuration, registry)


def _expansions(configuration: Configuration, registry: Registry) -> Sequence[ExtensionPoints]:
    """Return which plugins each profile has at which points; they are imported to see which points they extend."""
    return expand_all(configuration, functools.partial(_points, configuration, registry), list(registry))


def _points(configuration: Configuration, registry: Registry, name: str) -> frozenset[str]:
    """Return the points that a plugin extends; raises KeyError for a name that is not registered."""
    if name not in registry:
        if remedy := stale_install(GROUP, name):
            raise _placed(configuration.profiles, PluginError(remedy, plugin=name))
        raise KeyError(name)
    try:
        return registry.points(name)
    except PluginError as error:
        raise _placed(configuration.profiles, error) from error


def _compile(
    configuration: Configuration,
    profile: ProfileConfiguration,
    args: Mapping[str, PluginArgs],
    points: ExtensionPoints,
    registry: Registry,
    handle: Callable[[str, str], Handle],
) -> Profile:
    enabled = dict.fromkeys(chain(*points.order.values()))
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = configuration.settings.percentage_of_nodes_to_score
    try:
        handles = {name: handle(profile.scheduler_name, name) for name in enabled if name in registry}
        plugins = {name: _instance(name, args[name], registry, mine) for name, mine in handles.items()}
        return Profile(
            profile.scheduler_name,
            plugins,
            {point: [name for name in names if name in plugins] for point, names in points.order.items()},
            points.weights,
            percentage_of_nodes_to_score=percentage,
            distributions={plugin: registry.distribution(plugin) for plugin in plugins},
            # An extender registers no events, so any event may wake a pod that it rejected.
            other_events={EXTENDER: DEFAULT_EVENTS} if configuration.settings.extenders else {},
            sources={name: tuple(mine.sources.values()) for name, mine in handles.items() if mine.sources},
        )
    except PluginError as error:
        raise _placed([profile], error) from error


def _instance(name: str, args: PluginArgs, registry: Registry, handle: Handle) -> Plugin:
    try:
        return registry.load(name)(args, handle)
    except FAULTS as error:
        reason = f"cannot be made: {format_error(error)}"
        raise PluginError(reason, plugin=name, distribution=registry.distribution(name)) from error


def _placed(profiles: Sequence[ProfileConfiguration], error: PluginError) -> ConfigError:
    """Return the error with the place in the file that names the plugin."""
    keys = (*POINTS, "multi_point")
    places = (plugin_references(profile, key, "enabled", error.plugin) for profile in profiles for key in keys)
    place = next(chain(*places), profiles[0].place)
    return place.error(Problem((), str(error)))


# -- what plugins need to see of the cluster -----------------------------------------------------------------------


def watched_kinds(profiles: Profiles) -> list[type[ApiObject]]:
    """Return the kinds to watch: pods, nodes, and those of the plugins.

    Raises ConfigError for a watch with an invalid kind or verb, and for registered events of a kind that is not
    watched.
    """
    found: dict[type[ApiObject], None] = {Node: None, Pod: None}
    for _, plugin in profiles.plugins():
        for watch in plugin.watches:
            _check_watch(plugin, watch)
            found[watch.kind] = None
    # A registration that matches no event would leave its pods asleep.
    sources = (source.key for source in profiles.sources())
    resources = {*EventResource, *(event_resource(kind_of(kind)) for kind in found), *sources}
    for profile in profiles.values():
        for name, registrations in profile.events.items():
            for wanted in (registration.resource for registration in registrations):
                if wanted not in resources:
                    message = f"plugin {name!r} registers events on {wanted!r}, a kind that no plugin watches"
                    raise ConfigError(message, nearest=nearest_name(wanted, resources))
    return list(found)


def _check_watch(plugin: Plugin, watch: Watch) -> None:
    name = getattr(watch.kind, "__qualname__", repr(watch.kind))
    try:
        kind_of(watch.kind)
    except KeyError:
        remedy = "give it a struct of kframework.objects, or declare one with @kind"
        raise ConfigError(f"plugin {plugin.name!r} watches {name}, which is no kind: {remedy}") from None
    for verb in watch.verbs:
        if verb not in _VERBS:
            known = f"there are {', '.join(_VERBS)} beside get, list and watch"
            message = f"plugin {plugin.name!r} watches {name} with the verb {verb!r}; {known}"
            raise ConfigError(message, nearest=nearest_name(verb, _VERBS))


#: The points that prepare for a point's hooks.
_PREPARED = {"filter": "pre_filter", "score": "pre_score"}


def notices(configuration: Configuration, expansions: Collection[ExtensionPoints], registry: Registry) -> Iterator[str]:
    """Yield oddities in the plugins of each profile."""
    enabled = dict.fromkeys(name for points in expansions for name in chain(*points.order.values()))
    idle = [name for name in enabled if name not in registry]
    if idle:
        yield f"not built yet, so they do not run: {', '.join(idle)}"
    known = {*registry, *IN_TREE_PLUGINS}
    for profile, points in zip(configuration.profiles, expansions, strict=True):
        yield from _unprepared(profile, points, registry)
        running = set(chain(*points.order.values()))
        for entry in profile.plugins.multi_point.enabled:
            for place in plugin_references(profile, "multi_point", "enabled", entry.name):
                if entry.name in registry and entry.name not in running:
                    extended = ", ".join(map(camel, sorted(registry.points(entry.name))))
                    yield _said(place, f"plugin {entry.name!r} runs nowhere: it is disabled at {extended}")
        for key, plugins in profile.plugins.sets().items():
            for name in dict.fromkeys(entry.name for entry in plugins.disabled if entry.name not in ("*", *known)):
                for place in plugin_references(profile, key, "disabled", name):
                    yield _said(place, f"there is no plugin {name!r} to disable", nearest_name(name, known))


def _unprepared(profile: ProfileConfiguration, points: ExtensionPoints, registry: Registry) -> Iterator[str]:
    """Yield a notice for plugins that run at a point without the point that prepares for it."""
    for point, before in _PREPARED.items():
        for name in points[point]:
            if name in registry and name not in points[before] and before in registry.points(name):
                remedy = f"which prepares for it; enable it at {camel(before)} too, or under multiPoint"
                message = f"plugin {name!r} runs at {camel(point)} without its {camel(before)}, {remedy}"
                place = next(
                    plugin_references(profile, point, "enabled", name), profile.place / "plugins" / camel(before)
                )
                yield _said(place, message)


def _said(place: Place, message: str, hint: str | None = None) -> str:
    return str(place.error(Problem((), message, hint)))
