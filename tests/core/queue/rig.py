"""A scheduling queue whose profiles are plain tables and whose clock the test turns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache

from kframework.core.queue.backoff import Backoff
from kframework.core.queue.pod_updates import pod_update_events
from kframework.core.queue.pool import PluginKey
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.framework.events import ActionType, ClusterEvent, EventResource, ObservedEvent
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing import make_pod
from kframework.values.feature_gates import LATEST_MINOR, FeatureGates
from kframework.values.status import Code, Status

__all__ = [
    "ANYTHING",
    "LABELLED",
    "NODE_ADD",
    "NODE_TAINT",
    "POD_GONE",
    "REGISTERED",
    "START",
    "TOLERATES",
    "Rig",
    "pending",
    "queued",
    "update_of",
]

#: When the clocks of the tests start: a whole second, to which fractions are added exactly.
START = 1_000_000.0

NODE_ADD = ObservedEvent("Node", ActionType.ADD)
NODE_TAINT = ObservedEvent("Node", ActionType.UPDATE_NODE_TAINT)
POD_GONE = ObservedEvent("AssignedPod", ActionType.DELETE)
ANYTHING = ObservedEvent("*", ActionType.ALL)
LABELLED = ObservedEvent("TargetPod", ActionType.UPDATE_POD_LABEL)
TOLERATES = ObservedEvent("TargetPod", ActionType.UPDATE_POD_TOLERATION)

#: The events that the plugins of the tests registered.
REGISTERED: Mapping[str, tuple[ClusterEvent, ...]] = {
    "Fit": (ClusterEvent(EventResource.NODE, ActionType.ADD), ClusterEvent(EventResource.POD, ActionType.DELETE)),
    "Taints": (
        ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT),
        ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
    ),
    "Labels": (ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL),),
    "Everything": (ClusterEvent(EventResource.ANY, ActionType.ALL),),
    "Deaf": (),
}

_interned = TemplateInterner()


def registered(event: ObservedEvent, plugin: str) -> bool:
    """Return whether a plugin registered an event."""
    return any(registration.matches(event) for registration in REGISTERED.get(plugin, ()))


@cache
def pending(name: str = "pod", *, priority: int = 0, label: str = "", tolerations: int = 0) -> PendingPod:
    """Make a pending pod."""
    labels = {"app": label} if label else {}
    return PendingPod(make_pod(name, priority=priority, labels=labels, tolerations=["spot"] * tolerations), _interned)


def queued(name: str = "pod", *, rejections: int = 0, errors: int = 0, timestamp: float = START) -> QueuedPod:
    """Make a queued pod with a past."""
    made = QueuedPod(pending(name), timestamp)
    made.unschedulable_count, made.consecutive_errors = rejections, errors
    return made


def by_priority(queued: QueuedPod) -> Hashable:
    """Sort as PrioritySort does."""
    return -queued.pod.priority, queued.timestamp


class Rig:
    """A queue, its clock and its rules; pods go by their names.

    `gates` says which plugin holds which pod back, `sort` makes the sort keys, `unsorted` has what was reported of
    keys that do not compare.
    """

    def __init__(
        self,
        *,
        sort: Callable[[QueuedPod], Hashable] = by_priority,
        start: float = START,
        backoff: Backoff | None = None,
        max_unschedulable: float = 300.0,
        minor: str = LATEST_MINOR,
    ) -> None:
        self.now = start
        self.sort = sort
        self.gates: dict[str, str] = {}
        self.unsorted: list[Exception] = []
        self.popped: dict[str, QueuedPod] = {}
        self.queue = SchedulingQueue(
            self,
            lambda: self.now,
            backoff or Backoff(),
            max_unschedulable=max_unschedulable,
            gates=FeatureGates(minor),
        )

    def sort_key(self, queued: QueuedPod) -> Hashable:
        return self.sort(queued)

    def on_incomparable_keys(self, error: Exception) -> None:
        self.unsorted.append(error)

    def run_pre_enqueue(self, pod: PendingPod) -> Status | None:
        plugin = self.gates.get(pod.name)
        return Status(Code.UNSCHEDULABLE, ("held back",), plugin) if plugin else None

    def registered_for(self, event: ObservedEvent) -> dict[PluginKey, None]:
        return {("default-scheduler", plugin): None for plugin in REGISTERED if registered(event, plugin)}

    def is_worth_requeuing(self, event: ObservedEvent, pod: PendingPod, plugin: str) -> bool:
        """Answer as hints do that tell the update of this pod from that of another."""
        about_another = isinstance(event.new, PendingPod) and event.new.uid != pod.uid
        return registered(event, plugin) and not about_another

    def add(self, *names: str, priority: int = 0) -> None:
        for name in names:
            self.queue.add(pending(name, priority=priority))

    def pop(self) -> str | None:
        """Pop a pod and return its name."""
        queued = self.queue.pop()
        if queued is None:
            return None
        self.popped[queued.pod.name] = queued
        return queued.pod.name

    def put_back(self, name: str, *rejectors: str, pending: tuple[str, ...] = ()) -> None:
        """Put a popped pod back: rejected by plugins, or failed with an error."""
        queued = self.popped.pop(name)
        queued.unschedulable_plugins = frozenset((*rejectors, *pending))
        queued.pending_plugins = frozenset(pending)
        self.queue.put_back(queued)

    def update(self, new: PendingPod) -> None:
        """Let a pod change as the event handlers do: to one in flight its events are told."""
        if new.name in self.popped and new.uid in self.queue.in_flight:
            for event in pod_update_events(self.popped[new.name].pod, new):
                self.queue.in_flight.add(event)
        else:
            queued = self.queue.get(new.uid)
            self.queue.update(new, () if queued is None else list(pod_update_events(queued.pod, new)))

    def sleep(self, seconds: float) -> None:
        """Let time go by, and the queue do what becomes due exactly when it says that it will."""
        end = self.now + seconds
        while (deadline := self.deadline) is not None and deadline <= end:
            assert deadline > self.now
            self.now = deadline
            self.queue.tick()
        self.now = end

    @property
    def deadline(self) -> float | None:
        """When something is due next."""
        deadlines = (self.queue.retry_deadline, self.queue.flush_deadline)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def places(self) -> dict[str, str]:
        """Tell where each pod is; fail if one is in two places."""
        names = iter([queued.pod.name for queued in self.queue])
        places = [(next(names), place) for place, count in self.queue.count_by_queue().items() for _ in range(count)]
        places += [(name, "in flight") for name, queued in self.popped.items() if self.in_flight(queued)]
        assert next(names, None) is None
        assert len(dict(places)) == len(places), places
        return dict(places)

    def in_flight(self, queued: QueuedPod) -> bool:
        return queued.pod.uid in self.queue.in_flight

    def place(self, name: str = "pod") -> str:
        return self.places().get(name, "nowhere")

    def drain(self) -> list[str]:
        """Pop all that can be popped."""
        names = []
        while (name := self.pop()) is not None:
            names.append(name)
        return names


def update_of(name: str, event: ObservedEvent) -> PendingPod:
    """Return the pod after a change that amounts to the event."""
    return pending(name, label="new") if event is LABELLED else pending(name, tolerations=1)
