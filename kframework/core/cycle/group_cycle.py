"""The scheduling cycle of a PodGroup: a node for each member in one walk, and then all are bound, or none is.

The walk assumes and reserves each member before it looks at the next one, so later members see the earlier ones. If the
group is rejected, this is undone, the last member first. PostFilter does not run for members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from random import Random

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.core.cycle.attempt import Attempt, AttemptResult, roll_back_leaked_statements
from kframework.core.cycle.group_trace import GroupTrace
from kframework.core.cycle.records import PlacementTrial
from kframework.core.cycle.rejections import filter_with_nominated_pods
from kframework.core.cycle.results import Eviction, Failure, FitError, Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import TURN, Suspendable, run_sync
from kframework.core.runtime.placement_steps import PlacementSteps
from kframework.core.runtime.points import (
    run_add_pod,
    run_placement_feasible,
    run_pod_group_post_filter,
    run_remove_pod,
    run_reserve,
    run_unreserve,
)
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import PluginError
from kframework.framework.answers import GroupPlacement, GroupProgress, PlacedGroup, PreemptForGroup
from kframework.framework.handle import PlacedPod
from kframework.objects import PodGroup
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import NO_PLUGINS, PendingPod, PodInfo, QueuedPod
from kframework.values.feature_gates import FeatureGates
from kframework.values.status import Code, Status

_SUCCESS = Status(Code.SUCCESS)
_UNSCHEDULABLE = "pod group is unschedulable"
#: The number of pods after which the other tasks of the loop run; these take some 2 ms.
PODS_PER_TURN = 32

#: The preemption policy by default.
_PREEMPTS = "PreemptLowerPriority"

#: The domain of a group's preemption, named in place of a node.
_EVERYWHERE = "cluster"

_NOT_REACHED = ScheduleError(Status(Code.UNSCHEDULABLE, (_UNSCHEDULABLE,)))

#: Searches for the node of an attempt's pod, given the search for the pod before.
FindNode = Callable[[Attempt, Search | None], Suspendable[tuple[Search, Outcome]]]


class WalkedPod:
    """A pod of the group in a walk.

    Attributes:
        search: the search for its node, and what that found; None until the walk reaches it.
        failed: the result of its attempt, if that failed whatever becomes of the group.
        nomination: the node that it was nominated to before it was assumed.
    """

    def __init__(self, begin: Callable[[], Attempt]) -> None:
        self._begin = begin
        self.search: Search | None = None
        self.outcome: Outcome | None = None
        self.failed: AttemptResult | None = None
        self.nomination: str = ""
        #: How it fails if its group waits for a preemption.
        self.waiting: Failure | None = None
        #: The plugins that rejected it, and those of them that it need not back off for.
        self.rejectors: frozenset[str] = NO_PLUGINS
        self.pending: frozenset[str] = NO_PLUGINS

    @property
    def attempt(self) -> Attempt:
        """Its attempt, which begins when a walk first asks for it."""
        return self._begin()

    @property
    def error(self) -> Status | None:
        """The error that it failed with, None if it has a node or was rejected."""
        failure = None if self.failed is None else self.failed[1]
        return failure.status if isinstance(failure, Failure) and not failure.status.is_rejected else None

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
            if self.failed is not None:
                self._restore_nomination()
        self.rejectors, self.pending = queued.unschedulable_plugins, queued.pending_plugins

    def give_back(self) -> None:
        """Undo what `take_node` did."""
        if self.failed is None and self.search is not None and isinstance(self.outcome, ScheduleResult):
            self.attempt.trace.resume()
            self.attempt.give_back(self.search.state, self.outcome)
            self._restore_nomination()

    def _restore_nomination(self) -> None:
        if self.nomination:
            self.attempt.cluster.nominator.nominate(self.attempt.pod, self.nomination)

    def conclude(self, status: Status, scope: NDArray[np.int64] | None) -> AttemptResult:
        """Return the result of the attempt: the pod's own failure, or what its group's status means for it."""
        self.attempt.narrow(scope)
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


class Walk:
    """A walk over the pods of a PodGroup, all within one placement.

    Attributes:
        status: the group's Status: Success, a rejection or an error.
        pods: the pods in order, also those that the walk does not reach.
    """

    def __init__(
        self,
        group: PodGroup,
        profile: Profile,
        scheduled: int,
        attempts: Sequence[Callable[[], Attempt]],
        scope: NDArray[np.int64] | None,
    ) -> None:
        self._group = group
        self._profile = profile
        self._scheduled = scheduled
        self._scope = scope
        self.status: Status = _SUCCESS
        self.pods: list[WalkedPod] = [WalkedPod(begin) for begin in attempts]
        self._placed = 0

    def run(self, find_node: FindNode) -> Suspendable[None]:
        """Find nodes, and take them unless the group is rejected."""
        self.status = yield from self._find_nodes(find_node)
        if self.status.code != Code.SUCCESS:
            self.undo()

    def undo(self) -> None:
        """Give back the nodes that were taken, the last one first."""
        for pod in reversed(self.pods):
            pod.give_back()

    def add_rejectors(self, other: Walk) -> None:
        """Let the pods wait also for what the plugins that rejected them in another walk wait for."""
        for pod, again in zip(self.pods, other.pods, strict=True):
            pod.rejectors |= again.rejectors
            pod.pending |= again.pending

    def repeat(self) -> None:
        """Take the nodes again that were found."""
        for pod in self.pods:
            if pod.failed is None and pod.outcome is not None:
                pod.attempt.trace.resume()
                pod.take_node()

    def trial(self, placement: str) -> PlacementTrial:
        """Return the record of this walk within a placement."""
        failed = next((pod.failed[0] for pod in self.pods if pod.failed is not None), None)
        first, reason = ("", "") if failed is None else (failed.pod, failed.message)
        return PlacementTrial(placement, self.status.code, self.status.message, self._placed, first, reason)

    def nodes(self) -> tuple[tuple[PendingPod, str], ...]:
        """List the pods with a node."""
        found = [(pod.attempt.pod, pod.outcome) for pod in self.pods if pod.failed is None]
        return tuple([(pod, outcome.node) for pod, outcome in found if isinstance(outcome, ScheduleResult)])

    def keep_nominations(self) -> None:
        """Let all pods wait where they are nominated."""
        for pod in self.pods:
            pod.waiting = Failure(self.status, None)

    def preempt(self, found: PreemptForGroup) -> None:
        """Let the placed pods wait for the victims; the first of them evicts those."""
        alive = tuple(victim for victim in found.victims if not victim.terminating)
        placed = [pod for pod in self.pods if pod.attempt.pod.uid in found.nominations]
        for pod in placed:
            pod.waiting = Failure(self.status, found.nominations[pod.attempt.pod.uid])
        if placed and found.victims:
            leader = placed[0].attempt
            args = leader.trace.attempt, self._profile.name, found.status.plugin, leader.pod
            eviction = Eviction(*args, _EVERYWHERE, alive, (), found.pdb_violations, self._group) if alive else None
            victims = tuple(victim.key for victim in found.victims)
            placed[0].waiting = Failure(self.status, found.nominations[leader.pod.uid], eviction, victims)
        elif placed:
            # There is nothing to wait for but the backoff.
            self.status = Status(self.status.code, self.status.reasons)
            for pod in self.pods:
                pod.rejectors = pod.pending = NO_PLUGINS

    def conclude(self, pod: WalkedPod) -> AttemptResult:
        """Conclude a pod's attempt, which the walk decides."""
        return pod.conclude(self.status, self._scope)

    def _find_nodes(self, find_node: FindNode) -> Suspendable[Status]:
        """Find a node for one pod after another, until it is clear what becomes of the group."""
        search = None
        answer = self._ask_feasibility(len(self.pods))
        for index, pod in enumerate(self.pods):
            if answer is not None and answer.code != Code.WAIT:
                break
            attempt = pod.attempt
            attempt.narrow(self._scope)
            attempt.trace.restart()  # without the phases of walks before
            attempt.trace.resume()
            try:
                search, pod.outcome = yield from find_node(attempt, search)
                pod.search = search
                pod.take_node()
            except PluginError as error:
                roll_back_leaked_statements(attempt.cluster, self._profile)
                pod.failed = attempt.fail_in_plugin(error)
            if pod.error is not None:
                text = f"failed to schedule other pod from a pod group: {pod.error.message}"
                return Status(Code.ERROR, (text,))
            self._placed += pod.failed is None
            yield from _turn_after(index)
            answer = self._ask_feasibility(len(self.pods) - index - 1)
        if answer is None and self._placed:
            return _SUCCESS
        if answer is not None and not answer.is_rejected and answer.code != Code.WAIT:
            return answer
        reasons, plugin = ((), "") if answer is None else (answer.reasons, answer.plugin)
        return Status(Code.UNSCHEDULABLE, (_UNSCHEDULABLE, *reasons), plugin)

    def _ask_feasibility(self, remaining: int) -> Status | None:
        progress = GroupProgress(self._scheduled + self._placed, remaining)
        return run_placement_feasible(self._profile.placement_feasible, self._group, progress)


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
        nodes: NodeTable,
        random: Random,
        search: Callable[[Attempt], Search],
        trace: GroupTrace,
    ) -> None:
        self.status: Status = _SUCCESS
        self._trace = trace
        self._group = group
        self._profile = profile
        self._scheduled = scheduled
        self._attempts = [cache(partial(begin, queued)) for queued in pods]
        self._nodes = nodes
        self._random = random
        self._search = search

    def run(self, find_node: FindNode) -> Suspendable[list[AttemptResult]]:
        """Place the group; return the results of its pods' attempts, in order."""
        walk = yield from self.find_placement(find_node, self._trace)
        if walk.status.code == Code.UNSCHEDULABLE and self._profile.pod_group_post_filter:
            self._trace.end_phase("pod_group_post_filter", self._run_post_filter(walk))
        self.status, results = walk.status, []
        for index, pod in enumerate(walk.pods):
            results.append(walk.conclude(pod))
            yield from _turn_after(index)
        return results

    def fail(self, message: str) -> list[AttemptResult]:
        """Fail all members before the walk."""
        self.status = Status(Code.ERROR, (message,))
        walk = self._failed(self.status)
        return [walk.conclude(pod) for pod in walk.pods]

    def find_placement(self, find_node: FindNode, trace: GroupTrace) -> Suspendable[Walk]:
        """Walk over the pods within each placement; return the best walk that succeeded, else the first one.

        The pods of a walk that succeeded have their nodes.
        """
        steps = self._profile.placements
        if steps is None:
            walk = self._walk(None)
            yield from walk.run(find_node)
            trace.add_trial(walk.trial(""))
            return walk
        placements = steps.generate(self._group, self._nodes)
        if isinstance(placements, Status):
            trace.end_phase("placement_generate", placements)
            return self._failed(placements)
        trace.end_phase("placement_generate")
        first, fitting = None, []
        for placement in placements:
            walk = self._walk(placement)
            yield from walk.run(find_node)
            trace.add_trial(walk.trial(placement.name))
            if walk.status.code == Code.SUCCESS:
                walk.undo()
                fitting.append((walk, placement))
            elif not walk.status.is_rejected:
                return walk
            if first is None:
                first = walk
            first.add_rejectors(walk)
        if fitting:
            return self._choose(steps, fitting, trace)
        assert first is not None
        text = f"0/{len(placements)} placements are available, first placement status: {first.status.message}"
        first.status = Status(Code.UNSCHEDULABLE, (text,), first.status.plugin)
        return first

    # -- PodGroupPostFilter ------------------------------------------------------------------------------------------

    def _run_post_filter(self, walk: Walk) -> Status:
        """Look for a way out of the walk that failed: pods may wait on the nodes that a preemption frees."""
        pods = [pod.attempt.pod for pod in walk.pods]
        answer = run_pod_group_post_filter(self._profile, self._group, pods, self._find_nodes_again)
        roll_back_leaked_statements(walk.pods[0].attempt.cluster, self._profile)
        status = answer.status if isinstance(answer, PreemptForGroup) else answer
        if isinstance(answer, PreemptForGroup):
            walk.preempt(answer)
        elif status.code == Code.SUCCESS:
            walk.keep_nominations()
        elif not status.is_rejected:
            walk.status = status
            return status
        self._trace.preempts = status.code == Code.SUCCESS
        before = walk.status
        walk.status = Status(before.code, (*before.reasons, *status.reasons), before.plugin)
        return status

    def _find_nodes_again(self) -> Sequence[FoundNode] | Status:
        """Look for nodes on the tables as they are now, and give the nodes back; extenders are not asked."""
        found: dict[Search | None, FoundNode] = {}

        def find_node(attempt: Attempt, last: Search | None) -> Suspendable[tuple[Search, Outcome]]:
            search = self._search(attempt)
            search.extenders = None
            outcome = yield from search.steps()
            node = self._nodes.find(outcome.node) if isinstance(outcome, ScheduleResult) else None
            if node is not None:
                found[search] = FoundNode(search, node)
            return search, outcome

        attempts = [begin() for begin in self._attempts]
        traces = [attempt.trace for attempt in attempts]
        for attempt in attempts:
            attempt.trace = AttemptTrace(attempt.pod, attempt.trace.attempt)
        walk = run_sync(self.find_placement(find_node, GroupTrace()))
        if walk.status.code == Code.SUCCESS:
            walk.undo()
        for attempt, trace in zip(attempts, traces, strict=True):
            attempt.trace = trace
        if walk.status.code != Code.SUCCESS:
            return walk.status
        return [found[pod.search] for pod in walk.pods if pod.failed is None and pod.search in found]

    # -- placements --------------------------------------------------------------------------------------------------

    def _choose(self, steps: PlacementSteps, fitting: Sequence[tuple[Walk, GroupPlacement]], trace: GroupTrace) -> Walk:
        """Take the nodes again of the walk in the best placement, drawn among equal ones."""
        best = [walk for walk, _ in fitting]
        if len(best) > 1:
            placed = [PlacedGroup(placement, walk.nodes()) for walk, placement in fitting]
            scores = steps.scores(self._group, placed, self._nodes)
            trace.end_phase("placement_score", scores if isinstance(scores, Status) else None)
            if isinstance(scores, Status):
                return self._failed(scores)
            best = [walk for walk, score in zip(best, scores, strict=True) if score == max(scores)]
        walk = best[self._random.randrange(len(best)) if len(best) > 1 else 0]
        trace.placement = next(placement.name for each, placement in fitting if each is walk)
        walk.repeat()
        return walk

    def _walk(self, placement: GroupPlacement | None) -> Walk:
        scope = None
        if placement is not None and len(placement.rows) < len(self._nodes):
            scope = np.sort(self._nodes.positions[placement.rows])
        return Walk(self._group, self._profile, self._scheduled, self._attempts, scope)

    def _failed(self, status: Status) -> Walk:
        """Return a walk that has not begun, with this Status."""
        walk = self._walk(None)
        walk.status = status
        return walk


