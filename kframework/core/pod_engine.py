"""The engine that schedules one pod at a time, as kube-scheduler does: messages in, decisions out, nothing awaited.

`step` applies what has arrived, does what is due, and gives one pod its turn. What must happen outside (bind, patch a
status, record an event, evict) goes through `Host`; how it ended comes back as a message.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.duration import Duration
from kframework.core.cycle.asking import Asking, awaited, unasked
from kframework.core.cycle.attempt import Attempt, Concluded, undo_leaks
from kframework.core.cycle.consequences import Failure, Reservation
from kframework.core.cycle.decision import Decision, HookTracer
from kframework.core.cycle.extending import Extending
from kframework.core.cycle.oracle import verify
from kframework.core.cycle.outcome import FitError, Outcome, ScheduleResult
from kframework.core.cycle.plan import Layers
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.score_log import log_scores
from kframework.core.cycle.search import Search
from kframework.core.effects import Host, PodEvent
from kframework.core.engine import Engine
from kframework.core.event_handlers import EventHandlers
from kframework.core.plugin_handle import MakeProfiles
from kframework.core.preemption.evaluator import Evaluator, Preempting
from kframework.core.queue.scheduling_queue import Backoff, SchedulingQueue
from kframework.core.runtime.points import run_unreserve
from kframework.core.runtime.profiles import Profiles
from kframework.core.runtime.timing import AttemptTrace, current_attempt
from kframework.core.sources import Sources, SourceTurn
from kframework.errors import PluginError
from kframework.framework.events import ActionType, EventResource, Occurrence
from kframework.objects import PodCondition
from kframework.state.cluster import ClusterState
from kframework.state.inbox import (
    Activated,
    BindingEnded,
    BindingStarted,
    Changed,
    Gone,
    LastVictim,
    Message,
    Nominated,
    PreemptionEnded,
    SourceChanged,
    SourceFailed,
    Synced,
    Touched,
)
from kframework.state.pods import NOBODY, PendingPod, PodInfo, QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.values.status import Code, Status
from kframework.verbosity import V3, V10

_log = logging.getLogger(__name__)

#: If no plugin has been timed for so long, those of the next attempt are, in seconds.
_TIMED_EVERY = 1.0


class PodEngine(Engine):
    """Schedules one pod after the other."""

    # Of the base; PodEngine assigns them again, and checkers would infer narrower types from that.
    effects: Host
    under_way: Awaitable[None] | None

    def __init__(
        self,
        cluster: ClusterState,
        clock: Clock,
        effects: Host,
        profiles: MakeProfiles,
        *,
        seed: int = 0,
        backoff: Backoff | None = None,
        max_unschedulable: float = 300.0,
        layer_memory: int = 256 << 20,
        preempt_other_schedulers_pods: bool = True,
        verifying: bool | None = None,
        extenders: Extending | None = None,
    ) -> None:
        super().__init__(cluster, clock, effects, seed)
        self.rotation: Rotation = Rotation()
        self.attempts: int = 0
        #: Traces the hooks of timed attempts, if somebody does.
        self.hook_tracer: HookTracer | None = None
        self._timed_at = -math.inf
        self.extenders: Extending | None = extenders or None
        self._verifying = bool(os.environ.get("KFRAMEWORK_VERIFY")) if verifying is None else verifying
        self._ties = self.seeds.generator("ties")
        #: Draws an attempt's sample value, in [0, 1).
        self.draw: Callable[[], float] = self.seeds.generator("sampling").random
        self.preempting: Preempting = Preempting()
        self._evaluator = Evaluator(
            cluster,
            self.preempting,
            self.seeds.generator("preemption offset"),
            lambda: self.current,
            spared=None if preempt_other_schedulers_pods else self._is_foreign,
            verifying=self._verifying,
        )
        self._deferred: list[Message] = []
        #: Whether somebody who only looks on asks the plugins right now.
        self._looked_on = False
        self._binding: dict[str, Reservation] = {}
        # From here on plugins reach through their handles what stands above.
        self.profiles: Profiles = profiles(self)
        self.queue: SchedulingQueue = SchedulingQueue(
            self.profiles, clock.now, backoff or Backoff(), max_unschedulable=max_unschedulable
        )
        self.sources: Sources = Sources(self.profiles)
        self.handlers: EventHandlers = EventHandlers(cluster, self.queue, self.profiles)
        cluster.follow_signed(kind for profile in self.profiles.values() for kind in profile.sign_reads)
        self._layers = {
            name: Layers(
                profile, cluster.nodes, layer_memory // len(self.profiles), profile.percentage_of_nodes_to_score
            )
            for name, profile in self.profiles.items()
        }

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        clock: Clock,
        effects: Host,
        extenders: Extending,
        profiles: MakeProfiles,
    ) -> Self:
        """Make the engine that a configuration asks for."""
        options, settings = configuration.options, configuration.settings
        return cls(
            ClusterState(),
            clock,
            effects,
            profiles,
            seed=options.seed,
            backoff=Backoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds),
            max_unschedulable=options.pod_max_in_unschedulable_pods_duration,
            layer_memory=options.layer_memory_bytes,
            extenders=extenders,
            preempt_other_schedulers_pods=options.preempt_other_schedulers_pods,
        )

    @property
    def pending(self) -> Mapping[str, PendingPod]:
        return self.handlers.pending

    @property
    def preemption(self) -> Evaluator:
        return self._evaluator

    def retrying(self) -> tuple[str, ...]:
        return tuple(pod.key for pod in self.pending.values() if not self.queue.dormant(pod.uid))

    def _is_foreign(self, pod: PodInfo) -> bool:
        """Return whether a pod is another scheduler's."""
        return (pod.spec.scheduler_name or "default-scheduler") not in self.profiles

    # -- running ---------------------------------------------------------------------------------------------------

    def ask(self, message: Message) -> None:
        if self.current is not None or self._looked_on:
            self._deferred.append(message)
        else:
            self.offer(message)

    def step(self) -> bool:
        self.catch_up()
        queued = self.queue.pop() if self.synced else None
        if queued is None:
            return False
        self._attempt(queued)
        return True

    def catch_up(self) -> None:
        for message in self.inbox.drain():
            self._apply(message)
        self._tick()

    @property
    def deadline(self) -> float | None:
        queue, waiting = self.queue, self.cluster.waiting
        deadlines = (queue.retry_deadline, queue.flush_deadline, waiting.deadline, self.sources.deadline)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def settled(self) -> bool:
        pending = self.queue.pending()
        queued = pending["active"] or pending["backoff"]
        busy = queued or len(self.queue.in_flight) or self._binding or len(self.preempting)
        return self.synced and not busy and not len(self.inbox)

    def _apply(self, message: Message) -> None:
        # The three of every pod come first and bind no fields: a pattern that does takes 0.4 us more.
        match message:
            case Changed():
                self.handlers.upserted(message.obj)
            case BindingStarted():
                self.queue.done(message.uid)
            case BindingEnded():
                self._binding_ended(message)
            case Gone(obj):
                self.handlers.deleted(obj)
            case Synced():
                self.synced = True
                self.handlers.synced()
            case LastVictim(uid, attempt, victim):
                self.preempting.last_victim(uid, attempt, victim)
            case PreemptionEnded():
                self._preemption_ended(message)
            case Activated(uids):
                for uid in uids:
                    self.queue.activate(uid)
            case Nominated(uid, node_name):
                pod = self.handlers.pending.get(uid)
                if pod is not None and uid not in self.cluster.assumed:
                    self.handlers.nominate(pod, node_name)
            case Touched(node_names):
                self._touch(node_names)
            case SourceChanged() | SourceFailed():
                turn = self.sources.apply(message)
                if turn is not None:
                    self.turned(turn)

    def _touch(self, node_names: tuple[str, ...]) -> None:
        nodes = self.cluster.nodes
        rows = [nodes.row(name) for name in node_names] if node_names else nodes.order.tolist()
        for row in rows:
            if row is not None:
                nodes.touch(row)

    def turned(self, turn: SourceTurn) -> None:
        """Forget what a plugin said before its outside data changed, and wake the pods that it rejected."""
        source, change = turn.source, turn.change
        if self.profiles[source.profile].remembers(source.plugin):
            if change is not None and source.settings.by == "node":
                self._touch((*change.values, *change.gone))
            else:
                self._layers[source.profile].clear()
                self._touch(())
        if source.fresh or source.settings.when_stale == "ignore":
            label = f"{source.plugin}/{source.name}"
            self.handlers.on_event(Occurrence(source.key, ActionType.UPDATE, None, change, label))

    def _tick(self) -> None:
        now = self.clock.now()
        if self.sources:
            for turn in self.sources.expired(now):
                self.turned(turn)
        deadline = self.cluster.waiting.deadline
        if deadline is not None and deadline <= now:
            for reserved in self.cluster.waiting.undecided():
                self._expire(reserved, now)
        self.queue.tick()

    @staticmethod
    def _expire(reserved: ReservedPod, now: float) -> None:
        plugin, deadline = min(reserved.pending.items(), key=lambda item: item[1])
        if deadline <= now:
            waited = Duration(round(deadline - reserved.since, 6))
            reserved.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    # -- one attempt -----------------------------------------------------------------------------------------------

    def _attempt(self, queued: QueuedPod) -> None:
        pod = queued.pod
        if pod.terminating:
            self._warn(queued, f"skip schedule deleting pod: {pod.key}")
            self.queue.done(pod.uid)
        elif pod.uid in self.cluster.pods:
            self.queue.done(pod.uid)
        elif self.extenders is not None:
            self.under_way = awaited(self._cycle(queued))
        else:
            # `_cycle`, without the generator that nobody would drive: 1 us of 70.
            try:
                self._follow(queued, *unasked(self.decide(self._begin_cycle(queued))))
            finally:
                self._end_of_cycle()

    def _cycle(self, queued: QueuedPod) -> Asking[None]:
        """Take a pod from pop to its Decision, and do what follows from it."""
        try:
            self._follow(queued, *(yield from self.decide(self._begin_cycle(queued))))
        finally:
            self._end_of_cycle()

    def _begin_cycle(self, queued: QueuedPod) -> Attempt:
        """Begin the next attempt; it is the current one until the end of the cycle."""
        self.attempts += 1
        if _log.isEnabledFor(V3):
            fields = {"pod": queued.pod.key, "attempt": self.attempts, "profile": queued.pod.scheduler_name}
            _log.log(V3, "Attempting to schedule pod", extra=fields)
        attempt = self.begin(queued)
        current_attempt.set(attempt.trace)
        return attempt

    def _end_of_cycle(self) -> None:
        self.current = self.under_way = None
        current_attempt.set(None)
        deferred, self._deferred = self._deferred, []
        for message in deferred:
            self._apply(message)

    def begin(self, queued: QueuedPod) -> Attempt:
        """Begin an attempt: draw its sample value, and choose whether its plugins are timed."""
        sample_value, now = self.draw(), self.clock.now()
        # Where little happens that is every attempt, as it costs nothing then; otherwise the share that was asked for.
        timed = sample_value < self.timed_share or (self.timed_share > 0.0 and now - self._timed_at >= _TIMED_EVERY)
        if timed:
            self._timed_at = now
        tracer = self.hook_tracer if timed else None
        hook_context = None if tracer is None else tracer.hook_context(self.attempts, sample_value)
        trace = AttemptTrace(queued.pod, self.attempts, sample_value, timed, hook_context)
        return Attempt(self.cluster, self.profiles[queued.pod.scheduler_name], queued, self.clock, now, trace)

    def decide(self, attempt: Attempt) -> Asking[Concluded]:
        """Find a node and conclude the attempt; what follows from it is not done."""
        try:
            search = self.search(attempt)
            attempt.trace.end_phase("sign")
            outcome = self.found(search, (yield from search.steps()))
        except PluginError as error:
            undo_leaks(self.cluster, attempt.profile)
            return attempt.broken_off(error)
        undo_leaks(self.cluster, attempt.profile)
        if isinstance(outcome, ScheduleResult):
            return attempt.place(search, outcome)
        if isinstance(outcome, FitError):
            return (yield from attempt.look_for_a_way_out(search, outcome))
        return attempt.failed(outcome)

    def search(self, attempt: Attempt) -> Search:
        """Open the search for a node; PluginError if the pod cannot be signed."""
        queued, profile = attempt.queued, attempt.profile
        plan = self._layers[profile.name].plan(profile.sign(queued.pod, self.cluster.epoch), queued.pod)
        attempt.profile = attempt.asked = plan.profile
        if attempt.trace.is_timed:
            attempt.asked = plan.profile.timed
            plan = plan.of(attempt.asked)
        self.current = Search(self.cluster, plan, queued.pod, self.rotation, self._ties, attempt.trace, self.extenders)
        return self.current

    def found(self, search: Search, outcome: Outcome) -> Outcome:
        """Return what a search found; where that is asked for, check it with the oracle, and log the scores."""
        if self._verifying:
            verify(search, outcome)
        if _log.isEnabledFor(V10):
            with self.aside():
                log_scores(search)
        return outcome

    def _follow(self, queued: QueuedPod, decision: Decision, consequence: Reservation | Failure) -> None:
        """Do what follows from an attempt: start the binding cycle, or put the pod back and send others away."""
        if isinstance(consequence, Reservation):
            self.effects.decided(decision)
            self.launch(consequence)
            return
        eviction = consequence.eviction
        if eviction is not None:
            for other in eviction.outranked:
                self.cluster.nominator.remove(other.uid)
            # Until the last victim is going, the preemptor is not tried again.
            self.preempting.begin(eviction.preemptor.uid, eviction.attempt)
            self.effects.evict(eviction)
        self.effects.decided(decision)
        self.failed(queued, consequence.status, consequence.nominated)

    def launch(self, reservation: Reservation) -> None:
        """Start the binding cycle of an assumed pod."""
        self._binding[reservation.pod.uid] = reservation
        self.effects.bind(reservation)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let somebody who only looks on ask the plugins: what they want done meanwhile is not done."""
        before = self.effects, self._deferred, self._looked_on
        self.effects, self._deferred, self._looked_on = Host(), [], True
        try:
            yield
        finally:
            self.effects, self._deferred, self._looked_on = before

    # -- failures --------------------------------------------------------------------------------------------------

    def failed(self, queued: QueuedPod, status: Status, nominated: str | None) -> None:
        """Put a pod back after a failed attempt, and say why (kube-scheduler's handleSchedulingFailure).

        The rejectors stand in `queued`; `nominated` None leaves the nomination as it is.
        """
        uid = queued.pod.uid
        current, nominator = self.handlers.pending.get(uid), self.cluster.nominator
        if current is None:
            self.queue.done(uid)
            nominator.remove(uid)
        else:
            if current is not queued.pod:
                queued.pod = current
            self.queue.put_back(queued)
            self.handlers.nominate(current, nominator.node_of(uid) if nominated is None else nominated)
        pod = queued.pod
        if status.code == Code.SKIP:
            return  # every Bind plugin skipped: nothing went wrong that could be told
        self._warn(queued, status.message)
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable" if status.rejected else "SchedulerError",
            message=status.message,
            observed_generation=pod.object.metadata.generation,
        )
        self.effects.patch_status(pod, condition, nominated)

    def _warn(self, queued: QueuedPod, note: str) -> None:
        pod = queued.pod
        self.effects.record(PodEvent(pod.scheduler_name, pod, "FailedScheduling", "Scheduling", note, warning=True))

    # -- the end of a preemption -----------------------------------------------------------------------------------

    def _preemption_ended(self, ended: PreemptionEnded) -> None:
        """Try the preemptor again if not all victims could be sent away, or if something would have woken it before.

        Otherwise it is woken by the end of a victim.
        """
        if not self.preempting.end(ended.uid, ended.attempt):
            return
        queued = self.queue.get(ended.uid)
        if ended.failed or (queued is not None and queued.gating_plugin):
            self.queue.activate(ended.uid)

    # -- the end of a binding --------------------------------------------------------------------------------------

    def _binding_ended(self, ended: BindingEnded) -> None:
        reservation = self._binding.get(ended.uid)
        if reservation is None or reservation.attempt != ended.attempt:
            return
        del self._binding[ended.uid]
        self.cluster.waiting.remove(ended.uid)
        if ended.status is None:
            self.queue.done(ended.uid)
            note = f"Successfully assigned {reservation.pod.key} to {reservation.node_name}"
            self.effects.record(PodEvent(reservation.profile.name, reservation.pod, "Scheduled", "Binding", note))
        else:
            self._binding_failed(reservation, ended.status, ended.rejector)

    def _binding_failed(self, reservation: Reservation, status: Status, rejector: str | None) -> None:
        """Undo a reservation and put the pod back, in kube-scheduler's order (04 4.4)."""
        pod, queued = reservation.pod, reservation.queued
        run_unreserve(reservation.profile, reservation.state, pod, reservation.node_name)
        was = self.cluster.forget(pod.uid) or pod
        freed = Occurrence(EventResource.ASSIGNED_POD, ActionType.DELETE, was, None)
        rejectors = frozenset((rejector,)) if rejector is not None else NOBODY
        queued.unschedulable_plugins, queued.pending_plugins = rejectors, NOBODY
        if pod.uid in self.cluster.pods:
            # It was bound all the same, by us or by somebody else: it frees nothing.
            self.failed(queued, status, "")
        elif status.rejected:
            self.failed(queued, status, "")
            self.handlers.on_event(freed, lambda other: other.uid != pod.uid)
        else:
            self.handlers.on_event(freed)
            self.failed(queued, status, "")
