"""A walk over a tree of groups: a node for each pod, one after the other, until it is clear what becomes of each group.

The walk assumes and reserves each pod before it looks at the next one, so later pods see the earlier ones. If a group
is rejected, this is undone for its pods, the last one first. PostFilter does not run for members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.core.cycle.attempt import Attempt, AttemptResult, roll_back_leaked_statements
from kframework.core.cycle.records import Decision, PlacementTrial
from kframework.core.cycle.rejections import filter_with_nominated_pods
from kframework.core.cycle.results import Eviction, Failure, FitError, Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.run import Run
from kframework.core.cycle.search import Search
from kframework.core.runtime.points import (
    run_add_pod,
    run_placement_feasible,
    run_remove_pod,
    run_reserve,
    run_unreserve,
)
from kframework.core.runtime.profile import Profile
from kframework.errors import PluginError
from kframework.framework.answers import GroupProgress, PreemptForGroup
from kframework.framework.handle import PlacedPod
from kframework.framework.suspendable import Suspendable
from kframework.objects import GenericPodGroup
from kframework.state.nodes import NodeInfo
from kframework.state.pods import NO_PLUGINS, PendingPod, PodInfo
from kframework.values.status import Code, Status

UNSCHEDULABLE = "pod group is unschedulable"
_BROKEN_POD = "failed to schedule other pod from a pod group"
_BROKEN_CHILD = "composite pod group evaluation failed due to child error"

_SUCCESS = Status(Code.SUCCESS)

#: The domain of a group's preemption, named in place of a node.
_EVERYWHERE = "cluster"

_NOT_REACHED = ScheduleError(Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE,)))

#: Searches for the node of an attempt's pod, given the search for the pod before.
FindNode = Callable[[Attempt, Search | None], Suspendable[tuple[Search, Outcome]]]


class WalkedPod:
    """A pod of a PodGroup in a walk, which looks at the nodes of `scope`.

    Attributes:
        search: the search for its node, and what that found; None until the walk reaches it.
        failed: the result of its attempt, if that failed whatever becomes of the group.
        nomination: the node that it was nominated to before it was assumed.
    """

    # Until the walk reaches it, it has these; a large group has thousands of pods.
    _has_node = False
    search: Search | None = None
    outcome: Outcome | None = None
    failed: AttemptResult | None = None
    nomination: str = ""
    #: How it fails if its group waits for a preemption.
    waiting: Failure | None = None
    #: The plugins that rejected it, and those of them that it need not back off for.
    rejectors: frozenset[str] = NO_PLUGINS
    pending: frozenset[str] = NO_PLUGINS

    def __init__(self, begin: Callable[[], Attempt], scope: NDArray[np.int64] | None) -> None:
        self._begin = begin
        self._scope = scope

    @property
    def attempt(self) -> Attempt:
        """Its attempt, which begins when a walk first asks for it."""
        return self._begin()

    @property
    def node(self) -> str:
        """The node that it can be bound to, "" if it failed or was not reached."""
        return self.outcome.node if self.failed is None and isinstance(self.outcome, ScheduleResult) else ""

    @property
    def is_placed(self) -> bool:
        return bool(self.node)

    @property
    def binds_directly(self) -> bool:
        """Whether it has a node and only needs to be bound."""
        search = self.search
        return self.is_placed and search is not None and search.plan.binds_directly and not self.attempt.trace.is_timed

    @property
    def failure(self) -> Status | None:
        """Why it failed, None if it has a node or was not reached."""
        failure = None if self.failed is None else self.failed[1]
        return failure.status if isinstance(failure, Failure) else None

    @property
    def error(self) -> Status | None:
        """The error that it failed with, None if it has a node or was rejected."""
        return None if self.failure is None or self.failure.is_rejected else self.failure

    def pods(self) -> Iterator[WalkedPod]:
        yield self

    def placed(self) -> Iterator[WalkedPod]:
        if self.is_placed:
            yield self

    def schedule(self, find_node: FindNode, last: Search | None) -> Suspendable[Search | None]:
        """Find a node and take it; return the search, which the next pod may repeat."""
        attempt = self.attempt
        attempt.narrow(self._scope)
        attempt.trace.restart()  # without the phases of walks before
        attempt.trace.resume()
        try:
            self.search, self.outcome = yield from find_node(attempt, last)
            self.take_node()
        except PluginError as error:
            roll_back_leaked_statements(attempt.cluster, attempt.profile)
            self.failed = attempt.fail_in_plugin(error)
        return self.search

    def take_node(self) -> None:
        """Assume and reserve the node that was found, or fail."""
        attempt, outcome = self.attempt, self.outcome
        queued = attempt.queued
        queued.unschedulable_plugins = queued.pending_plugins = NO_PLUGINS
        if isinstance(outcome, FitError):
            self.failed = attempt.fail_unfit(outcome, Failure(_SUCCESS))
        elif isinstance(outcome, ScheduleError):
            self.failed = attempt.failed(outcome)
        elif self.search is not None and outcome is not None:
            self.nomination = attempt.cluster.nominator.nominated_node(attempt.pod.uid)
            self.failed = attempt.assume(outcome) or attempt.reserve(self.search.state, outcome)
            self._has_node = self.failed is None
            if self.failed is not None:
                self._restore_nomination()
        self.rejectors, self.pending = queued.unschedulable_plugins, queued.pending_plugins

    def undo(self) -> None:
        """Undo what `take_node` did."""
        if self._has_node and self.search is not None and isinstance(self.outcome, ScheduleResult):
            self._has_node = False
            self.attempt.trace.resume()
            self.attempt.give_back(self.search.state, self.outcome)
            self._restore_nomination()

    def _restore_nomination(self) -> None:
        if self.nomination:
            self.attempt.cluster.nominator.nominate(self.attempt.pod, self.nomination)

    def join(self, run: Run) -> None:
        """Let the pod, which only needs to be bound, be bound with the others of a run."""
        assert self.search is not None and isinstance(self.outcome, ScheduleResult)
        self.attempt.narrow(self._scope)
        self.attempt.trace.resume()
        self.attempt.trace.end_phase("permit")
        run.add(self.attempt, self.search.state, self.outcome)

    def conclude(self, status: Status) -> AttemptResult:
        """Return the result of the attempt: the pod's own failure, or what its group's status means for it."""
        self.attempt.narrow(self._scope)
        queued = self.attempt.queued
        queued.unschedulable_plugins, queued.pending_plugins = self.rejectors, self.pending
        outcome = self.outcome or _NOT_REACHED
        own = None if self.failed is None else self.failed[1]
        if (
            own is None
            and status.code == Code.SUCCESS
            and self.search is not None
            and isinstance(outcome, ScheduleResult)
        ):
            self.attempt.trace.resume()
            return self.attempt.permit(self.search.state, outcome)
        # If its group is scheduled, a pod that does not fit keeps the room that it preempted for.
        keeps_nomination = status.code == Code.SUCCESS and isinstance(outcome, FitError)
        failure = self.waiting or Failure(status, None if keeps_nomination else "")
        if isinstance(own, Failure) and (status.code != Code.ERROR or self.error is not None):
            status = own.status
        return self.attempt.fail(replace(failure, status=status), outcome)


class WalkedGroup:
    """A group below a CompositePodGroup in a walk over that."""

    def __init__(self, find_placement: Callable[[FindNode], Suspendable[Walk]], begin: Callable[[], Walk]) -> None:
        self._find_placement = find_placement
        self._begin = begin

    @cached_property
    def walk(self) -> Walk:
        """The walk over it in its best placement, or one that has not begun."""
        return self._begin()

    @property
    def is_placed(self) -> bool:
        return self.walk.status.code == Code.SUCCESS

    @property
    def error(self) -> Status | None:
        """The error that it failed with, None if it succeeded or was rejected."""
        return None if self.is_placed or self.walk.status.is_rejected else self.walk.status

    def pods(self) -> Iterator[WalkedPod]:
        return self.walk.pods()

    def placed(self) -> Iterator[WalkedPod]:
        return self.walk.placed()

    def schedule(self, find_node: FindNode, last: Search | None) -> Suspendable[Search | None]:
        self.walk = yield from self._find_placement(find_node)
        return None


class Walk:
    """A walk over the parts of a group within one placement: the pods of a PodGroup, or the groups below another.

    Attributes:
        status: the group's Status: Success, a rejection or an error.
        end_index: the start index of the next search after the walk, if several placements are tried.
    """

    def __init__(
        self,
        group: GenericPodGroup,
        profile: Profile,
        scheduled: int,
        parts: Sequence[WalkedPod | WalkedGroup],
        turn: Callable[[], Suspendable[None]],
    ) -> None:
        self.group: GenericPodGroup = group
        self._profile = profile
        self._scheduled = scheduled
        self._parts = parts
        self._turn = turn
        self.status: Status = _SUCCESS
        self.end_index: int = 0
        #: The number of pods that found a node, and the first failed attempt.
        self._placed = 0
        self._first_failure: Decision | None = None

    def pods(self) -> Iterator[WalkedPod]:
        """Yield all pods, also those that the walk does not reach."""
        for part in self._parts:
            yield from part.pods()

    def placed(self) -> Iterator[WalkedPod]:
        """Yield the pods with a node whose groups can all be scheduled."""
        if self.status.code == Code.SUCCESS:
            for part in self._parts:
                yield from part.placed()

    def walks(self) -> Iterator[Walk]:
        """Yield this walk and those over the groups below."""
        yield self
        for part in self._parts:
            if isinstance(part, WalkedGroup):
                yield from part.walk.walks()

    def trial(self, group: str, placement: str) -> PlacementTrial:
        """Return the record of this walk over a group within a placement."""
        failed = self._first_failure
        first, reason = ("", "") if failed is None else (failed.pod, failed.message)
        return PlacementTrial(group, placement, self.status.code, self.status.message, self._placed, first, reason)

    @property
    def placed_pods(self) -> tuple[PendingPod, ...]:
        """The pods with a node."""
        return tuple([pod.attempt.pod for pod in self.placed()])

    def run(self, find_node: FindNode) -> Suspendable[None]:
        """Find nodes, and take them unless the group is rejected."""
        self.status = yield from self._schedule_parts(find_node)
        if self.status.code != Code.SUCCESS:
            yield from self.undo()

    def undo(self) -> Suspendable[None]:
        """Give back the nodes that were taken, the last one first."""
        for pod in reversed([*self.pods()]):
            pod.undo()
            yield from self._turn()

    def repeat(self) -> Suspendable[Status | None]:
        """Take the nodes again that were found; return why the first pod failed, if one does."""
        pods = [*self.placed()]
        for pod in pods:
            pod.attempt.trace.resume()
            pod.take_node()
            yield from self._turn()
        return next((pod.failure for pod in pods if pod.failure is not None), None)

    def add_rejectors_to(self, walk: Walk) -> None:
        """Let the pods of another walk wait also for what the plugins that rejected them in this one wait for."""
        for pod, again in zip(walk.pods(), self.pods(), strict=True):
            pod.rejectors |= again.rejectors
            pod.pending |= again.pending

    def settle(self) -> None:
        """Let the groups that could be scheduled, or were not reached, fail as the group above them did."""
        for part in self._parts:
            if isinstance(part, WalkedGroup):
                if part.is_placed:
                    part.walk.status = self.status
                part.walk.settle()

    def keep_nominations(self) -> None:
        """Let all pods wait where they are nominated."""
        for pod in self.pods():
            pod.waiting = Failure(self.status, None)

    def preempt(self, found: PreemptForGroup) -> None:
        """Let the placed pods wait for the victims; the first of them evicts those."""
        alive = tuple(victim for victim in found.victims if not victim.terminating)
        placed = [pod for pod in self.pods() if pod.attempt.pod.uid in found.nominations]
        for pod in placed:
            pod.waiting = Failure(self.status, found.nominations[pod.attempt.pod.uid])
        if placed and found.victims:
            leader = placed[0].attempt
            args = leader.trace.attempt, self._profile.name, found.status.plugin, leader.pod
            eviction = Eviction(*args, _EVERYWHERE, alive, (), found.pdb_violations, self.group) if alive else None
            victims = tuple(victim.key for victim in found.victims)
            placed[0].waiting = Failure(self.status, found.nominations[leader.pod.uid], eviction, victims)
        elif placed:
            # There is nothing to wait for but the backoff.
            self.status = Status(self.status.code, self.status.reasons)
            for pod in self.pods():
                pod.rejectors = pod.pending = NO_PLUGINS

    def _schedule_parts(self, find_node: FindNode) -> Suspendable[Status]:
        """Place one part after another, until it is clear what becomes of the group."""
        placed, last = 0, None
        answer = self.ask_feasibility(placed, len(self._parts))
        for index, part in enumerate(self._parts):
            if answer is not None and answer.code != Code.WAIT:
                break
            last = yield from part.schedule(find_node, last)
            self._count(part)
            if part.error is not None:
                what = _BROKEN_POD if isinstance(part, WalkedPod) else _BROKEN_CHILD
                return Status(Code.ERROR, (f"{what}: {part.error.message}",))
            placed += part.is_placed
            yield from self._turn()
            answer = self.ask_feasibility(placed, len(self._parts) - index - 1)
        return group_status(answer)

    def _count(self, part: WalkedPod | WalkedGroup) -> None:
        for pod in part.pods():
            self._placed += pod.is_placed
            if pod.failed is not None and self._first_failure is None:
                self._first_failure = pod.failed[0]

    def ask_feasibility(self, placed: int, remaining: int) -> Status | None:
        """Ask whether the group can be scheduled with these numbers of placed parts and of those not tried yet."""
        progress = GroupProgress(self._scheduled + placed, remaining)
        return run_placement_feasible(self._profile.placement_feasible, self.group, progress)


def group_status(answer: Status | None) -> Status:
    """Return the Status of a group by the last answer of PlacementFeasible."""
    if answer is None:
        return _SUCCESS
    if not answer.is_rejected and answer.code != Code.WAIT:
        text = f"failed to evaluate placement feasibility: {answer.message}"
        return Status(answer.code, (text,), answer.plugin)
    return Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE, *answer.reasons), answer.plugin)


class FoundNode(PlacedPod):
    """What a search found for a pod, with its cycle state as it was then, for what-ifs about the pods around it."""

    def __init__(self, search: Search, node: NodeInfo) -> None:
        self._search = search
        self._filters = tuple(search.filters)
        self._extended = tuple(step for step in self._filters if step.add_pod or step.remove_pod)
        self._state = search.state.clone() if self._extended else search.state
        self._node = node

    @property
    def pod(self) -> PendingPod:
        return self._search.pod

    @property
    def node(self) -> NodeInfo:
        return self._node

    @property
    def depends_on_other_nodes(self) -> bool:
        return bool(self._extended)

    def add_pod(self, other: PodInfo, node: NodeInfo) -> Status | None:
        return run_add_pod(self._extended, self._state, self.pod, other, node)

    def remove_pod(self, other: PodInfo, node: NodeInfo) -> Status | None:
        return run_remove_pod(self._extended, self._state, self.pod, other, node)

    def rejection(self) -> Status | None:
        return filter_with_nominated_pods(self._search, self._filters, self._state, self._node)

    def reserve(self) -> None:
        run_reserve(self._search.profile, self._state, self.pod, self._node.name)

    def unreserve(self) -> None:
        run_unreserve(self._search.profile, self._state, self.pod, self._node.name)
