"""Pods outside the active queue: in flight, or waiting for an event, indexed by the plugin that rejected them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping

from kframework.core.queue.pod_updates import seen_by
from kframework.framework.events import ObservedEvent
from kframework.state.pods import QueuedPod

#: A profile and one of its plugins, both by name.
PluginKey = tuple[str, str]


class HeldPods:
    """Pods in the order of their arrival, indexed by the plugins that hold them back.

    So an event costs only the pods that a plugin with a registration for it holds back, however many others wait.
    """

    def __init__(self) -> None:
        #: The pods with the number of their arrival and the plugins, by uid.
        self.pods: dict[str, tuple[int, QueuedPod, tuple[PluginKey, ...]]] = {}
        self._by_plugin: dict[PluginKey, dict[str, None]] = {}
        self._arrivals = 0

    def put(self, queued: QueuedPod, plugins: Iterable[str]) -> None:
        """Add a pod that these plugins of its profile hold back; it must not be in the pool."""
        self._arrivals += 1
        uid, profile = queued.pod.uid, queued.pod.scheduler_name
        keys = tuple((profile, plugin) for plugin in plugins)
        self.pods[uid] = (self._arrivals, queued, keys)
        for key in keys:
            self._by_plugin.setdefault(key, {})[uid] = None

    def pop(self, uid: str) -> QueuedPod | None:
        entry = self.pods.pop(uid, None)
        if entry is None:
            return None
        _, queued, keys = entry
        for key in keys:
            held = self._by_plugin[key]
            del held[uid]
            if not held:
                del self._by_plugin[key]
        return queued

    def get(self, uid: str) -> QueuedPod | None:
        entry = self.pods.get(uid)
        return entry[1] if entry is not None else None

    def held_by_any(self, plugins: Mapping[PluginKey, Collection[str] | None]) -> list[QueuedPod]:
        """List the pods that these plugins hold back, oldest first; the values are the affected uids, None for all."""
        if not self.pods:
            return []  # called for every event, and mostly no pod waits
        uids = set[str]()
        for key, held in self._by_plugin.items():
            affected = plugins.get(key, ())
            uids.update(held if affected is None else held.keys() & affected)
        entries = sorted((self.pods[uid][:2] for uid in uids), key=lambda entry: entry[0])
        return [queued for _, queued in entries]

    @property
    def counts(self) -> dict[PluginKey, int]:
        return {key: len(held) for key, held in self._by_plugin.items()}

    def held_by(self, plugin: PluginKey) -> Iterator[QueuedPod]:
        """List the pods that a plugin holds back, in the order of their arrival; the pool must not change meanwhile."""
        return (self.pods[uid][1] for uid in self._by_plugin.get(plugin, ()))

    def __contains__(self, uid: str) -> bool:
        return uid in self.pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _, queued, _ in self.pods.values())

    def __len__(self) -> int:
        return len(self.pods)


class InFlightPods:
    """Popped pods in pop order, and the events since the oldest of these pops.

    An event is kept only while a pod popped before it is in flight, so memory is bounded by what happens during one
    scheduling or Permit wait.
    """

    def __init__(self) -> None:
        #: The time of each pop, by uid.
        self.popped: dict[str, int] = {}
        self._events: deque[tuple[int, ObservedEvent]] = deque()
        self._time = 0
        #: The number of kept events, by label.
        self.event_counts: Counter[str] = Counter()

    def pop(self, uid: str) -> bool:
        """Add a pod; return False if it was in flight already."""
        if uid in self.popped:
            return False
        self._time += 1
        self.popped[uid] = self._time
        return True

    def add(self, event: ObservedEvent) -> None:
        if self.popped:
            self._time += 1
            self._events.append((self._time, event))
            self.event_counts[event.label] += 1

    def events_since_pop(self, uid: str) -> Iterator[ObservedEvent]:
        popped = self.popped[uid]
        return (seen_by(uid, event) for time, event in self._events if time > popped)

    def done(self, uid: str) -> bool:
        """Remove a pod and the events that no other pod needs; return whether it was in flight."""
        if self.popped.pop(uid, None) is None:
            return False
        # To find the oldest of many pods takes time, as those before it are skipped that have gone.
        oldest = next(iter(self.popped.values()), None) if self._events else None
        while self._events and (oldest is None or self._events[0][0] < oldest):
            _, event = self._events.popleft()
            self.event_counts[event.label] -= 1
        return True

    @property
    def events(self) -> int:
        return len(self._events)

    def __contains__(self, uid: str) -> bool:
        return uid in self.popped

    def __len__(self) -> int:
        return len(self.popped)
