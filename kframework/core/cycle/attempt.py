"""One scheduling cycle of one pod, from the search's outcome to the Decision: assume, reserve, permit, or fail."""

from __future__ import annotations

import logging

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.clock import Clock
from kframework.core.cycle.records import Decision, Result, fit_error
from kframework.core.cycle.results import (
    Eviction,
    Failure,
    FitError,
    Outcome,
    Reservation,
    ScheduleError,
    ScheduleResult,
)
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import ExtenderClient, ExtenderError
from kframework.core.runtime.points import PostFilterAnswer, PostFilterRound, run_permit, run_reserve, run_unreserve
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import PluginError
from kframework.framework.answers import ClearNomination, Nominate, Preempt
from kframework.framework.cycle_state import CycleState
from kframework.framework.suspendable import Suspendable, wait_for
from kframework.state.cluster import AssumeError, ClusterState
from kframework.state.pods import NO_PLUGINS, PendingPod, QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.values.status import Code, Status

_log = logging.getLogger(__name__)

# Looked up once: finding an enum member takes longer than timing a phase.
_SCHEDULED, _SUCCESS, _WAIT = Result.SCHEDULED, Status(Code.SUCCESS), Status(Code.WAIT)
_NO_CANDIDATE = "preemption: no candidate node for preemption"

#: The result of an attempt.
AttemptResult = tuple[Decision, Reservation | Failure]


