"""Check that every pod that a plugin holds back is woken by the event that makes it schedulable.

    def test_no_wake_up_is_lost():
        assert check_wake_ups(FewestPods, args={"maxPodsPerNode": 3}).needless_share < 0.5

A real engine schedules random pods on a random cluster. After each of many events every pod that sleeps on is evaluated
again, as a what-if: if it is schedulable now, and was not before, a hint or a registration is missing.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

import msgspec

from kframework.core.cycle.oracle import Oracle
from kframework.core.engine import Engine
from kframework.core.plugin_handle import ProfilesFactory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import Profiles
from kframework.framework.events import ObservedEvent
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.kinds import reference
from kframework.scheduler.read_only import ReadOnlyInbox
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Deleted, Synced, Upserted
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing.contract.probe import ContractViolation
from kframework.testing.random_events import RandomEvents, RandomHost
from kframework.testing.single_plugin import PROFILE, SourceValues, StoppedClock, build_profiles, emulated_gates
from kframework.values.feature_gates import MINORS, FeatureGates

#: The number of events of a cluster, and the most attempts after one.
_EVENTS, _ATTEMPTS = 100, 50


class LostWakeUp(ContractViolation):
    """Raised when a pod sleeps through the event that makes it schedulable; names both, and the plugins involved."""


class WakeUps(msgspec.Struct):
    """The results of the events.

    `queue` and `skip` count the answers of the hints, as `Plugin NodeAdd`; a registration without a hint counts as
    Queue. `woken` pods were woken by an event of the cluster, `unschedulable` of them still did not fit anywhere.
    """

    queue: Counter[str] = msgspec.field(default_factory=Counter)
    skip: Counter[str] = msgspec.field(default_factory=Counter)
    woken: int = 0
    unschedulable: int = 0

    @property
    def needless_share(self) -> float:
        """The share of the woken pods that were still unschedulable."""
        return self.unschedulable / self.woken if self.woken else 0.0


def check_wake_ups(
    plugin: type[Plugin],
    *,
    args: Mapping[str, object] | None = None,
    other_plugins: Sequence[str] = (),
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[ApiObject] = (),
    sources: SourceValues | None = None,
    minors: Sequence[str] = MINORS,
    feature_gates: Mapping[str, bool] | None = None,
    examples: int = 20,
    seed: int = 0,
) -> WakeUps:
    """Apply many events to `examples` random clusters; raise LostWakeUp if a pod should have been woken and was not.

    `args` are spelled as in YAML; `other_plugins` names other plugins of the profile. `nodes`, `pods` and `objects` (of
    all other kinds) are mixed into the events: give some that matter to the plugin. `sources` is what the plugin's
    sources hold, by their names; it does not change. The emulated `minors` of Kubernetes take turns, with these
    `feature_gates`. The result shows whether the hints answered both Queue and Skip. Pods that Reserve or Permit
    rejects are not checked: only an attempt can show whether they fit. The same seed makes the same events. Raises
    ConfigError for a plugin that cannot be loaded.
    """
    nodes, pods, objects, wake_ups = list(nodes), list(pods), list(objects), WakeUps()
    for example in range(examples):
        events = RandomEvents(Random(f"{seed}/{example}"), nodes=nodes, pods=pods, objects=objects)
        profiles = functools.partial(
            build_profiles, plugin, args or {}, other_plugins=other_plugins, sources=sources or {}
        )
        gates = emulated_gates(minors, feature_gates, seed, example)
        source = f"example {example} of seed {seed}, {gates.minor}"
        _WakeUpCheck(plugin, events, wake_ups, source, profiles, gates).run()
    return wake_ups


class _ObservedProfiles(Profiles):
    """Profiles that record the hints' answers for each pod, until `notes` is cleared."""

    def __init__(self, profiles: Mapping[str, Profile], wake_ups: WakeUps) -> None:
        super().__init__(profiles)
        self._wake_ups = wake_ups
        self.notes: dict[str, dict[str, list[str]]] = {}

    def is_worth_requeuing(self, event: ObservedEvent, pod: PendingPod, plugin: str) -> bool:
        woken = super().is_worth_requeuing(event, pod, plugin)
        if any(registration.matches(event) for registration in self[pod.scheduler_name].events.get(plugin, ())):
            (self._wake_ups.queue if woken else self._wake_ups.skip)[f"{plugin} {event.label}"] += 1
            if not woken:
                self.notes.setdefault(pod.uid, {}).setdefault(plugin, []).append(event.label)
        return woken

    def format_answers(self, queued: QueuedPod) -> str:
        skipped = self.notes.get(queued.pod.uid, {})
        return "; ".join(
            f"the hint of {plugin} answered Skip to {' and '.join(skipped[plugin])}"
            if plugin in skipped
            else f"{plugin} registered no such event"
            for plugin in sorted(queued.rejectors)
        )


