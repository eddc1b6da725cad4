"""Check that every pod that a plugin holds back is woken by the event that makes it schedulable.

    def test_no_wake_up_is_lost():
        assert check_wake_ups(FewestPods, args={"maxPodsPerNode": 3}).needless < 0.5

A real engine schedules random pods on a random cluster. After each of many events every pod that sleeps on is tried
again, as a what-if: if it could go now, and could not before, a hint or a registration is missing.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

import msgspec

from kframework.clock import VIRTUAL_EPOCH, Clock
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
from kframework.testing.alone import PROFILE, SourceValues, profiles_of
from kframework.testing.contract.questions import ContractViolation
from kframework.testing.random_events import RandomEvents, RandomOutside

#: The number of events of a cluster, and the most attempts after one.
_EVENTS, _ATTEMPTS = 100, 50


class LostWakeUp(ContractViolation):
    """Raised when a pod sleeps through the event that makes it schedulable; names both, and the plugins called."""


class WakeUps(msgspec.Struct):
    """The results of the events.

    `queue` and `skip` count the answers of the hints, as `Plugin NodeAdd`; a registration without a hint counts as
    Queue. `woken` pods were woken by an event of the cluster, `in_vain` of them without being schedulable.
    """

    queue: Counter[str] = msgspec.field(default_factory=Counter)
    skip: Counter[str] = msgspec.field(default_factory=Counter)
    woken: int = 0
    in_vain: int = 0

    @property
    def needless(self) -> float:
        """The share of the woken pods that could not go all the same."""
        return self.in_vain / self.woken if self.woken else 0.0


def check_wake_ups(
    plugin: type[Plugin],
    *,
    args: Mapping[str, object] | None = None,
    beside: Sequence[str] = (),
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[ApiObject] = (),
    sources: SourceValues | None = None,
    examples: int = 20,
    seed: int = 0,
) -> WakeUps:
    """Apply many events to `examples` random clusters; raise LostWakeUp if a pod should have been woken and was not.

    `args` are spelled as in YAML; `beside` names other plugins of the profile. `nodes`, `pods` and `objects` (of all
    other kinds) are mixed into the events: give some that matter to the plugin. `sources` is what the plugin's sources
    hold, by their names; it does not change. The result shows whether the hints answered both Queue and Skip. Pods that
    Reserve or Permit sends back are not judged: only an attempt can show whether they could go. The same seed asks the
    same questions. Raises ConfigError for a plugin that cannot be loaded.
    """
    nodes, pods, objects, wake_ups = list(nodes), list(pods), list(objects), WakeUps()
    for example in range(examples):
        events = RandomEvents(Random(f"{seed}/{example}"), nodes=nodes, pods=pods, objects=objects)
        profiles = functools.partial(profiles_of, plugin, args or {}, beside=beside, sources=sources or {})
        _Course(plugin, events, wake_ups, f"example {example} of seed {seed}", profiles).run()
    return wake_ups


class _Overheard(Profiles):
    """Profiles that note what was asked of the hints about each pod since the notes were last cleared."""

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

    def said(self, queued: QueuedPod) -> str:
        """Return what the plugins that hold a pod back answered to the events."""
        skipped = self.notes.get(queued.pod.uid, {})
        return "; ".join(
            f"the hint of {plugin} said Skip to {' and '.join(skipped[plugin])}"
            if plugin in skipped
            else f"{plugin} registered no such event"
            for plugin in sorted(queued.rejectors)
        )


class _Course(RandomOutside, Clock):
    """The course of one cluster: what happens, and what its engine makes of it; it is the engine's outside too."""

    def __init__(
        self, plugin: type[Plugin], events: RandomEvents, wake_ups: WakeUps, source: str, profiles: ProfilesFactory
    ) -> None:
        self.plugin = plugin
        super().__init__(events)
        self.wake_ups = wake_ups
        self.source = source

        def overheard(engine: Engine) -> Profiles:
            self.profiles: _Overheard = _Overheard(profiles(engine), self.wake_ups)
            return self.profiles

        self.engine = PodEngine(ClusterState(), self, self, overheard, verifying=False)
        self.engine.inbox = ReadOnlyInbox()
        #: The pods that sleep and that nothing but an event can help.
        self.stuck: set[str] = set()

    def run(self) -> None:
        """Apply one event after the other, and check after each which pods sleep on."""
        for message in self.events.opening():
            self.engine.offer(message)
        self.engine.offer(Synced())
        self._settle()
        for _ in range(_EVENTS):
            message = self.events.draw()
            change = "is new or has changed" if isinstance(message, Upserted) else "is gone"
            self._happen(f"{reference(message.obj)} {change}", [message])
            self._settle()

    def _settle(self) -> None:
        """Run attempts until there is none left to try; record the pods that cannot go."""
        for _ in range(_ATTEMPTS):
            tried = self.engine.step()
            self.stuck.update(
                queued.pod.uid
                for queued in self._asleep()
                if queued.pod.uid not in self.stuck and self._way(queued) is None
            )
            if not tried and not self.told:
                break
            told, self.told = self.told, []
            self._happen("an attempt" if tried else "the end of a binding", told)

    def _happen(self, title: str, messages: Iterable[Upserted | Deleted]) -> None:
        """Apply the events, and check every pod that was stuck."""
        self.profiles.notes.clear()
        for message in messages:
            if isinstance(message, Upserted):
                self.engine.handlers.upsert(message.obj)
            else:
                self.engine.handlers.delete(message.obj)
        asleep = {queued.pod.uid for queued in self._asleep()}
        for queued in list(self.engine.queue):
            if queued.pod.uid in self.stuck:
                self._judge(title, queued, woken=queued.pod.uid not in asleep)
        self.stuck &= asleep

    def _judge(self, title: str, queued: QueuedPod, *, woken: bool) -> None:
        way = self._way(queued)
        if woken:
            self.wake_ups.woken += 1
            self.wake_ups.in_vain += way is None
        elif way is not None:
            held = "held" if queued.gating_plugin else "rejected"
            raise LostWakeUp(
                self.plugin,
                asked=f"after {title}: pod {queued.pod.key}, {held} by {', '.join(sorted(queued.rejectors))}",
                answered=f"sleeps on though it could {way}: {self.profiles.said(queued)}",
                remedy="register in events_to_register what can cure a rejection, and let its hint answer QUEUE then",
                when=self.source,
            )

    def _asleep(self) -> Iterator[QueuedPod]:
        queue = self.engine.queue
        return (queued for queued in queue if queue.waits_for_event(queued.pod.uid))

    def _way(self, queued: QueuedPod) -> str | None:
        """Return where a pod could go if it were tried now; None: nowhere."""
        if self.profiles.run_pre_enqueue(queued.pod) is not None:
            return None
        if queued.gating_plugin:
            return "pass PreEnqueue"
        oracle = Oracle(self.engine.cluster, self.profiles[PROFILE], queued.pod)
        if oracle.pre_filter_result.status is not None:
            return None
        row = next((row for row in oracle.rows(0) if oracle.rejection(row) is None), None)
        return f"go to node {oracle.nodes[row].name}" if row is not None else None

    def now(self) -> float:
        """Time is stopped: no flush wakes a pod, and no backoff delays one."""
        return VIRTUAL_EPOCH
