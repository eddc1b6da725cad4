"""The scheduling cycle of a PodGroup: a node for each member in one walk, and then all are bound, or none is.

The walk assumes and reserves each member before it looks at the next one, so later members see the earlier ones. If the
group is rejected, this is undone, the last member first. PostFilter does not run for members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from kframework.core.cycle.attempt import Attempt, AttemptResult, roll_back_leaked_statements
from kframework.core.cycle.results import Failure, FitError, Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import TURN, Suspendable
from kframework.core.runtime.points import run_placement_feasible
from kframework.core.runtime.profile import Profile
from kframework.errors import PluginError
from kframework.framework.answers import GroupProgress
from kframework.objects import PodGroup
from kframework.state.pods import PodInfo, QueuedPod
from kframework.values.status import Code, Status

_SUCCESS = Status(Code.SUCCESS)
_UNSCHEDULABLE = "pod group is unschedulable"
#: After so many pods the other tasks of the loop run, which is some 2 ms.
PODS_PER_TURN = 32

_NOT_REACHED = ScheduleError(Status(Code.UNSCHEDULABLE, (_UNSCHEDULABLE,)))

#: Searches for the node of an attempt's pod, given the search for the pod before.
FindNode = Callable[[Attempt, Search | None], Suspendable[tuple[Search, Outcome]]]


class WalkedPod:
    """A pod of the group in its cycle.

    Attributes:
        search: the search for its node, and what that found; None until the walk reaches it.
        failed: the result of its attempt, if that failed whatever becomes of the group.
        nomination: the node that it was nominated to before it was assumed.
    """

    def __init__(self, queued: QueuedPod, begin: Callable[[QueuedPod], Attempt]) -> None:
        self._queued = queued
        self._begin = begin
        self._attempt: Attempt | None = None
        self.search: Search | None = None
        self.outcome: Outcome | None = None
        self.failed: AttemptResult | None = None
        self.nomination: str = ""

    @property
    def attempt(self) -> Attempt:
        """Its attempt, which begins when it is first asked for."""
        if self._attempt is None:
            self._attempt = self._begin(self._queued)
        return self._attempt

    @property
    def error(self) -> Status | None:
        """The error that it failed with, None if it has a node or was rejected."""
        failure = None if self.failed is None else self.failed[1]
        return failure.status if isinstance(failure, Failure) and not failure.status.is_rejected else None

    def take_node(self) -> None:
        """Assume and reserve the node that was found, or fail."""
        attempt, outcome = self.attempt, self.outcome
        if isinstance(outcome, FitError):
            self.failed = attempt.fail_unfit(outcome, Failure(_SUCCESS))
        elif isinstance(outcome, ScheduleError):
            self.failed = attempt.failed(outcome)
        elif self.search is not None and outcome is not None:
            self.nomination = attempt.cluster.nominator.nominated_node(attempt.pod.uid)
            self.failed = attempt.assume(outcome) or attempt.reserve(self.search.state, outcome)
            if self.failed is not None:
                self._restore_nomination()

    def give_back(self) -> None:
        """Undo what `take_node` did."""
        if self.search is not None and isinstance(self.outcome, ScheduleResult):
            self.attempt.give_back(self.search.state, self.outcome)
            self._restore_nomination()

    def _restore_nomination(self) -> None:
        if self.nomination:
            self.attempt.cluster.nominator.nominate(self.attempt.pod, self.nomination)

    def conclude(self, status: Status) -> AttemptResult:
        """Return the result of the attempt: the pod's own failure, or what its group's status means for it."""
        if self.failed is not None and (status.code != Code.ERROR or self.error is not None):
            return self.failed
        if status.code == Code.SUCCESS and self.search is not None and isinstance(self.outcome, ScheduleResult):
            return self.attempt.permit(self.search.state, self.outcome)
        return self.attempt.fail_with_group(status, self.outcome or _NOT_REACHED)


class GroupCycle:
    """One cycle of a PodGroup that has `scheduled` pods on nodes already.

    Attributes:
        status: the group's Status: Success, a rejection or an error.
    """

    def __init__(
        self,
        group: PodGroup,
        profile: Profile,
        scheduled: int,
        pods: Sequence[QueuedPod],
        begin: Callable[[QueuedPod], Attempt],
    ) -> None:
        self.status: Status = _SUCCESS
        self._group = group
        self._profile = profile
        self._scheduled = scheduled
        self._members = [WalkedPod(queued, begin) for queued in pods]

    def run(self, find_node: FindNode) -> Suspendable[list[AttemptResult]]:
        """Walk over the members; return the results of their attempts, in order."""
        self.status = yield from self._walk(find_node)
        if self.status.code != Code.SUCCESS:
            for member in reversed(self._members):
                if member.failed is None:
                    member.give_back()
        results = []
        for index, member in enumerate(self._members):
            results.append(member.conclude(self.status))
            yield from _turn_after(index)
        return results

    def fail(self, message: str) -> list[AttemptResult]:
        """Fail all members before the walk."""
        self.status = Status(Code.ERROR, (message,))
        return [member.conclude(self.status) for member in self._members]

    def _walk(self, find_node: FindNode) -> Suspendable[Status]:
        """Find a node for one member after another, until it is clear what becomes of the group."""
        placed, search = 0, None
        answer = self._ask_feasibility(placed, len(self._members))
        for index, member in enumerate(self._members):
            if answer is not None and answer.code != Code.WAIT:
                break
            attempt = member.attempt
            try:
                search, member.outcome = yield from find_node(attempt, search)
                member.search = search
                member.take_node()
            except PluginError as error:
                roll_back_leaked_statements(attempt.cluster, self._profile)
                member.failed = attempt.fail_in_plugin(error)
            if member.error is not None:
                text = f"failed to schedule other pod from a pod group: {member.error.message}"
                return Status(Code.ERROR, (text,))
            placed += member.failed is None
            yield from _turn_after(index)
            answer = self._ask_feasibility(placed, len(self._members) - index - 1)
        if answer is None and placed:
            return _SUCCESS
        if answer is not None and not answer.is_rejected and answer.code != Code.WAIT:
            return answer
        reasons, plugin = ((), "") if answer is None else (answer.reasons, answer.plugin)
        return Status(Code.UNSCHEDULABLE, (_UNSCHEDULABLE, *reasons), plugin)

    def _ask_feasibility(self, placed: int, remaining: int) -> Status | None:
        progress = GroupProgress(self._scheduled + placed, remaining)
        return run_placement_feasible(self._profile.placement_feasible, self._group, progress)


def _turn_after(index: int) -> Suspendable[None]:
    """Let other tasks run after every few pods."""
    if index % PODS_PER_TURN == PODS_PER_TURN - 1:
        yield TURN


def mixed_members(group: PodGroup, pods: Collection[PodInfo]) -> str:
    """Return why these pods, waiting or scheduled, cannot be scheduled as one group; "" if they can."""
    same = "all pods in a single pod group should have the same"
    names = list(dict.fromkeys(pod.spec.scheduler_name or "default-scheduler" for pod in pods))
    if len(names) > 1:
        return f'{same} .spec.schedulerName set, got: "{names[0]}" and "{names[1]}"'
    priority = group.spec.priority or 0
    other = next((pod.priority for pod in pods if pod.priority != priority), None)
    if other is not None:
        return f"{same} priority as the pod group's priority, got {other} and {priority}"
    policies = list(dict.fromkeys(pod.spec.preemption_policy or "PreemptLowerPriority" for pod in pods))
    if len(policies) > 1:
        return f"{same} preemption policy, got {policies[0]} and {policies[1]}"
    return ""
