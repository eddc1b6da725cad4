"""An engine that decides attempts of another one again, by other profiles on the same tables, and changes nothing.

Only the choice of a node is made again: PreFilter to Score, and PostFilter where nothing fits. Reserve and Permit act
on the state, so they are not called, and neither are PreEnqueue and QueueSort: the order of the pods is as it was.
Random ties make no difference: where the earlier choice is among the best, it is the choice.

A group is decided again as a whole: its pods are assumed and reserved one after the other, and taken back in the end.
Where the pods of a rejected group would have gone is not recorded, so among equal nodes they may go elsewhere now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random

import msgspec

from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.core.cycle.attempt import Attempt, AttemptResult
from kframework.core.cycle.records import Decision, GroupDecision
from kframework.core.cycle.results import Failure, Outcome, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import run_sync
from kframework.core.groups.trace import GroupTrace
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.points import PostFilterAnswer
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.timing import AttemptTrace
from kframework.framework.answers import Preempt
from kframework.framework.cycle_state import CycleState
from kframework.framework.suspendable import Suspendable
from kframework.objects import GenericPodGroup
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import Code, Status

#: The points that decide but are not repeated.
UNCALLED_POINTS = ("pre_enqueue", "queue_sort", "reserve", "permit")


class DryAttempt(Attempt):
    """An attempt that ends where it would begin to change something; the pod of a group may take its node for a while.

    Of Reserve only built-in plugins are called then, so that the pods of a group do not share their devices. Among
    equally good nodes it chooses the `preferred` one.
    """

    preferred: str = ""
    _taken: tuple[CycleState, ScheduleResult] | None = None

    def assume(self, result: ScheduleResult) -> AttemptResult | None:
        """Assume a copy of the pod: plugins have the pod itself, and what they do to it must not confuse the tables."""
        pod = self.pod
        self.pod: PendingPod = pod.twin(pod.kind)
        try:
            return super().assume(result)
        finally:
            self.pod = pod

    def take_node(self, search: Search, result: ScheduleResult) -> AttemptResult:
        return self.permit(search.state, result)

    def reserve(self, state: CycleState, result: ScheduleResult) -> AttemptResult | None:
        self._taken = state, result
        for step in self.timed_profile.reserve:
            status = step.call(state, self.pod, result.node) if step.name in IN_TREE_PLUGINS else None
            if status is not None:
                return self._roll_back(state, result, status)
        return None

    def permit(self, state: CycleState, result: ScheduleResult) -> AttemptResult:
        return self.decision(result), Failure(Status(Code.SUCCESS))

    def give_back(self, state: CycleState, result: ScheduleResult) -> None:
        self._taken = None
        for step in self.timed_profile.unreserve:
            if step.name in IN_TREE_PLUGINS:
                step.call(state, self.pod, result.node)
        self.cluster.forget(self.pod.uid)

    def take_back(self) -> None:
        """Undo Reserve and the assumption, if the pod has its node."""
        if self._taken is not None:
            self.give_back(*self._taken)

    def choose_preemption(self, answer: PostFilterAnswer) -> Failure:
        """Choose the victims that were chosen before, if they are among the best."""
        result = answer.result
        if isinstance(result, Preempt):
            # The first of those that cost least is chosen.
            others_last = sorted(result.candidates, key=lambda one: one.node != self.preferred)
            result = msgspec.structs.replace(result, candidates=tuple(others_last))
            answer = msgspec.structs.replace(answer, result=result)
        return super().choose_preemption(answer)


class DryEngine(PodEngine):
    """An engine that decides attempts again, and chooses the earlier node if it is among the best."""

    @cached_property
    def _choice(self) -> _EarlierChoice:
        """What draws for the current search: to create a generator takes as long as half a search."""
        return _EarlierChoice()

    def dry_attempt(self, profile: Profile, queued: QueuedPod, trace: AttemptTrace, preferred: str) -> DryAttempt:
        """Begin the attempt of a pod again."""
        attempt = DryAttempt(self.cluster, profile, queued, self.clock, self.clock.now(), trace)
        attempt.preferred = preferred
        return attempt

    def decide_again(self, profile: Profile, queued: QueuedPod, decision: Decision) -> Decision:
        """Decide the attempt of a pod again, on the tables as they are."""
        attempt = self._begin_again(profile, queued, decision)
        with self.isolated():
            result = run_sync(self.decide(attempt))
        assert result is not None  # there is no run to join
        return result[0]

    def decide_group_again(
        self,
        profile: Profile,
        root: GenericPodGroup,
        queued: Mapping[str, QueuedPod],
        group: GroupDecision,
        decisions: Sequence[Decision],
    ) -> dict[str, Decision]:
        """Decide on a group again, and take its pods back; return the decisions by the pod's uid."""
        by_uid = {each.uid: each for each in decisions}
        pods = [queued[each.uid] for each in sorted(decisions, key=lambda each: each.attempt)]
        nominator = self.cluster.nominator
        nominations = [(each.pod, nominator.nominated_node(each.pod.uid)) for each in pods]
        attempts: list[DryAttempt] = []

        def begin(member: QueuedPod) -> Attempt:
            attempts.append(self._begin_again(profile, member, by_uid[member.pod.uid]))
            return attempts[-1]

        with self.isolated():
            trace = GroupTrace(group.attempt)
            _, outcomes = run_sync(self.decide_group(root, pods, begin, trace, group.placement))
            self.roll_back_what_ifs()
            for attempt in reversed(attempts):
                attempt.take_back()
        for pod, node in nominations:
            if node:
                nominator.nominate(pod, node)
        return {decision.uid: decision for outcome in outcomes for _, (decision, _) in outcome.results}

    def roll_back_what_ifs(self) -> None:
        """Roll back what plugins suppose, before pods are taken back from their nodes."""

    def _begin_again(self, profile: Profile, queued: QueuedPod, decision: Decision) -> DryAttempt:
        copy = QueuedPod(queued.pod, queued.timestamp)
        copy.attempts, copy.initial_attempt = decision.pod_attempts, queued.initial_attempt
        trace = AttemptTrace(copy.pod, decision.attempt, decision.sample_value)
        return self.dry_attempt(profile, copy, trace, decision.node or decision.nominated or "")

    def find_node(self, attempt: Attempt, last: Search | None) -> Suspendable[tuple[Search, Outcome]]:
        if last is not None and isinstance(attempt, DryAttempt):
            self._choice.search, self._choice.node = last, attempt.preferred
        return super().find_node(attempt, last)

    def _new_search(self, attempt: Attempt, signature: Signature) -> Search:
        search = super()._new_search(attempt, signature)
        if isinstance(attempt, DryAttempt):
            search.random = self._choice
            self._choice.search, self._choice.node = search, attempt.preferred
        return search


