"""The handle of a plugin: one per plugin and profile, for one engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from types import MappingProxyType
from typing import TypeVar, cast

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.engine import Engine
from kframework.core.host import Host, PodEvent
from kframework.core.runtime.points import filter_node
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import Profiles, compile_profiles
from kframework.core.runtime.registry import Registry
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import Api, Handle, Preemption
from kframework.framework.plugin import Plugin
from kframework.framework.source import Fetch, KeyedBy, Source, SourceSettings, WakesPod, WhenStale
from kframework.objects import ApiObject, Node, Pod
from kframework.state.inbox import ActivateRequested, AnswersInvalidated, Nominated
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore
from kframework.state.pod_groups import PodGroups
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from kframework.state.waiting import WaitingPod
from kframework.values.feature_gates import FeatureGates
from kframework.values.status import Status

T = TypeVar("T", bound=ApiObject)
V = TypeVar("V")
A = TypeVar("A")


#: Compiles profiles for an engine that has only its tables, clock and seeds so far; their plugins may use these.
ProfilesFactory = Callable[[Engine], Profiles]


#: Creates the handle of a plugin in a profile.
HandleFactory = Callable[[Engine, Host, str, str], "PluginHandle"]


def profiles_factory(
    configuration: Configuration, registry: Registry, host: Host, handle: HandleFactory | None = None
) -> ProfilesFactory:
    """Return a function that compiles a configuration's profiles for an engine; it raises ConfigError."""
    return lambda engine: _compile_for(engine, configuration, registry, host, {}, handle or PluginHandle)


def recompile_profiles(engine: Engine, configuration: Configuration, registry: Registry, host: Host) -> Profiles:
    """Compile a configuration's profiles beside those of a running engine, which keeps deciding by its own.

    Profiles and plugins that would be the same stay as they are. Raises ConfigError; then nothing is different.
    """
    return _compile_for(engine, configuration, registry, host, engine.profiles, PluginHandle)


def _compile_for(
    engine: Engine,
    configuration: Configuration,
    registry: Registry,
    host: Host,
    running: Mapping[str, Profile],
    new_handle: HandleFactory,
) -> Profiles:
    handles: list[PluginHandle] = []

    def create_handle(profile: str, plugin: str) -> PluginHandle:
        handles.append(new_handle(engine, host, profile, plugin))
        return handles[-1]

    try:
        profiles = compile_profiles(configuration, registry, create_handle, running)
    except BaseException:
        for handle in handles:
            handle.release()
        raise
    for handle in handles:
        handle.is_compiled = True
    return profiles


