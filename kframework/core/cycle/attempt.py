"""One scheduling cycle of one pod, from pop to its Decision: search, assume, reserve, permit, or fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kframework.core.cycle.decision import Decision, Result, fit_error
from kframework.core.cycle.outcome import FitError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.effects import Eviction, Reservation
from kframework.core.queue.queued_pod import QueuedPod
from kframework.core.runtime.points import (
    PostFilterAnswer,
    fault,
    run_permit,
    run_post_filter,
    run_reserve,
    run_unreserve,
)
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.timing import PhaseTimer, PluginTimer
from kframework.errors import PluginError
from kframework.framework.answers import Candidate, ClearNomination, Nominate, Preempt
from kframework.framework.status import Code, Status
from kframework.state.cluster import AssumeError
from kframework.state.pods import PendingPod
from kframework.state.waiting import ReservedPod

if TYPE_CHECKING:
    from kframework.core.pod_engine import PodEngine

# Looked up once: an enumeration takes longer to find a member than a lap to be taken.
_SCHEDULED = Result.SCHEDULED
_SUCCESS = Status(Code.SUCCESS)
_WAIT = Status(Code.WAIT)
_NOWHERE = ScheduleResult("", 0, 0, 0, 0)
_NO_REASONS: Mapping[str, int] = {}


class Attempt:
    """One scheduling cycle of one pod: search, assume, reserve, permit, or fail; and its Decision."""

    def __init__(self, engine: PodEngine, profile: Profile, queued: QueuedPod) -> None:
        self.engine = engine
        self.profile = profile
        self.queued = queued
        self.pod: PendingPod = queued.pod
        self.popped_at: float = engine.clock.now()
        self.timer: PhaseTimer = PhaseTimer()
        self.draw: float = engine.draw()
        #: Times the plugins; None where they are not timed.
        self.plugin_timer: PluginTimer | None = (
            engine.plugin_timers[profile.name] if engine.times(self.draw, self.popped_at) else None
        )

    def run(self) -> None:
        """Take the pod from pop to its Decision."""
        if self.plugin_timer is None:
            self._try()
        else:
            with self.plugin_timer.running():
                self._try()

    def _try(self) -> None:
        engine = self.engine
        self.queued.unschedulable_plugins = self.queued.pending_plugins = frozenset()
        try:
            search = engine.search(self.profile, self.queued, self.timer)
            self.timer.take("sign")
            outcome = engine.find(search)
        except PluginError as error:
            self._blame(error)
            return
        engine.undo_leaks(self.profile)
        if isinstance(outcome, ScheduleResult):
            self._place(search, outcome)
        elif isinstance(outcome, FitError):
            self._unfit(search, outcome)
        else:
            self._fail(outcome.status, "")

    def _blame(self, error: PluginError) -> None:
        """Fail by a plugin that broke the search off."""
        self.engine.undo_leaks(self.profile)
        hook = error.hook or "search"
        status = fault(self.profile, error.plugin, hook, error.__cause__ or error.message)
        self.timer.take(hook, status)
        self._fail(status, "")

    def _place(self, search: Search, found: ScheduleResult) -> None:
        engine, pod = self.engine, self.pod
        try:
            engine.cluster.assume(pod, found.node)
        except AssumeError as error:
            self._fail(Status(Code.ERROR, (str(error),)), "", found=found)
            return
        engine.cluster.nominator.remove(pod.uid)
        self.timer.take("assume")
        status = run_reserve(self.profile, search.state, pod, found.node)
        self.timer.take("reserve", status)
        waits: tuple[tuple[str, float], ...] = ()
        if status is None:
            permit = run_permit(self.profile, search.state, pod, found.node)
            status, waits = permit.status, permit.waits
            self.timer.take("permit", _WAIT if waits else status)
        engine.undo_leaks(self.profile)
        if status is not None:
            self._undo(search, found, status)
            return
        now = engine.clock.now()
        reserved = ReservedPod(pod, found.node, {plugin: now + seconds for plugin, seconds in waits}, now)
        engine.cluster.waiting.put(reserved)
        self._decide(_SCHEDULED, _SUCCESS, found, node=found.node)
        engine.launch(
            Reservation(
                engine.attempts,
                self.profile,
                self.queued,
                search.state,
                reserved,
                draw=self.draw,
                timed=self.plugin_timer is not None,
            )
        )

    def _undo(self, search: Search, found: ScheduleResult, status: Status) -> None:
        """Take back what Reserve or Permit refused."""
        run_unreserve(self.profile, search.state, self.pod, found.node)
        self.timer.take("unreserve")
        self.engine.cluster.forget(self.pod.uid)
        if status.rejected:
            self.queued.unschedulable_plugins = frozenset((status.plugin,))
            if status.code == Code.PENDING:
                self.queued.pending_plugins = frozenset((status.plugin,))
            text = fit_error(1, dict.fromkeys(status.reasons, 1))
            status = Status(status.code, (text,), status.plugin)
        self._fail(status, "", found=found)

    def _unfit(self, search: Search, unfit: FitError) -> None:
        """No node fits: look for a way out, then fail."""
        answer = None
        if self.profile.post_filter:
            answer = run_post_filter(self.profile, search.state, self.pod, unfit.diagnosis)
            self.engine.undo_leaks(self.profile)
            self.timer.take("post_filter", answer.status)
        self._give_up(unfit, answer)

    def _give_up(self, unfit: FitError, answer: PostFilterAnswer | None) -> None:
        """Fail for now, and do what PostFilter found so that the pod fits later."""
        self.queued.unschedulable_plugins = unfit.rejectors
        self.queued.pending_plugins = unfit.pending
        nominated: str | None = ""
        victims: tuple[str, ...] = ()
        message = ""
        if answer is not None:
            status, nominated, victims = self._way_out(answer)
            message = "" if status.code == Code.SUCCESS else status.message
        text = fit_error(
            len(self.engine.cluster.nodes),
            unfit.reasons,
            pre_filter_message=unfit.diagnosis.pre_filter_message,
            post_filter_message=message,
        )
        self._fail(Status(Code.UNSCHEDULABLE, (text,)), nominated, unfit=unfit, victims=victims)

    def _way_out(self, answer: PostFilterAnswer) -> tuple[Status, str | None, tuple[str, ...]]:
        """Do what PostFilter found; return its Status, the nominated node (None: as it was), the victims' keys."""
        status, result = answer.status, answer.result
        if isinstance(result, Nominate):
            return status, result.node, ()
        if isinstance(result, ClearNomination):
            return status, "", ()
        if not isinstance(result, Preempt) or not result.candidates:
            return status, None, ()
        try:
            chosen = min(result.candidates, key=result.key)  # type: ignore[arg-type]  # keys compare with each other
        except Exception as error:
            return fault(self.profile, status.plugin, "post_filter", error), None, ()
        self._preempt(chosen, status.plugin)
        return status, chosen.node, tuple(victim.key for victim in chosen.victims)

    def _preempt(self, chosen: Candidate, plugin: str) -> None:
        """Have the victims sent away; who is less important than the pod loses its nomination to the node.

        Where all victims are going already, there is nothing to do but to wait.
        """
        victims = tuple(victim for victim in chosen.victims if not victim.terminating)
        if not victims:
            return
        engine = self.engine
        outranked = tuple(engine.cluster.nominator.outranked(self.pod, chosen.node))
        for other in outranked:
            engine.cluster.nominator.remove(other.uid)
        engine.evict(Eviction(engine.attempts, self.profile.name, plugin, self.pod, chosen.node, victims, outranked))

    def _fail(
        self,
        status: Status,
        nominated: str | None,
        *,
        found: ScheduleResult = _NOWHERE,
        unfit: FitError | None = None,
        victims: tuple[str, ...] = (),
    ) -> None:
        self._decide(
            Result.UNSCHEDULABLE if status.rejected else Result.ERROR,
            status,
            found if unfit is None else ScheduleResult("", 0, 0, unfit.evaluated, 0),
            reasons=_NO_REASONS if unfit is None else unfit.reasons,
            rejectors=tuple(sorted(self.queued.rejectors)),
            pending=tuple(sorted(self.queued.pending_plugins)),
            nominated=nominated,
            victims=victims,
        )
        self.engine.failed(self.queued, status, nominated)

    def _decide(
        self,
        result: Result,
        status: Status,
        found: ScheduleResult,
        *,
        node: str = "",
        reasons: Mapping[str, int] = _NO_REASONS,
        rejectors: tuple[str, ...] = (),
        pending: tuple[str, ...] = (),
        nominated: str | None = None,
        victims: tuple[str, ...] = (),
    ) -> None:
        """Hand on the Decision: what was found, and where the pod goes or why it goes nowhere."""
        queued, pod = self.queued, self.pod
        self.engine.effects.decided(
            Decision(
                attempt=self.engine.attempts,
                tries=queued.attempts,
                pod=pod.key,
                uid=pod.uid,
                profile=self.profile.name,
                initial_attempt_at=self.popped_at if queued.initial_attempt is None else queued.initial_attempt,
                queued_at=queued.timestamp,
                popped_at=self.popped_at,
                woken_by=queued.woken_by,
                result=result,
                code=status.code,
                node=node,
                score=found.score,
                ties=found.ties,
                nodes=len(self.engine.cluster.nodes),
                evaluated=found.evaluated,
                feasible=found.feasible,
                top=found.top,
                reasons=reasons,
                rejectors=rejectors,
                pending=pending,
                message=status.message,
                nominated=nominated,
                victims=victims,
                draw=self.draw,
                started=self.timer.started,
                timings=tuple(self.timer.taken),
                plugins=() if self.plugin_timer is None else self.plugin_timer.timings(),
            )
        )