class Attempt:
    """One scheduling cycle of one pod, from the outcome of its search to its Decision.

    Attributes:
        pod: the pod.
        timed_profile: the profile, or its timed form.
        nodes: the number of nodes that are searched.
        scope: their positions in node order, None for all.
        group_state: what it shares with the attempts of its PodGroup's other pods.
    """

    # Runs keep their attempts for observers: with a dict each would take 300 bytes more.
    __slots__ = (
        *("cluster", "profile", "queued", "clock", "popped_at", "trace"),
        *("pod", "timed_profile", "nodes", "scope", "group_state"),
    )

    def __init__(
        self,
        cluster: ClusterState,
        profile: Profile,
        queued: QueuedPod,
        clock: Clock,
        popped_at: float,
        trace: AttemptTrace,
    ) -> None:
        queued.unschedulable_plugins = queued.pending_plugins = NO_PLUGINS
        self.cluster = cluster
        self.profile = profile
        self.queued = queued
        self.clock = clock
        self.popped_at = popped_at
        self.trace = trace
        self.pod: PendingPod = queued.pod
        self.timed_profile: Profile = profile.timed if trace.is_timed else profile
        self.nodes: int = len(cluster.nodes)
        self.scope: NDArray[np.int64] | None = None
        self.group_state: CycleState | None = None

    def narrow(self, scope: NDArray[np.int64] | None) -> None:
        """Search only the nodes at these positions in node order, None for all."""
        self.scope, self.nodes = scope, len(self.cluster.nodes if scope is None else scope)

    def failed(self, error: ScheduleError) -> AttemptResult:
        """Conclude the attempt with the error of the search."""
        return self.fail(Failure(error.status), error)

    def fail_in_plugin(self, error: PluginError) -> AttemptResult:
        """Fail by a plugin that broke the search off."""
        hook = error.hook or "search"
        status = self.timed_profile.fault_status(error.plugin, hook, error.__cause__ or error.message)
        self.trace.end_phase(hook, status)
        return self.failed(ScheduleError(status))

    # -- a node was found ------------------------------------------------------------------------------------------

    def assume(self, result: ScheduleResult) -> AttemptResult | None:
        """Assume the pod on its node; return the failed attempt's result if that is impossible."""
        try:
            self.cluster.assume(self.pod, result.node)
        except AssumeError as error:
            return self.fail(Failure(Status(Code.ERROR, (str(error),))), result)
        self.cluster.nominator.remove(self.pod.uid)
        self.trace.end_phase("assume")
        return None

    def take_node(self, search: Search, result: ScheduleResult) -> AttemptResult:
        """Assume, reserve, permit."""
        failed = self.assume(result) or self.reserve(search.state, result)
        return self.permit(search.state, result) if failed is None else failed

    def reserve(self, state: CycleState, result: ScheduleResult) -> AttemptResult | None:
        """Run Reserve for the assumed pod; return the failed attempt's result if a plugin rejects it."""
        status = run_reserve(self.timed_profile, state, self.pod, result.node)
        self.trace.end_phase("reserve", status)
        roll_back_leaked_statements(self.cluster, self.profile)
        return None if status is None else self._roll_back(state, result, status)

    def permit(self, state: CycleState, result: ScheduleResult) -> AttemptResult:
        """Run Permit for the reserved pod and conclude the attempt."""
        pod, node = self.pod, result.node
        answer = run_permit(self.timed_profile, state, pod, node)
        status, waits = answer.status, answer.waits
        self.trace.end_phase("permit", _WAIT if waits else status)
        roll_back_leaked_statements(self.cluster, self.profile)
        if status is not None:
            return self._roll_back(state, result, status)
        now = self.clock.now()
        reserved = ReservedPod(pod, node, {plugin: now + seconds for plugin, seconds in waits}, now)
        self.cluster.waiting.add(reserved)
        return self.decision(result), Reservation(self.profile, self.queued, state, reserved, self.trace)

    def give_back(self, state: CycleState, result: ScheduleResult) -> None:
        """Undo Reserve and the assumption."""
        run_unreserve(self.timed_profile, state, self.pod, result.node)
        self.trace.end_phase("unreserve")
        self.cluster.forget(self.pod.uid)

    def _roll_back(self, state: CycleState, result: ScheduleResult, status: Status) -> AttemptResult:
        """Undo the reservation that Reserve or Permit rejected."""
        self.give_back(state, result)
        if status.is_rejected:
            self.queued.unschedulable_plugins = frozenset((status.plugin,))
            if status.code == Code.PENDING:
                self.queued.pending_plugins = frozenset((status.plugin,))
            text = fit_error(1, dict.fromkeys(status.reasons, 1))
            status = Status(status.code, (text,), status.plugin)
        return self.fail(Failure(status), result)

    # -- no node was found -----------------------------------------------------------------------------------------

    def run_post_filter(self, search: Search, unfit: FitError) -> Suspendable[AttemptResult]:
        """Look for a way out, then fail for now."""
        failure = Failure(_SUCCESS)
        if self.profile.post_filter:
            failure = self.choose_preemption((yield from self._post_filter(search, unfit)))
        return self.fail_unfit(unfit, failure)

    def fail_unfit(self, unfit: FitError, failure: Failure) -> AttemptResult:
        """Fail since no node is feasible; the Status of `failure` is that of PostFilter."""
        self.queued.unschedulable_plugins = unfit.rejectors
        self.queued.pending_plugins = unfit.pending
        text = fit_error(
            self.nodes,
            unfit.reasons,
            pre_filter_message=unfit.diagnosis.pre_filter_message,
            post_filter_message=failure.status.message,
        )
        return self.fail(replace(failure, status=Status(Code.UNSCHEDULABLE, (text,))), unfit)

    def _post_filter(self, search: Search, unfit: FitError) -> Suspendable[PostFilterAnswer]:
        """Run PostFilter until extenders accept a result; if they reject one, run the remaining plugins."""
        plugins = PostFilterRound(self.timed_profile)
        while True:
            answer = plugins.run(search.state, self.pod, unfit.diagnosis)
            roll_back_leaked_statements(self.cluster, self.profile)
            self.trace.end_phase("post_filter", answer.status)
            if search.extenders is None or not isinstance(answer.result, Preempt) or not answer.result.candidates:
                return answer
            narrowed = yield from self._ask_extenders(search.extenders, answer.status, answer.result)
            self.trace.end_phase("extender_preempt", narrowed.status)
            # The remaining plugins have not run only if this one succeeded.
            if answer.status.code != Code.SUCCESS or narrowed.status.code != Code.UNSCHEDULABLE:
                return narrowed
            plugins.reject_result(narrowed.status)

    def _ask_extenders(
        self, extenders: ExtenderClient, status: Status, found: Preempt
    ) -> Suspendable[PostFilterAnswer]:
        """Let the extenders remove preemption candidates."""
        try:
            left = extenders.preempt(self.pod, found.candidates, self.cluster.nodes)
            candidates = yield from wait_for(left)
        except ExtenderError as error:
            return PostFilterAnswer(Status(Code.ERROR, (f"preemption: {error}",), status.plugin))
        if not candidates:
            return PostFilterAnswer(Status(Code.UNSCHEDULABLE, (*status.reasons, _NO_CANDIDATE), status.plugin))
        return PostFilterAnswer(status, replace(found, candidates=tuple(candidates)))

    def choose_preemption(self, answer: PostFilterAnswer) -> Failure:
        """Convert the result of PostFilter into a failure with its Status."""
        status, result = answer.status, answer.result
        if isinstance(result, Nominate):
            return Failure(status, result.node)
        if isinstance(result, ClearNomination):
            return Failure(status, "")
        if not isinstance(result, Preempt) or not result.candidates:
            return Failure(status, None)
        try:
            chosen = min(result.candidates, key=result.key)  # type: ignore[arg-type]  # keys compare with each other
        except Exception as error:
            return Failure(self.timed_profile.fault_status(status.plugin, "post_filter", error), None)
        if result.describe is not None:
            status = Status(status.code, (*status.reasons, result.describe(chosen)), status.plugin)
        alive = tuple(victim for victim in chosen.victims if not victim.terminating)
        eviction: Eviction | None = None
        if alive:  # if all are terminating already, just wait
            lower_priority = tuple(self.cluster.nominator.lower_priority(self.pod, chosen.node))
            args = self.trace.attempt, self.profile.name, status.plugin, self.pod, chosen.node, alive, lower_priority
            eviction = Eviction(*args, chosen.pdb_violations)
        return Failure(status, chosen.node, eviction, tuple(victim.key for victim in chosen.victims))

    # -- the Decision ----------------------------------------------------------------------------------------------

    def fail(self, failure: Failure, outcome: Outcome) -> AttemptResult:
        """Conclude the attempt with a failure, whatever the outcome of its search."""
        return self.decision(outcome, failure), failure

    def decision(self, outcome: Outcome, failure: Failure | None = None) -> Decision:
        """Return the Decision for the outcome: the pod's node, or the failure's reasons."""
        queued, pod, trace = self.queued, self.pod, self.trace
        found = outcome if isinstance(outcome, ScheduleResult) else _NOTHING
        unfit = outcome if isinstance(outcome, FitError) else None
        status = _SUCCESS if failure is None else failure.status
        return Decision(
            attempt=trace.attempt,
            pod_attempts=queued.attempts,
            pod=pod.key,
            uid=pod.uid,
            group=pod.group,
            group_attempt=trace.group_attempt,
            configuration=trace.configuration,
            profile=self.profile.name,
            initial_attempt_at=self.popped_at if queued.initial_attempt is None else queued.initial_attempt,
            queued_at=queued.timestamp,
            popped_at=self.popped_at,
            requeued_by=queued.requeued_by,
            result=_SCHEDULED if failure is None else Result.UNSCHEDULABLE if status.is_rejected else Result.ERROR,
            code=status.code,
            node=found.node if failure is None else "",
            score=found.score,
            ties=found.ties,
            nodes=self.nodes,
            evaluated=found.evaluated if unfit is None else unfit.evaluated,
            feasible=found.feasible,
            best_nodes=found.best,
            reasons=_NO_REASONS if unfit is None else unfit.reasons,
            rejectors=() if failure is None else tuple(sorted(queued.rejectors)),
            pending=() if failure is None else tuple(sorted(queued.pending_plugins)),
            message=status.message,
            nominated=None if failure is None else failure.nominated,
            victims=() if failure is None else failure.victims,
            sample_value=trace.sample_value,
            started=trace.started,
            timings=tuple(trace.phases),
            plugins=trace.plugins,
        )


_NOTHING = ScheduleResult("", 0, 0, 0, 0)
_NO_REASONS: dict[str, int] = {}


def roll_back_leaked_statements(cluster: ClusterState, profile: Profile) -> None:
    """Roll back what-if statements that a plugin left open, for example by raising."""
    while cluster.statements and not cluster.statements[-1].is_held:
        statement = cluster.statements[-1]
        _log.error("a plugin of profile %r left a statement open; it is undone", profile.name)
        statement.rollback()
