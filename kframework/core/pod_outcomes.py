"""Follow-up of the pod engine's attempts: binding, events, evictions and requeueing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random

from kframework.clock import Clock
from kframework.config.configuration import Options
from kframework.config.duration import Duration
from kframework.core.attempt_follower import AttemptFollower
from kframework.core.cycle.attempt import AttemptResult
from kframework.core.cycle.results import Reservation
from kframework.core.cycle.rotation import Rotation, SearchStart
from kframework.core.cycle.run import Run, RunBinding
from kframework.core.cycle.search import Search
from kframework.core.engine import Engine
from kframework.core.event_handlers import EventHandlers
from kframework.core.group_binder import GroupBinder
from kframework.core.group_conditions import GroupConditions
from kframework.core.host import Host, PodEvent
from kframework.core.preemption.evaluator import Evaluator, OngoingPreemptions
from kframework.core.queue.group_queue import GroupQueue
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.core.runtime.points import run_unreserve
from kframework.core.runtime.profile import Profile
from kframework.framework.events import ActionType, EventResource, ObservedEvent
from kframework.objects import PodCondition
from kframework.state.cluster import ClusterState
from kframework.state.inbox import BindingEnded, Message, PreemptionEnded
from kframework.state.pods import NO_PLUGINS, PendingPod, PodInfo, QueuedPod, bound_note
from kframework.values.status import Code, Status

#: The plugins whose gated pods have a condition: from the API server, and of the attempt that preempts.
_EXPLAINED_ELSEWHERE = ("SchedulingGates", "DefaultPreemption")


class PodOutcomes(Engine):
    """The half of the pod engine that an attempt hands over to."""

    host: Host
    current_search: Search | None
    queue: SchedulingQueue
    handlers: EventHandlers
    preempting: OngoingPreemptions
    rotation: Rotation
    #: Draws one of the best nodes.
    ties: Random
    _evaluator: Evaluator
    #: Whether evictions count in PodDisruptionBudgets at once.
    _counts_evictions: bool
    configuration_number: int

    def __init__(self, cluster: ClusterState, clock: Clock, host: Host, seed: int) -> None:
        super().__init__(cluster, clock, host, seed)
        #: Decides attempts again by shadow profiles; None without any.
        self.follower: AttemptFollower | None = None
        #: The requests of plugins that wait for the end of the cycle.
        self._deferred: list[Message] = []
        #: Whether plugins are being called without side effects (`isolated`).
        self._isolated = False
        self._binding: dict[str, Reservation] = {}
        self.group_conditions: GroupConditions = GroupConditions(cluster, clock, lambda: self.host)
        self.group_binder: GroupBinder = GroupBinder(
            cluster, clock, self.group_conditions, lambda: self.host, self._give_up_nomination
        )
        self._running = 0  # runs whose pods are being bound
        #: The profiles of failed bindings, by pod and node: the API server may execute one later.
        self._failed_bindings: dict[str, dict[str, Profile]] = {}

    @property
    def pending(self) -> Mapping[str, PendingPod]:
        return self.cluster.pending

    @property
    def preemption(self) -> Evaluator:
        return self._evaluator

    def retried_pods(self) -> tuple[str, ...]:
        return tuple(pod.key for pod in self.pending.values() if not self.queue.waits_for_event(pod.uid))

    @property
    def is_idle(self) -> bool:
        pending = self.queue.count_by_queue()
        queued = pending["active"] or pending["backoff"] or len(self.queue.in_flight)
        unasked = isinstance(self.queue, GroupQueue) and self.queue.unasked
        begun = unasked or self._binding or self._running or len(self.preempting) or self.group_binder.unfinished
        return self.synced and not (queued or begun or len(self.inbox))

    @property
    def oldest_configuration(self) -> int:
        """The lowest number of a configuration that still decides, or reserved a pod that is being bound."""
        return min((each.trace.configuration for each in self._binding.values()), default=self.configuration_number)

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Call plugins and search without side effects: messages and effects they request are dropped, draws undone."""
        before = self.host, self._deferred, self._isolated, self.current_search
        start = SearchStart(self.rotation, self.ties)
        self.host, self._deferred, self._isolated = Host(), [], True
        try:
            yield
        finally:
            self.host, self._deferred, self._isolated, self.current_search = before
            start.restore()

    def request(self, message: Message) -> None:
        if self.current_search is not None or self._isolated:
            self._deferred.append(message)
        else:
            self.offer(message)

    def follow_options(self, options: Options) -> None:
        """Follow the options that say what the engine does besides its decisions."""
        self._counts_evictions = options.count_down_disruption_budgets
        self._evaluator.spare(None if options.preempt_other_schedulers_pods else self._is_foreign)
        self.queue.on_gated = self._report_gated if options.report_gated_pods else None
        self.group_binder.time_limit = options.gang_binding_timeout

    def _is_foreign(self, pod: PodInfo) -> bool:
        return pod.spec.profile_name not in self.profiles

    def _bind_run(self, run: Run) -> None:
        for attempt in run.attempts:
            self.queue.done(attempt.pod.uid)
        self._running += 1
        self.host.bind_run(run)

    def _apply_result(self, queued: QueuedPod, result: AttemptResult) -> None:
        """Act on the result of an attempt: bind the pod, or requeue it and evict victims."""
        decision, consequence = result
        if isinstance(consequence, Reservation):
            self.host.report_decision(decision)
            self.start_binding(consequence)
            return
        eviction = consequence.eviction
        if eviction is not None:
            for other in eviction.lower_priority:
                self.cluster.nominator.remove(other.uid)
            # The preemptor is not retried until the last victim is terminating.
            self.preempting.begin(eviction.uid, eviction.attempt)
            self._evaluator.chosen.add(eviction.uid, eviction.victims)
            if self._counts_evictions:
                # A pod that is still being bound is not evicted through the API.
                bound = [victim for victim in eviction.victims if victim.uid not in self._binding]
                self._evaluator.budgets.count_evictions(eviction.uid, bound)
            self._evaluator.observe_eviction(eviction, len(consequence.victims))
            self.host.evict(eviction)
        self.host.report_decision(decision)
        self.failed(queued, consequence.status, consequence.nominated)

    def start_binding(self, reservation: Reservation) -> None:
        self._binding[reservation.pod.uid] = reservation
        self.host.bind(reservation)

    # -- failures --------------------------------------------------------------------------------------------------

    def failed(self, queued: QueuedPod, status: Status, nominated: str | None) -> None:
        """Requeue a pod after a failed attempt and report why (kube-scheduler's handleSchedulingFailure).

        The rejectors are in `queued`; `nominated` None leaves the nomination unchanged.
        """
        uid = queued.pod.uid
        current, nominator = self.handlers.pending.get(uid), self.cluster.nominator
        if current is None:
            self.queue.done(uid)
            nominator.remove(uid)
        elif current.spec.profile_name not in self.profiles:
            self.queue.done(uid)
            self.handlers.give_up(uid)
        else:
            if current is not queued.pod:
                queued.pod = current
            self.queue.put_back(queued)
            self.handlers.nominate(current, nominator.nominated_node(uid) if nominated is None else nominated)
        pod = queued.pod
        if status.code == Code.SKIP:
            return  # every Bind plugin skipped: there is no error to report
        self._warn(queued, status.message)
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable" if status.is_rejected else "SchedulerError",
            message=status.message,
            observed_generation=pod.object.metadata.generation,
        )
        self.host.patch_status(pod, condition, nominated)

    def _give_up_nomination(self, pod: PendingPod) -> None:
        self.handlers.nominate(pod, "")
        self.host.patch_status(pod, None, "")

    def _warn(self, queued: QueuedPod, note: str) -> None:
        pod = queued.pod
        self.host.record(PodEvent(pod.scheduler_name, pod, "FailedScheduling", "Scheduling", note, warning=True))

    def _report_gated(self, pod: PendingPod, status: Status) -> None:
        """Report why a plugin gates a pod, by a condition and an event for each new message (KEP-5501)."""
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason="NotReadyForScheduling",
            message=status.message,
            observed_generation=pod.object.metadata.generation,
        )
        known = {(each.reason, each.message) for each in pod.status.conditions}
        if status.plugin not in _EXPLAINED_ELSEWHERE and (condition.reason, condition.message) not in known:
            self.host.record(PodEvent(pod.scheduler_name, pod, condition.reason, "Scheduling", status.message))
            self.host.patch_status(pod, condition, None)

    # -- pods that wait on Permit --------------------------------------------------------------------------------------

    def _reject_overdue(self, now: float) -> None:
        """Reject the pods that have waited too long, on behalf of the plugin whose time ran out first."""
        for reserved in self.cluster.waiting.awaiting_permit():
            plugin, due = min(reserved.pending.items(), key=lambda item: item[1])
            if due <= now:
                waited = Duration(round(due - reserved.since, 6))
                reserved.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    # -- the end of a preemption -----------------------------------------------------------------------------------

    def _preemption_ended(self, ended: PreemptionEnded) -> None:
        """Retry the preemptor if an eviction failed or its event is past; else the deletion of a victim wakes it."""
        self._evaluator.observer.on_execution(ended.preemptor, ended.took, failed=ended.failed)
        if ended.failed:
            self._evaluator.budgets.discount_failed_evictions(ended.uid)
            self._evaluator.chosen.forget_victims_of(ended.uid)
        self._evaluator.chosen.forget_departed()
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
            self._failed_bindings.pop(ended.uid, None)
            self._record_scheduled(reservation.profile, reservation.pod, reservation.node_name)
        else:
            self._binding_failed(reservation, ended.status, ended.rejector)
            if any(step.name == ended.status.plugin for step in reservation.profile.bind):
                self._failed_bindings.setdefault(ended.uid, {})[reservation.node_name] = reservation.profile
            self.record_late_binding(ended.uid)
        if reservation.group is not None:
            self.group_binder.leave(reservation.group, ended.uid)

    def record_late_binding(self, uid: str) -> None:
        """Record the event of a pod that a binding brought to its node after it had failed."""
        if uid in self._binding or uid in self.cluster.assumed:
            return  # the end of this binding decides
        placed = self.cluster.pods.get(uid)
        if placed is None and uid in self.pending:
            return
        profiles = self._failed_bindings.pop(uid, {})
        if placed is not None and placed.node_name in profiles:
            self._record_scheduled(profiles[placed.node_name], placed, placed.node_name)

    def _run_binding_ended(self, bound: RunBinding) -> None:
        """Record the bound pods of a run and requeue the others."""
        self._running -= 1
        run = bound.run
        if bound.errors:
            for index, attempt in enumerate(run.attempts):
                status = bound.errors.get(index)
                if status is None:
                    self._record_scheduled(attempt.profile, attempt.pod, run.results[index].node)
                else:
                    self._binding_failed(run.reservation(index), status, None)
        else:
            self.host.record_run(bound)
        run.end()

    def bind_individually(self, run: Run) -> None:
        """Start one binding cycle per pod of a run that cannot be bound together."""
        self._running -= 1
        for index in range(len(run)):
            reservation = run.reservation(index)
            self.cluster.waiting.add(reservation.reserved)
            self.start_binding(reservation)
        run.end()

    def _record_scheduled(self, profile: Profile, pod: PodInfo, node_name: str) -> None:
        self.host.record(PodEvent(profile.name, pod, "Scheduled", "Binding", bound_note(pod, node_name)))

    def _is_needed(self, pod: PendingPod) -> bool:
        """Return whether the others of its group wait for this pod, which may be tried again."""
        is_grouped = bool(pod.group) and isinstance(self.queue, GroupQueue) and pod.spec.profile_name in self.profiles
        return is_grouped and self.queue.policy.run_pre_enqueue(pod) is None

    def _binding_failed(self, reservation: Reservation, status: Status, rejector: str | None) -> None:
        """Undo a reservation and requeue the pod, in kube-scheduler's order."""
        pod, queued = reservation.pod, reservation.queued
        run_unreserve(reservation.profile, reservation.state, pod, reservation.node_name)
        was = self.cluster.forget(pod.uid) or pod
        freed = ObservedEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, was, None)
        rejectors = frozenset((rejector,)) if rejector is not None else NO_PLUGINS
        queued.unschedulable_plugins, queued.pending_plugins = rejectors, NO_PLUGINS
        # If it was bound after all, by this scheduler or another, it frees nothing.
        is_freed = pod.uid not in self.cluster.pods
        if is_freed and not status.is_rejected:
            self.handlers.on_event(freed)
        # It keeps its room for the next attempt, unless a plugin rejected the node.
        keeps_room = is_freed and not status.is_rejected and self._is_needed(pod)
        self.failed(queued, status, reservation.node_name if keeps_room else "")
        if is_freed and status.is_rejected:
            self.handlers.on_event(freed, lambda other: other.uid != pod.uid)