def _turn_after(index: int) -> Suspendable[None]:
    """Let other tasks run after every few pods."""
    if index % PODS_PER_TURN == PODS_PER_TURN - 1:
        yield TURN


def mixed_members(group: PodGroup, pods: Sequence[PodInfo], gates: FeatureGates) -> str:
    """Return why these pods, waiting or scheduled, cannot be scheduled as one group; "" if they can."""
    same, priority = "all pods in a single pod group should have the same", group.spec.priority or 0
    name, policy, whose = _scheduler_of(pods[0]), pods[0].spec.preemption_policy, ""
    if gates.is_enabled("PodGroupPreemptionPolicy"):
        policy, whose = group.spec.preemption_policy, " as the pod group's preemption policy"
    policy = policy or _PREEMPTS
    for pod in pods:
        if _scheduler_of(pod) != name:
            return f'{same} .spec.schedulerName set, got: "{_scheduler_of(pod)}" and "{name}"'
        if pod.priority != priority:
            return f"{same} priority as the pod group's priority, got {pod.priority} and {priority}"
        if (pod.spec.preemption_policy or _PREEMPTS) != policy:
            return f"{same} preemption policy{whose}, got {pod.spec.preemption_policy or _PREEMPTS} and {policy}"
    return ""


def _scheduler_of(pod: PodInfo) -> str:
    return pod.spec.scheduler_name or "default-scheduler"
