"""The engine that schedules one pod at a time, as kube-scheduler does: messages in, decisions out, no awaits.

`step` applies messages, runs due timers and schedules one pod. Side effects (bind, patch a status, record an event,
evict) go through `Host`; their outcomes arrive as messages.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from random import Random
from typing import Self

from msgspec.structs import replace

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.cycle.attempt import Attempt, AttemptResult, roll_back_leaked_statements
from kframework.core.cycle.oracle import log_scores, verify
from kframework.core.cycle.plan import PlanCaches
from kframework.core.cycle.records import HookTracer
from kframework.core.cycle.results import FitError, Outcome, ScheduleResult
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.run import Run, RunBinding
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import TURN, ExtenderClient, in_turns, run_sync
from kframework.core.event_handlers import EventHandlers
from kframework.core.groups.cycle import PODS_PER_TURN, GroupCycle, GroupOutcome, PodSearches
from kframework.core.groups.trace import GroupTrace
from kframework.core.host import Host
from kframework.core.plugin_handle import ProfilesFactory
from kframework.core.pod_outcomes import PodOutcomes
from kframework.core.preemption.evaluator import Evaluator, OngoingPreemptions
from kframework.core.queue.backoff import Backoff
from kframework.core.queue.group_queue import GroupQueue, group_watches, new_queue
from kframework.core.queue.queued_group import QueuedGroup
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.core.reconfiguration import ConfigurationChanged
from kframework.core.runtime.profile import Signature
from kframework.core.runtime.profiles import Profiles
from kframework.core.runtime.timing import AttemptTrace, current_attempt
from kframework.core.sources import Sources, SourceUpdate
from kframework.errors import PluginError
from kframework.framework.events import ActionType, ObservedEvent
from kframework.framework.plugin import Watch
from kframework.framework.suspendable import Suspendable
from kframework.objects import GenericPodGroup, Pod
from kframework.state.cluster import ClusterState
from kframework.state.inbox import (
    ActivateRequested,
    AnswersInvalidated,
    BindingEnded,
    BindingStarted,
    Bound,
    Deleted,
    LastVictimReached,
    Message,
    Nominated,
    PreemptionEnded,
    SourceChanged,
    SourceFailed,
    StatusChanged,
    Synced,
    Upserted,
)
from kframework.state.pods import QueuedPod
from kframework.values.status import Code, Status
from kframework.verbosity import V3, V10

_log = logging.getLogger(__name__)

#: If no plugin has been timed for so long, those of the next attempt are, in seconds.
_TIMED_EVERY = 1.0

#: The maximum number of pods in a run; 16 already bring nearly all of the gain.
RUN_LENGTH = 24


class PodEngine(PodOutcomes):
    """Schedules one pod after the other."""

    # Declared in the base class; repeated because PodEngine reassigns them and checkers would infer narrower types.
    host: Host
    pending_cycle: Suspendable[None] | None
    current_search: Search | None

    def __init__(
        self,
        cluster: ClusterState,
        clock: Clock,
        host: Host,
        profiles: ProfilesFactory,
        *,
        seed: int = 0,
        backoff: Backoff = Backoff(),  # noqa: B008  # it is frozen
        max_unschedulable: float = 300.0,
        layer_memory: int = 256 << 20,
        preempt_other_schedulers_pods: bool = True,
        verifying: bool | None = None,
        extenders: ExtenderClient | None = None,
        run_length: int = RUN_LENGTH,
    ) -> None:
        super().__init__(cluster, clock, host, seed)
        self.watches: tuple[Watch, ...] = tuple(group_watches(cluster.feature_gates))
        self.rotation: Rotation = Rotation()
        self.attempts: int = 0
        #: The configuration that decides, None for the first, and its number, from 1 on.
        self.configuration: Configuration | None = None
        self.configuration_number: int = 1
        #: Traces the hooks of timed attempts; None if there is no tracer.
        self.hook_tracer: HookTracer | None = None
        self._timed_at = -math.inf
        self.run_length: int = run_length
        self.extenders: ExtenderClient | None = extenders or None
        self._verifying = bool(os.environ.get("KFRAMEWORK_VERIFY")) if verifying is None else verifying
        self.ties: Random = self.seeds.generator("ties")
        #: Draws an attempt's sample value, in [0, 1).
        self.draw: Callable[[], float] = self.seeds.generator("sampling").random
        self.preempting: OngoingPreemptions = OngoingPreemptions()
        self._evaluator = Evaluator(
            cluster,
            self.preempting,
            self.seeds.generator("preemption offset"),
            lambda: self.current_search,
            exempt=None if preempt_other_schedulers_pods else self._is_foreign,
            budget=layer_memory // 8,
            verifying=self._verifying,
        )
        self._counts_evictions = True
        # From here on plugins access the attributes above through their handles.
        self.profiles: Profiles = profiles(self)
        self.queue: SchedulingQueue = new_queue(cluster, self.profiles, clock.now, backoff, max_unschedulable)
        self.sources: Sources = Sources(self.profiles)
        self.handlers: EventHandlers = EventHandlers(cluster, self.queue, self.profiles)
        self._plan_caches = PlanCaches(cluster.nodes)
        self._follow_profiles(layer_memory)

    @classmethod
    def from_configuration(
        cls,
        configuration: Configuration,
        clock: Clock,
        host: Host,
        extenders: ExtenderClient,
        profiles: ProfilesFactory,
    ) -> Self:
        options, settings = configuration.options, configuration.settings
        engine = cls(
            ClusterState(options.gates),
            clock,
            host,
            profiles,
            seed=options.seed,
            backoff=Backoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds),
            max_unschedulable=options.pod_max_in_unschedulable_pods_duration,
            layer_memory=options.layer_memory_bytes,
            extenders=extenders,
        )
        engine.follow_options(options)
        return engine

    # -- running ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        self.apply_messages()
        self.pending_cycle = None
        if self.synced and isinstance(self.queue, GroupQueue) and self.queue.unasked:
            self.pending_cycle = in_turns(self.queue.let_in_unasked())
            return True
        queued = self.queue.pop() if self.synced else None
        if queued is None:
            return False
        self._attempt(queued)
        return True

    def apply_some_messages(self, limit: int) -> bool:
        if len(self.inbox) <= limit:
            return False
        if self.follower is not None:
            self.follower.look_back()
        for message in islice(self.inbox.drain(), limit):
            self._apply(message)
        return True

    def apply_messages(self) -> None:
        if self.follower is not None:
            self.follower.look_back()
        for message in self.inbox.drain():
            self._apply(message)
        now = self.clock.now()
        if self.sources:
            for turn in self.sources.expire(now):
                self.on_source_update(turn)
        deadline = self.cluster.waiting.deadline
        if deadline is not None and deadline <= now:
            self._reject_overdue(now)
        if self.group_binder.unfinished:
            self.group_binder.expire(now)
        self.queue.tick()

    @property
    def deadline(self) -> float | None:
        queue, waiting = self.queue, self.cluster.waiting
        of_queue, of_groups = (queue.retry_deadline, queue.flush_deadline), self.group_binder.deadline
        deadlines = (*of_queue, waiting.deadline, self.sources.deadline, of_groups)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _apply(self, message: Message) -> None:
        # The four messages of every pod come first and bind no fields: a pattern that binds takes 0.4 us more.
        match message:
            case Bound() if isinstance(message.obj, Pod):
                self.handlers.confirm_binding(message.obj, message.version)
            case StatusChanged() if isinstance(message.obj, Pod):
                self.handlers.update_status(message.obj)
            case Upserted():
                self.handlers.upsert(message.obj)
            case BindingStarted():
                self.queue.done(message.uid)
            case BindingEnded():
                self._binding_ended(message)
            case RunBinding():
                self._run_binding_ended(message)
            case Deleted(obj):
                self.handlers.delete(obj)
            case Synced():
                self.synced = True
                self.handlers.mark_synced()
                self.cluster.groups.mark_synced()
                self.group_binder.resume(self.profiles)
            case LastVictimReached(uid, attempt, victim):
                self.preempting.record_last_victim(uid, attempt, victim)
            case PreemptionEnded():
                self._preemption_ended(message)
            case ActivateRequested(uids):
                for uid in uids:
                    self.queue.activate(uid)
            case Nominated(uid, node_name):
                pod = self.handlers.pending.get(uid)
                if pod is not None and uid not in self.cluster.assumed:
                    self.handlers.nominate(pod, node_name)
            case AnswersInvalidated(node_names):
                self.drop_answers(node_names)
            case ConfigurationChanged():
                self._reconfigure(message)
            case SourceChanged() | SourceFailed():
                if (turn := self.sources.apply(message)) is not None:
                    self.on_source_update(turn)
        if self._failed_bindings and isinstance(message, Upserted | Bound | Deleted):
            self.record_late_binding(message.obj.metadata.uid)

    def _reconfigure(self, change: ConfigurationChanged) -> None:
        """Decide by another configuration from the next cycle on; pods reserved before keep their profile."""
        options = change.configuration.options
        changes = self.profiles.become(change.profiles)
        if self.extenders is not (change.extenders or None):
            self.extenders, changes = change.extenders or None, replace(changes, holding=tuple(self.profiles))
        self.configuration, self.configuration_number = change.configuration, self.configuration_number + 1
        self.follow_options(options)
        self.group_binder.resume(self.profiles)
        self._follow_profiles(options.layer_memory_bytes)
        self.sources.follow(self.profiles)
        self.queue.set_times(*change.queue_times)
        self.handlers.follow_profiles(changes)
        change.on_taken()

    def _follow_profiles(self, layer_memory: int) -> None:
        self.cluster.follow_kinds(kind for profile in self.profiles.values() for kind in profile.sign_reads)
        self._plan_caches.follow(self.profiles, layer_memory - layer_memory // 8)

    def drop_answers(self, node_names: tuple[str, ...]) -> None:
        """Drop the cached answers on these nodes, on all if none is named."""
        self.cluster.nodes.mark_named_changed(node_names)

    def on_source_update(self, turn: SourceUpdate) -> None:
        """Drop a plugin's cached answers after its source changed, and wake the pods that it rejected."""
        source, change = turn.source, turn.change
        if self.profiles[source.profile].is_cacheable(source.plugin):
            if change is not None and source.settings.keyed_by == "node":
                self.drop_answers((*change.values, *change.removed))
            else:
                self._plan_caches[source.profile].clear()
                self.drop_answers(())
        if source.fresh or source.settings.when_stale == "ignore":
            label = f"{source.plugin}/{source.name}"
            self.handlers.on_event(ObservedEvent(source.key, ActionType.UPDATE, None, change, label))

    # -- one attempt -----------------------------------------------------------------------------------------------

    def _attempt(self, queued: QueuedPod) -> None:
        pod = queued.pod
        if isinstance(queued, QueuedGroup):
            self.pending_cycle = self._group_cycle(queued)  # it gives turns to other tasks
        elif pod.terminating:
            self._warn(queued, f"skip schedule deleting pod: {pod.key}")
            self.queue.done(pod.uid)
        elif pod.uid in self.cluster.pods:
            self.queue.done(pod.uid)
        else:
            self._run(self._cycle(queued))

    def _run(self, cycle: Suspendable[None]) -> None:
        """Run a cycle, or leave it to the loop if it waits for extenders."""
        if self.extenders is not None:
            self.pending_cycle = cycle
        else:
            run_sync(cycle)

    def _cycle(self, queued: QueuedPod) -> Suspendable[None]:
        """Schedule a popped pod, then the pods behind it as long as they only need binding."""
        run = Run(self.run_length if self.can_place_runs else 0)
        try:
            result = yield from self.decide(self._begin_cycle(queued), run)
            while result is None and (following := self._next_of_run(run)) is not None:
                queued = following
                result = yield from self.decide(self._begin_cycle(queued), run)
            if self.follower is not None:
                self.follower.end(run, result)
            if run.attempts:
                self._bind_run(run)
            if result is not None:
                self._apply_result(queued, result)
        finally:
            self._end_of_cycle()

    def _group_cycle(self, queued: QueuedGroup) -> Suspendable[None]:
        """Schedule the pods of a popped group that still wait, together."""
        assert isinstance(self.queue, GroupQueue)
        root, placed = queued.root, self.cluster.pods
        if queued.is_large:
            yield TURN
        pods = [each for each in queued.in_order() if not each.pod.terminating and each.pod.uid not in placed]
        if queued.is_large:
            yield TURN
        key, trace = "/".join(queued.key[1:]), GroupTrace(self.attempts + 1, self.draw(), self.clock.now())
        _log.log(V3, "Attempting to schedule pod group", extra={"podGroup": key, "pods": len(pods)})
        try:
            if len(pods) < len(queued.members):
                for uid in sorted(queued.members.keys() - {each.pod.uid for each in pods}):
                    self.queue.done(uid)
            if not pods:
                self.queue.put_back_group(queued, Status(Code.SUCCESS))
                return
            profile = self.profiles[pods[0].pod.scheduler_name]
            if self.follower is not None:
                self.follower.begin_group(queued, pods)
            may_skip = self.follower is None and self.group_binder.may_skip(root)
            runs: list[Run] | None = [] if may_skip and self.can_place_runs else None
            begin = partial(self._begin_cycle, group=trace)
            status, outcomes = yield from self.decide_group(root, pods, begin, trace, runs=runs)
            for run in runs or ():
                self._bind_run(run)
                yield TURN
            self.group_binder.add(root, profile, outcomes)
            for number, (each, result) in enumerate((pair for outcome in outcomes for pair in outcome.results), 1):
                self._apply_result(each, result)
                if number % PODS_PER_TURN == 0:
                    yield TURN
            self.queue.put_back_group(queued, status)
            for outcome in outcomes:
                self.group_conditions.report_cycle(outcome.group, outcome.status)
            decision = trace.decision(queued.key, profile.name, len(pods), queued.timestamp, status)
            if self.follower is not None:
                self.follower.end_group(decision, outcomes)
            self.host.report_group_decision(decision)
        finally:
            self._end_of_cycle()

    def decide_group(
        self,
        root: GenericPodGroup,
        pods: Sequence[QueuedPod],
        begin: Callable[[QueuedPod], Attempt],
        trace: GroupTrace,
        preferred: str = "",
        runs: list[Run] | None = None,
    ) -> Suspendable[tuple[Status, list[GroupOutcome]]]:
        """Find nodes for the pods of a tree of groups, in the `preferred` placement if it is one of the best.

        With `runs`, the pods are added there instead of having outcomes, if all of them only need to be bound.
        """
        cluster, profile = self.cluster, self.profiles[pods[0].pod.scheduler_name]
        searches = PodSearches(begin, self._sign, self.search, self.ties, self.rotation)
        cycle = GroupCycle(cluster, profile, root, pods, searches, trace, preferred)
        cycle.runs = runs
        outcomes = yield from cycle.run(self.find_node)
        return cycle.status, outcomes

    @property
    def can_place_runs(self) -> bool:
        """Whether pods may be bound in runs, which is the case unless each is logged on its own."""
        return self.host.can_bind_runs and not _log.isEnabledFor(V3)

    def _next_of_run(self, run: Run) -> QueuedPod | None:
        """Pop the next pod, unless the run is full or other work is due first."""
        if len(run.attempts) >= run.limit or self._deferred or len(self.inbox):
            return None
        queued = self.queue.peek()
        if queued is None or isinstance(queued, QueuedGroup) or queued.pod.terminating:
            return None
        return None if queued.pod.uid in self.cluster.pods else self.queue.pop()

    def _begin_cycle(self, queued: QueuedPod, group: GroupTrace | None = None) -> Attempt:
        """Begin the next attempt; it is the current one until the end of the cycle."""
        self.attempts += 1
        if _log.isEnabledFor(V3):
            fields = {"pod": queued.pod.key, "attempt": self.attempts, "profile": queued.pod.scheduler_name}
            _log.log(V3, "Attempting to schedule pod", extra=fields)
        attempt = self.start_attempt(queued, group)
        current_attempt.set(attempt.trace)
        return attempt

    def _end_of_cycle(self) -> None:
        self.current_search = self.pending_cycle = None
        current_attempt.set(None)
        deferred, self._deferred = self._deferred, []
        for message in deferred:
            self._apply(message)

    def start_attempt(self, queued: QueuedPod, group: GroupTrace | None = None) -> Attempt:
        """Begin an attempt; its sample value, or that of its group, decides whether its plugins are timed."""
        sample_value, first = (self.draw(), 0) if group is None else (group.sample_value, group.attempt)
        now, share = self.clock.now(), self.timed_share
        # Always at low load, where timing costs nothing.
        timed = sample_value < share or (share > 0.0 and now - self._timed_at >= _TIMED_EVERY)
        if timed:
            self._timed_at = now
        tracer = self.hook_tracer if timed else None
        hook_context = None if tracer is None else tracer.hook_context(self.attempts, sample_value, first)
        trace = AttemptTrace(
            queued.pod, self.attempts, sample_value, timed, hook_context, first, self.configuration_number
        )
        return Attempt(self.cluster, self.profiles[queued.pod.scheduler_name], queued, self.clock, now, trace)

    def decide(self, attempt: Attempt, run: Run | None = None) -> Suspendable[AttemptResult | None]:
        """Find a node and conclude the attempt; return None if the pod has joined the run."""
        if self.follower is not None:
            self.follower.begin(attempt)
        last = self.current_search if run is not None and run.attempts else None
        try:
            search, outcome = yield from self.find_node(attempt, last)
            if self._verifying or run is None or not run.limit:
                outcome = self.check_outcome(search, outcome)
        except PluginError as error:
            roll_back_leaked_statements(self.cluster, attempt.profile)
            return attempt.fail_in_plugin(error)
        if self.cluster.statements:
            roll_back_leaked_statements(self.cluster, attempt.profile)
        if isinstance(outcome, ScheduleResult):
            if run is not None and run.limit and search.plan.binds_directly and not attempt.trace.is_timed:
                return run.assume(attempt, search.state, outcome)
            return attempt.take_node(search, outcome)
        if isinstance(outcome, FitError):
            return (yield from attempt.run_post_filter(search, outcome))
        return attempt.failed(outcome)

    def find_node(self, attempt: Attempt, last: Search | None) -> Suspendable[tuple[Search, Outcome]]:
        """Search for a node; like the search for the pod before, if nothing was applied since and both are alike."""
        signature, trace = self._sign(attempt), attempt.trace
        trace.end_phase("sign")
        if last is not None and not trace.is_timed:
            outcome = last.repeat(attempt.pod, signature, trace)
            if outcome is not None:
                attempt.profile = attempt.timed_profile = last.profile
                return last, outcome
        search = self._new_search(attempt, signature)
        return search, (yield from search.steps())

    def search(self, attempt: Attempt) -> Search:
        """Create the search for a node; raises PluginError if the pod cannot be signed."""
        return self._new_search(attempt, self._sign(attempt))

    def _sign(self, attempt: Attempt) -> Signature:
        pod, profile = attempt.pod, attempt.profile
        signature = profile.sign(pod, self.cluster.epoch)
        return profile.without_new_fields(signature, pod) if profile.signs_all_fields else signature

    def _new_search(self, attempt: Attempt, signature: Signature) -> Search:
        pod, trace = attempt.pod, attempt.trace
        plan = self._plan_caches[attempt.profile.name].plan(signature, pod)
        attempt.profile = attempt.timed_profile = plan.profile
        if trace.is_timed:
            attempt.timed_profile = plan.profile.timed
            plan = plan.for_profile(attempt.timed_profile)
        search = Search(self.cluster, plan, pod, self.rotation, self.ties, trace, self.extenders, attempt.scope)
        search.state.group = attempt.group_state
        self.current_search = search
        return search

    def check_outcome(self, search: Search, outcome: Outcome) -> Outcome:
        """Check the outcome of a search against the oracle and log its scores, if either is enabled; return it."""
        if self._verifying:
            verify(search, outcome)
        if _log.isEnabledFor(V10):
            with self.isolated():
                log_scores(search)
        return outcome