class PluginHandle(Handle):
    """The handle of one plugin in one profile."""

    def __init__(self, engine: Engine, host: Host, profile: str, plugin: str) -> None:
        self._engine = engine
        self._host = host
        self._profile = profile
        self._plugin = plugin
        self._sources: dict[str, Source[object]] = {}
        #: What ends each subscription to changes of objects.
        self._subscriptions: list[Callable[[], None]] = []
        #: Whether the profile is compiled, so that later sources would not be fetched.
        self.is_compiled: bool = False
        self._random = engine.seeds.generator(f"plugin {profile}/{plugin}")

    @property
    def profile_name(self) -> str:
        return self._profile

    @property
    def feature_gates(self) -> FeatureGates:
        return self._engine.cluster.feature_gates

    @property
    def nodes(self) -> NodeTable:
        return self._engine.cluster.nodes

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        return MappingProxyType(self._engine.cluster.pods)

    @property
    def pending(self) -> Mapping[str, PendingPod]:
        return MappingProxyType(self._engine.pending)

    @property
    def pod_groups(self) -> PodGroups:
        return self._engine.cluster.groups

    def objects(self, kind: type[T]) -> ObjectStore[T]:
        if kind in (Pod, Node):
            raise TypeError(f"{kind.__name__}s are not in a store: read handle.{kind.__name__.lower()}s")
        return self._engine.cluster.objects(kind)

    def on_change(self, kind: type[T], callback: Callable[[T | None, T | None], None]) -> None:
        store = self.objects(kind)
        store.on_change(callback)
        self._subscriptions.append(partial(store.stop_calling, callback))

    def release(self) -> None:
        """End the plugin's subscriptions; it is not asked any more."""
        for end in self._subscriptions:
            end()
        self._subscriptions.clear()

    def on_pod_change(self, callback: Callable[[PodInfo | None, PodInfo | None], None]) -> None:
        cluster = self._engine.cluster
        cluster.on_pod_change(callback)
        self._subscriptions.append(partial(cluster.stop_calling, callback))

    def on_pending_change(self, callback: Callable[[PendingPod | None, PendingPod | None], None]) -> None:
        cluster = self._engine.cluster
        cluster.on_pending_change(callback)
        self._subscriptions.append(partial(cluster.stop_calling, callback))

    def statement(self) -> Statement:
        return self._engine.cluster.statement()

    def fits(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        profile, search = self._engine.profiles[self._profile], self._engine.current_search
        filters = search.filters if search is not None and search.pod is pod else profile.filters
        return filter_node(filters, state, pod, node)

    @property
    def preemption(self) -> Preemption:
        return self._engine.preemption

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        reserved = self._engine.cluster.waiting.get(uid)
        return reserved if reserved is not None and reserved.verdict is None else None

    def waiting_pods(self) -> Iterator[WaitingPod]:
        return self._engine.cluster.waiting.awaiting_permit()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self._engine.request(ActivateRequested(tuple(pod.uid for pod in pods)))

    def nominated_pods(self, pod: PodInfo, node_name: str) -> Sequence[PodInfo]:
        return self._engine.cluster.nominator.nominated_pods_for_node(pod, node_name)

    @property
    def nominations(self) -> Mapping[str, str]:
        return MappingProxyType(self._engine.cluster.nominator.nodes)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        self._engine.request(Nominated(pod.uid, node_name))

    def invalidate(self, *node_names: str) -> None:
        self._engine.request(AnswersInvalidated(node_names))

    def source(
        self,
        name: str,
        kind: type[V],
        fetch: Fetch[V],
        *,
        keyed_by: KeyedBy = "key",
        every: float = 15.0,
        jitter: float = 0.1,
        timeout: float | None = None,
        retry: float = 1.0,
        stale_after: float = 60.0,
        when_stale: WhenStale = "reject",
        wakes_pod: WakesPod[V] | None = None,
    ) -> Source[V]:
        settings = SourceSettings(keyed_by, every, jitter, timeout, retry, stale_after, when_stale)
        try:
            settings.validate()
        except ValueError as error:
            raise ValueError(f"source {name!r}: {error}") from None
        if self.is_compiled:
            raise ValueError(f"source {name!r}: declare it in __init__, as later ones are not fetched")
        if not name or "/" in name:
            raise ValueError(f"source {name!r}: the name must not be empty, or contain a slash")
        if name in self._sources:
            raise ValueError(f"source {name!r}: the name is in use")
        source = Source(f"{self._profile}/{self._plugin}/{name}", kind, fetch, settings, wakes_pod)
        self._sources[name] = cast("Source[object]", source)
        return source

    @property
    def sources(self) -> Mapping[str, Source[object]]:
        return self._sources

    def event(self, pod: PodInfo, *, reason: str, action: str, note: str, warning: bool = False) -> None:
        self._engine.host.record(PodEvent(self._profile, pod, reason, action, note, warning))

    def spawn(self, coroutine: Coroutine[object, object, None]) -> None:
        self._host.spawn(coroutine, f"plugin {self._plugin!r}")

    def has_received(self, obj: ApiObject) -> bool:
        return self._engine.inbox.holds(obj)

    async def shield(self, work: Awaitable[A]) -> A:
        return await self._host.shield(work)

    @property
    def clock(self) -> Clock:
        return self._engine.clock

    @property
    def random(self) -> Random:
        return self._random

    @property
    def api(self) -> Api:
        return self._host.api


def release_plugins(plugins: Iterable[Plugin]) -> None:
    """End the subscriptions of plugins that are not asked any more."""
    for plugin in plugins:
        if isinstance(plugin.handle, PluginHandle):
            plugin.handle.release()