class _WakeUpCheck(RandomHost):
    """One random cluster and the host of its engine; its clock does not move, so only events wake pods."""

    def __init__(
        self,
        plugin: type[Plugin],
        events: RandomEvents,
        wake_ups: WakeUps,
        source: str,
        profiles: ProfilesFactory,
        gates: FeatureGates,
    ) -> None:
        self.plugin = plugin
        super().__init__(events)
        self.wake_ups = wake_ups
        self.source = source

        def observe_profiles(engine: Engine) -> Profiles:
            self.profiles: _ObservedProfiles = _ObservedProfiles(profiles(engine), self.wake_ups)
            return self.profiles

        self.engine = PodEngine(ClusterState(gates), StoppedClock(), self, observe_profiles, verifying=False)
        self.engine.inbox = ReadOnlyInbox()
        #: The pods that wait and that are known to be unschedulable.
        self.stuck: set[str] = set()

    def run(self) -> None:
        for message in self.events.initial_messages():
            self.engine.offer(message)
        self.engine.offer(Synced())
        self._run_attempts()
        for _ in range(_EVENTS):
            message = self.events.next_message()
            change = "was added or changed" if isinstance(message, Upserted) else "was deleted"
            self._apply(f"{reference(message.obj)} {change}", [message])
            self._run_attempts()

    def _run_attempts(self) -> None:
        """Run attempts until the queue is empty; record the pods that are unschedulable."""
        for _ in range(_ATTEMPTS):
            attempted = self.engine.step()
            self.engine.complete_step()
            self.stuck.update(
                queued.pod.uid
                for queued in self._waiting_pods()
                if queued.pod.uid not in self.stuck and self._possible_progress(queued) is None
            )
            if not attempted and not self.pending_messages:
                break
            messages, self.pending_messages = self.pending_messages, []
            self._apply("an attempt" if attempted else "the end of a binding", messages)

    def _apply(self, title: str, messages: Iterable[Upserted | Deleted]) -> None:
        self.profiles.notes.clear()
        for message in messages:
            if isinstance(message, Upserted):
                self.engine.handlers.upsert(message.obj)
            else:
                self.engine.handlers.delete(message.obj)
        waiting = {queued.pod.uid for queued in self._waiting_pods()}
        for queued in list(self.engine.queue):
            if queued.pod.uid in self.stuck:
                self._check_pod(title, queued, woken=queued.pod.uid not in waiting)
        self.stuck &= waiting

    def _check_pod(self, title: str, queued: QueuedPod, *, woken: bool) -> None:
        progress = self._possible_progress(queued)
        if woken:
            self.wake_ups.woken += 1
            self.wake_ups.unschedulable += progress is None
        elif progress is not None:
            held = "held" if queued.gating_plugin else "rejected"
            raise LostWakeUp(
                self.plugin,
                call=f"after {title}: pod {queued.pod.key}, {held} by {', '.join(sorted(queued.rejectors))}",
                result=f"still waits though it could {progress}: {self.profiles.format_answers(queued)}",
                remedy="register the event in events_to_register, with a hint that answers QUEUE for it",
                when=self.source,
            )

    def _waiting_pods(self) -> Iterator[QueuedPod]:
        queue = self.engine.queue
        return (queued for queued in queue if queue.waits_for_event(queued.pod.uid))

    def _possible_progress(self, queued: QueuedPod) -> str | None:
        """Return what a pod could do if it were tried now; None if nothing."""
        if self.profiles.run_pre_enqueue(queued.pod) is not None:
            return None
        if queued.gating_plugin:
            return "pass PreEnqueue"
        oracle = Oracle(self.engine.cluster, self.profiles[PROFILE], queued.pod)
        if oracle.pre_filter_result.status is not None:
            return None
        row = next((row for row in oracle.rows(0) if oracle.rejection(row) is None), None)
        return f"go to node {oracle.nodes[row].name}" if row is not None else None
