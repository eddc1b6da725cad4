"""The scheduling cycle of a tree of groups: a node for each pod in one walk, then those of a group are bound, or none.

A group is placed within the nodes of the group above it: in the best one of its placements, if plugins list several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.attempt import Attempt, AttemptResult, roll_back_leaked_statements
from kframework.core.cycle.group_trace import GroupTrace
from kframework.core.cycle.group_walk import UNSCHEDULABLE, FindNode, FoundNode, Walk, WalkedGroup, WalkedPod
from kframework.core.cycle.results import FitError, Outcome, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import TURN, Suspendable, run_sync
from kframework.core.runtime.placement_steps import PlacementSteps
from kframework.core.runtime.points import run_pod_group_post_filter
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.timing import AttemptTrace
from kframework.framework.answers import GroupPlacement, PlacedGroup, PreemptForGroup, RejectedPod
from kframework.framework.cycle_state import CycleState
from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup
from kframework.state.nodes import NodeTable
from kframework.state.pod_groups import PodGroups
from kframework.state.pods import PodInfo, QueuedPod
from kframework.values.feature_gates import FeatureGates
from kframework.values.status import Code, Status

_SUCCESS = Status(Code.SUCCESS)
#: The number of pods after which the other tasks of the loop run; these take some 2 ms.
PODS_PER_TURN = 32

#: The preemption policy by default.
_PREEMPTS = "PreemptLowerPriority"

#: The rows of the nodes that a group may use, None for all.
Rows = NDArray[np.int64] | None


class GroupOutcome(NamedTuple):
    """What becomes of a PodGroup in the cycle of its root, and of its pods that wait."""

    group: PodGroup
    status: Status
    results: list[tuple[QueuedPod, AttemptResult]]


class GroupCycle:
    """One cycle of the root of a tree of groups, with those of its pods that wait.

    Attributes:
        status: the root's Status: Success, a rejection or an error.
    """

    def __init__(
        self,
        root: GenericPodGroup,
        groups: PodGroups,
        profile: Profile,
        pods: Sequence[QueuedPod],
        begin: Callable[[QueuedPod], Attempt],
        nodes: NodeTable,
        random: Random,
        search: Callable[[Attempt], Search],
        trace: GroupTrace,
    ) -> None:
        self.status: Status = _SUCCESS
        self._trace = trace
        self._root = root
        self._groups = groups
        self._profile = profile
        #: Functions that begin the attempts of the pods or return them, by PodGroup.
        self._attempts: dict[str, list[Callable[[], Attempt]]] = {}
        for queued in pods:
            self._attempts.setdefault(queued.pod.group, []).append(cache(partial(self._begin, begin, queued)))
        #: What the attempts share.
        self._state = CycleState()
        self._nodes = nodes
        self._random = random
        self._search = search
        self._steps = 0

    def run(self, find_node: FindNode) -> Suspendable[list[GroupOutcome]]:
        """Place the tree; return what becomes of its PodGroups."""
        walk = yield from self._schedule_root(find_node)
        if walk.status.code == Code.UNSCHEDULABLE and self._profile.pod_group_post_filter:
            self._trace.end_phase("pod_group_post_filter", self._run_post_filter(walk))
        return (yield from self._conclude(walk))

    def _begin(self, begin: Callable[[QueuedPod], Attempt], queued: QueuedPod) -> Attempt:
        attempt = begin(queued)
        attempt.group_state = self._state
        return attempt

    def fail(self, message: str) -> Suspendable[list[GroupOutcome]]:
        """Fail all members before the walk."""
        walk = self._failed(self._root, None, Status(Code.ERROR, (message,)))
        walk.settle()
        return (yield from self._conclude(walk))

    def _conclude(self, root: Walk) -> Suspendable[list[GroupOutcome]]:
        self.status, outcomes, self._steps = root.status, list[GroupOutcome](), 0
        for walk in root.walks():
            if isinstance(walk.group, PodGroup):
                outcomes.append(GroupOutcome(walk.group, walk.status, []))
                for pod in walk.pods():
                    outcomes[-1].results.append((pod.attempt.queued, pod.conclude(walk.status)))
                    yield from self._turn()
        return outcomes

    def _turn(self) -> Suspendable[None]:
        """Let other tasks run after every few pods."""
        self._steps += 1
        if self._steps % PODS_PER_TURN == 0:
            yield TURN

    def _schedule_root(self, find_node: FindNode) -> Suspendable[Walk]:
        walk = yield from self._schedule(self._root, None, find_node)
        if walk.status.code == Code.SUCCESS and not any(walk.placed()):
            walk.status = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE,))
        walk.settle()
        return walk

    # -- PodGroupPostFilter ------------------------------------------------------------------------------------------

    def _run_post_filter(self, walk: Walk) -> Status:
        """Look for a way out of the walk that failed: pods may wait on the nodes that a preemption frees."""
        attempts = [pod.attempt for pod in walk.pods()]
        pods = [attempt.pod for attempt in attempts]
        rejected = [
            RejectedPod(pod.attempt.pod, pod.search.state, pod.outcome.diagnosis)
            for pod in walk.pods()
            if pod.search is not None and isinstance(pod.outcome, FitError)
        ]
        answer = run_pod_group_post_filter(self._profile, self._root, pods, rejected, self._find_nodes_again)
        roll_back_leaked_statements(attempts[0].cluster, self._profile)
        status = answer.status if isinstance(answer, PreemptForGroup) else answer
        if isinstance(answer, PreemptForGroup):
            walk.preempt(answer)
        elif status.code == Code.SUCCESS:
            walk.keep_nominations()
        elif not status.is_rejected:
            for each in walk.walks():
                each.status = status
            return status
        self._trace.preempts = status.code == Code.SUCCESS
        for each in walk.walks():
            before = each.status
            each.status = Status(before.code, (*before.reasons, *status.reasons), before.plugin)
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

        attempts = [begin() for pods in self._attempts.values() for begin in pods]
        traces, trace = [attempt.trace for attempt in attempts], self._trace
        self._trace = GroupTrace()
        for attempt in attempts:
            attempt.trace = AttemptTrace(attempt.pod, attempt.trace.attempt)
        walk = run_sync(self._schedule_root(find_node))
        if walk.status.code == Code.SUCCESS:
            walk.undo()
        self._trace = trace
        for attempt, own in zip(attempts, traces, strict=True):
            attempt.trace = own
        if walk.status.code != Code.SUCCESS:
            return walk.status
        return [found[pod.search] for pod in walk.placed() if pod.search in found]

    # -- placements --------------------------------------------------------------------------------------------------

    def _schedule(self, group: GenericPodGroup, available: Rows, find_node: FindNode) -> Suspendable[Walk]:
        """Walk over a group within each placement; return the best walk that succeeded, else the first one.

        The pods of a walk that succeeded have their nodes.
        """
        steps, name = self._profile.placements, "" if group is self._root else group.metadata.name
        if steps is None:
            walk = self._walk(group, available)
            yield from walk.run(find_node)
            self._trace.add_trial(walk.trial(name, ""))
            return walk
        placements = steps.generate(group, self._nodes, available)
        if isinstance(placements, Status):
            self._trace.end_phase("placement_generate", placements)
            return self._failed(group, available, placements)
        self._trace.end_phase("placement_generate")
        first, fitting = None, []
        for placement in placements:
            walk = self._walk(group, placement.rows)
            yield from walk.run(find_node)
            self._trace.add_trial(walk.trial(name, placement.name))
            if walk.status.code == Code.SUCCESS:
                walk.undo()
                fitting.append((walk, placement))
            elif not walk.status.is_rejected:
                return walk
            if first is None:
                first = walk
            first.add_rejectors(walk)
        if fitting:
            return self._choose(group, available, steps, fitting)
        assert first is not None
        text = f"0/{len(placements)} placements are available, first placement status: {first.status.message}"
        first.status = Status(Code.UNSCHEDULABLE, (text,), first.status.plugin)
        return first

    def _choose(
        self,
        group: GenericPodGroup,
        available: Rows,
        steps: PlacementSteps,
        fitting: Sequence[tuple[Walk, GroupPlacement]],
    ) -> Walk:
        """Take the nodes again of the walk in the best placement, drawn among equal ones."""
        best = [walk for walk, _ in fitting]
        if len(best) > 1:
            placed = [PlacedGroup(placement, walk.nodes()) for walk, placement in fitting]
            scores = steps.scores(group, placed, self._nodes)
            self._trace.end_phase("placement_score", scores if isinstance(scores, Status) else None)
            if isinstance(scores, Status):
                return self._failed(group, available, scores)
            best = [walk for walk, score in zip(best, scores, strict=True) if score == max(scores)]
        walk = best[self._random.randrange(len(best)) if len(best) > 1 else 0]
        if group is self._root:
            self._trace.placement = next(placement.name for each, placement in fitting if each is walk)
        problem = walk.repeat()
        if problem is not None and isinstance(self._root, CompositePodGroup):
            walk.status = Status(Code.ERROR, (f"failed to assume the subtree: {problem.message}",))
            walk.undo()
        return walk

    def _walk(self, group: GenericPodGroup, rows: Rows) -> Walk:
        """Return a walk over a group within these nodes that has not begun."""
        if isinstance(group, CompositePodGroup):
            below = self._groups.trees.children(group)
            parts = [
                WalkedGroup(partial(self._schedule, each, rows), partial(self._walk, each, rows)) for each in below
            ]
            return Walk(group, self._profile, 0, parts, self._turn)
        scope = None
        if rows is not None and len(rows) < len(self._nodes):
            scope = np.sort(self._nodes.positions[rows])
        pods = [WalkedPod(begin, scope) for begin in self._attempts.get(group.metadata.name, ())]
        running = self._groups.members(group.metadata.namespace, group.metadata.name).running
        return Walk(group, self._profile, running, pods, self._turn)

    def _failed(self, group: GenericPodGroup, rows: Rows, status: Status) -> Walk:
        """Return a walk that has not begun, with this Status."""
        walk = self._walk(group, rows)
        walk.status = status
        return walk


def mixed_members(root: GenericPodGroup, pods: Sequence[PodInfo], gates: FeatureGates) -> str:
    """Return why these pods, waiting or scheduled, cannot be scheduled as one tree; "" if they can."""
    same, priority = "all pods in a single pod group should have the same", root.spec.priority or 0
    name, policy, whose = _scheduler_of(pods[0]), pods[0].spec.preemption_policy, ""
    if gates.is_enabled("PodGroupPreemptionPolicy"):
        policy, whose = root.spec.preemption_policy, " as the pod group's preemption policy"
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