class _EarlierChoice(Random):
    """A generator for the search at hand that draws this node if it is among the best, and else the first one."""

    search: Search
    node: str

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        search = self.search
        totals = search.totals
        best = search.feasible[totals == totals.item(totals.argmax())]
        return search.nodes.position_in(best, self.node) or 0


def differs_in(earlier: Decision, now: Decision) -> str:
    """Return how a decision differs from an earlier one on the same pod, "" if it does not.

    Where a node was found but not used, Reserve or Permit rejected it: they are not called again.
    """
    before, after = earlier.feasible > 0, now.feasible > 0
    if before and after:
        return "other node" if earlier.node not in ("", now.node) else ""
    if before or after:
        return "fits no more" if before else "fits now"
    return _failure_differs_in(earlier, now)


def member_differs_in(earlier: Decision, now: Decision) -> str:
    """Return how the outcome for a pod of a group differs; its search may find a node that its group does not get."""
    if earlier.node and now.node:
        return "other node" if earlier.node != now.node else ""
    if earlier.node or now.node:
        return "fits no more" if earlier.node else "fits now"
    return _failure_differs_in(earlier, now)


def _failure_differs_in(earlier: Decision, now: Decision) -> str:
    if (earlier.nominated or "", earlier.victims) != (now.nominated or "", now.victims):
        return "other victims"
    return "other reasons" if earlier.message != now.message else ""


def is_late_rejection(decision: Decision) -> bool:
    """Return whether Reserve or Permit rejected the pod, or another uncalled point did."""
    return not decision.node and any(
        point in UNCALLED_POINTS and code is not Code.SUCCESS for point, _, code in decision.timings
    )
