"""The scheduling cycle of a tree of groups: a node for each pod in one walk, then those of a group are bound, or none.

A group is placed within the nodes of the group above it: in the best one of its placements, if plugins list several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.attempt import Attempt, AttemptResult, roll_back_leaked_statements
from kframework.core.cycle.results import FitError, Outcome, ScheduleResult
from kframework.core.cycle.rotation import Rotation, WalkStart
from kframework.core.cycle.run import Run
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import TURN, run_sync
from kframework.core.groups.placement_room import CountedWalk, GroupVerdict, judge, measure_room
from kframework.core.groups.trace import GroupTrace
from kframework.core.groups.walk import UNSCHEDULABLE, FindNode, FoundNode, Walk, WalkedGroup, WalkedPod
from kframework.core.runtime.placement_steps import PlacementSteps
from kframework.core.runtime.points import run_pod_group_post_filter
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.timing import AttemptTrace
from kframework.framework.answers import GroupPlacement, PlacedGroup, PreemptForGroup, RejectedPod
from kframework.framework.cycle_state import CycleState
from kframework.framework.suspendable import Suspendable
from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import Code, Status

_SUCCESS = Status(Code.SUCCESS)
#: The number of pods after which the other tasks of the loop run; these take about 1 ms.
PODS_PER_TURN = 16
#: The same where little is done for each; these take about 1 ms.
_PREPARED_PER_TURN = 2_000

#: The preemption policy of pods and groups that name none.
_DEFAULT_POLICY = "PreemptLowerPriority"

#: The rows of the nodes that a group may use, None for all.
AvailableRows = NDArray[np.int64] | None


class GroupOutcome(NamedTuple):
    """What becomes of a PodGroup in the cycle of its root, and of its pods that wait."""

    group: PodGroup
    status: Status
    results: list[tuple[QueuedPod, AttemptResult]]


class PodSearches(NamedTuple):
    """How pods are tried on nodes.

    Attributes:
        begin: begins the attempt of a pod.
        sign: returns the signature of the pod of an attempt.
        search: begins the search of an attempt.
        random: draws among equal nodes.
        rotation: where a search begins.
    """

    begin: Callable[[QueuedPod], Attempt]
    sign: Callable[[Attempt], Signature]
    search: Callable[[Attempt], Search]
    random: Random
    rotation: Rotation


class _AttemptOf:
    """Begins the attempt of a pod when it is first called, and returns it; half the time of a cached function."""

    __slots__ = ("_attempt", "_begin", "_queued")

    def __init__(self, queued: QueuedPod, begin: Callable[[QueuedPod], Attempt]) -> None:
        self._queued = queued
        self._begin = begin
        self._attempt: Attempt | None = None

    def __call__(self) -> Attempt:
        if self._attempt is None:
            self._attempt = self._begin(self._queued)
        return self._attempt


class GroupCycle:
    """One cycle of the root of a tree of groups, with those of its pods that wait.

    Attributes:
        status: the root's Status: Success, a rejection or an error.
        runs: the pods that only need to be bound, instead of outcomes for them; None to have these in any case.
    """

    def __init__(
        self,
        cluster: ClusterState,
        profile: Profile,
        root: GenericPodGroup,
        pods: Sequence[QueuedPod],
        searches: PodSearches,
        trace: GroupTrace,
        preferred: str = "",
    ) -> None:
        self.status: Status = _SUCCESS
        self.runs: list[Run] | None = None
        self._trace = trace
        #: The placement to choose among equal ones.
        self._preferred = preferred
        self._root = root
        self._cluster = cluster
        self._profile = profile
        self._searches = searches
        self._pods = pods
        #: Functions that begin the attempts of the pods or return them, by PodGroup.
        self._attempts: dict[str, list[Callable[[], Attempt]]] = {}
        #: What the attempts share.
        self._state = CycleState()
        self._steps = 0
        self._is_large = len(pods) > PODS_PER_TURN
        #: The plugins that rejected groups of the tree, in any placement.
        self._rejectors: set[str] = set()

    def run(self, find_node: FindNode) -> Suspendable[list[GroupOutcome]]:
        """Place the tree; return what becomes of its PodGroups."""
        for number, queued in enumerate(self._pods):
            self._attempts.setdefault(queued.pod.group, []).append(_AttemptOf(queued, self._begin))
            if number % _PREPARED_PER_TURN == PODS_PER_TURN:
                yield TURN
        problem = self._find_mixed_members()
        if problem:
            return (yield from self._fail(problem))
        yield from self._turn_if_large()
        walk = yield from self._schedule_root(partial(self._find_node, find_node) if self._is_large else find_node)
        yield from self._turn_if_large()
        if walk.status.code == Code.UNSCHEDULABLE and self._profile.pod_group_post_filter:
            status = yield from self._run_post_filter(walk)
            self._trace.end_phase("pod_group_post_filter", status)
        outcomes = yield from self._conclude(walk)
        yield from self._turn_if_large()
        del walk  # to free thousands of pods takes a turn of its own
        yield from self._turn_if_large()
        return outcomes

    def _find_node(
        self, find_node: FindNode, attempt: Attempt, last: Search | None
    ) -> Suspendable[tuple[Search, Outcome]]:
        """Find a node for a pod of a large group; a search takes as long as many that repeat it."""
        if last is None:
            self._searches.search(attempt)  # plans it, which takes as long again
            yield TURN
        search, outcome = yield from find_node(attempt, last)
        if search is not last:
            yield TURN
        return search, outcome

    def _begin(self, queued: QueuedPod) -> Attempt:
        attempt = self._searches.begin(queued)
        attempt.group_state = self._state
        return attempt

    def _find_mixed_members(self) -> str:
        """Return why the pods, waiting or scheduled, cannot be scheduled as one tree; "" if they can."""
        root, cluster, gates = self._root, self._cluster, self._cluster.feature_gates
        waiting = [queued.pod for queued in self._pods]
        same, priority = "all pods in a single pod group should have the same", root.spec.priority or 0
        name, policy, whose = waiting[0].spec.profile_name, waiting[0].spec.preemption_policy, ""
        if gates.is_enabled("PodGroupPreemptionPolicy"):
            policy, whose = root.spec.preemption_policy, " as the pod group's preemption policy"
        policy = policy or _DEFAULT_POLICY
        for pod in (*waiting, *(cluster.pods[uid] for uid in cluster.groups.scheduled(root))):
            spec = pod.spec
            if spec.profile_name != name:
                return f'{same} .spec.schedulerName set, got: "{spec.profile_name}" and "{name}"'
            if pod.priority != priority:
                return f"{same} priority as the pod group's priority, got {pod.priority} and {priority}"
            if (spec.preemption_policy or _DEFAULT_POLICY) != policy:
                return f"{same} preemption policy{whose}, got {spec.preemption_policy or _DEFAULT_POLICY} and {policy}"
        return ""

    def _fail(self, message: str) -> Suspendable[list[GroupOutcome]]:
        """Fail all members before the walk."""
        walk = self._failed(self._root, None, Status(Code.ERROR, (message,)))
        walk.settle()
        return (yield from self._conclude(walk))

    def _conclude(self, root: Walk) -> Suspendable[list[GroupOutcome]]:
        self.status, self._steps = root.status, 0
        leaves = [(walk.group, walk) for walk in root.walks() if isinstance(walk.group, PodGroup)]
        outcomes = [GroupOutcome(group, walk.status, []) for group, walk in leaves]
        if self.runs is not None and (yield from self._binds_directly(root)):
            yield from self._join_runs(root.pods(), self.runs)
            return outcomes
        for outcome, (_, walk) in zip(outcomes, leaves, strict=True):
            for pod in walk.pods():
                outcome.results.append((pod.attempt.queued, pod.conclude(walk.status)))
                yield from self._turn()
        return outcomes

    def _binds_directly(self, root: Walk) -> Suspendable[bool]:
        """Return whether all pods have nodes and only need to be bound."""
        if any(walk.status.code != Code.SUCCESS for walk in root.walks()):
            return False
        for pod in root.pods():
            if not pod.binds_directly:
                return False
            yield from self._turn()
        return True

    def _join_runs(self, pods: Iterable[WalkedPod], runs: list[Run]) -> Suspendable[None]:
        for number, pod in enumerate(pods):
            if number % PODS_PER_TURN == 0:
                runs.append(Run(PODS_PER_TURN))
            pod.join(runs[-1])
            yield from self._turn()

    def _turn_if_large(self) -> Suspendable[None]:
        """Let other tasks run between two steps that take some time for many pods."""
        if self._is_large:
            yield TURN

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
        if walk.status.is_rejected and isinstance(self._root, CompositePodGroup):
            for pod in walk.pods():  # each group of the tree may be what the others wait for
                pod.rejectors |= self._rejectors
        return walk

    # -- PodGroupPostFilter ------------------------------------------------------------------------------------------

    def _run_post_filter(self, walk: Walk) -> Suspendable[Status]:
        """Look for a way out of the walk that failed: pods may wait on the nodes that a preemption frees."""
        pods, rejected = list[PendingPod](), list[RejectedPod]()
        for pod in walk.pods():
            pods.append(pod.attempt.pod)
            if pod.search is not None and isinstance(pod.outcome, FitError):
                rejected.append(RejectedPod(pod.attempt.pod, pod.search.state, pod.outcome.diagnosis))
            yield from self._turn()
        answer = run_pod_group_post_filter(self._profile, self._root, pods, rejected, self._find_nodes_again)
        roll_back_leaked_statements(self._cluster, self._profile)
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
            search = self._searches.search(attempt)
            search.extenders = None
            outcome = yield from search.steps()
            node = self._cluster.nodes.find(outcome.node) if isinstance(outcome, ScheduleResult) else None
            if node is not None:
                found[search] = FoundNode(search, node)
            return search, outcome

        with self._untraced():
            walk = run_sync(self._schedule_root(find_node))
            if walk.status.code != Code.SUCCESS:
                return walk.status
            run_sync(walk.undo())
        return [found[pod.search] for pod in walk.placed() if pod.search in found]

    @contextmanager
    def _untraced(self) -> Iterator[None]:
        """Keep what happens meanwhile out of the traces of the group and its pods."""
        attempts = [begin() for pods in self._attempts.values() for begin in pods]
        traces, trace = [attempt.trace for attempt in attempts], self._trace
        self._trace = GroupTrace()
        for attempt in attempts:
            attempt.trace = AttemptTrace(attempt.pod, attempt.trace.attempt)
        try:
            yield
        finally:
            self._trace = trace
            for attempt, own in zip(attempts, traces, strict=True):
                attempt.trace = own

    # -- placements --------------------------------------------------------------------------------------------------

    def _schedule(self, group: GenericPodGroup, available: AvailableRows, find_node: FindNode) -> Suspendable[Walk]:
        """Walk over a group within its placements; return the best walk that succeeded, else the first one.

        The pods of a walk that succeeded have their nodes.
        """
        steps = self._profile.placements
        if steps is None:
            return (yield from self._try(group, "", available, find_node))
        placements = steps.generate(group, self._cluster.nodes, available)
        self._trace.end_phase("placement_generate", placements if isinstance(placements, Status) else None)
        if isinstance(placements, Status):
            return self._failed(group, available, placements)
        if len(placements) == 1:
            walk = yield from self._try(group, placements[0].name, placements[0].rows, find_node)
            self._set_placement(group, placements[0].name, walk)
        else:
            walk = yield from self._choose(group, available, steps, placements, find_node)
        if walk.status.is_rejected:
            text = f"0/{len(placements)} placements are available, first placement status: {walk.status.message}"
            walk.status = Status(Code.UNSCHEDULABLE, (text,), walk.status.plugin)
        return walk

    def _try(
        self, group: GenericPodGroup, placement: str, rows: AvailableRows, find_node: FindNode
    ) -> Suspendable[Walk]:
        """Walk over a group within one placement."""
        walk = self._walk(group, rows)
        yield from self._turn_if_large()
        yield from walk.run(find_node)
        walk.end_index = self._searches.rotation.next_start_index
        self._trace.add_trial(walk.trial(self._name(group), placement))
        self._add_rejector(walk.status)
        return walk

    def _add_rejector(self, status: Status) -> None:
        if status.is_rejected and status.plugin:
            self._rejectors.add(status.plugin)

    def _choose(
        self,
        group: GenericPodGroup,
        available: AvailableRows,
        steps: PlacementSteps,
        placements: Sequence[GroupPlacement],
        find_node: FindNode,
    ) -> Suspendable[Walk]:
        """Walk within each placement, or count the pods that fit there; take the best one, drawn among equal ones."""
        start = WalkStart(self._searches.random, self._searches.rotation)
        walks: list[Walk | CountedWalk] = []
        counted = yield from self._count(group, placements, start)
        for placement, count in zip(placements, counted, strict=True):
            if count is not None:
                self._trace.add_trial(count.trial(self._name(group), placement.name))
                self._add_rejector(count.status)
                walks.append(count)
                continue
            start.restore()
            walk = yield from self._try(group, placement.name, placement.rows, find_node)
            if walk.status.code == Code.SUCCESS:
                yield from walk.undo()
            elif not walk.status.is_rejected:
                return walk
            walks.append(walk)
        tried = [*zip(placements, walks, strict=True)]
        fitting = [(placement, walk) for placement, walk in tried if walk.status.code == Code.SUCCESS]
        best = fitting or tried[:1]
        if len(best) > 1:
            placed = [PlacedGroup(at, walk.placed_pods, partial(self._nodes_of, walk, find_node)) for at, walk in best]
            scores = steps.scores(group, placed, self._cluster.nodes)
            self._trace.end_phase("placement_score", scores if isinstance(scores, Status) else None)
            if isinstance(scores, Status):
                return self._failed(group, available, scores)
            top = max(scores)
            best = [each for each, score in zip(best, scores, strict=True) if score == top]
        preferred = [each for each in best if each[0].name == self._preferred]
        placement, chosen = start.draw(preferred or best)
        taken = yield from self._take(chosen, find_node)
        start.end(taken.end_index)
        self._set_placement(group, placement.name, taken)
        if not fitting:
            for each in walks:
                each.add_rejectors_to(taken)
        return taken

    def _take(self, walk: Walk | CountedWalk, find_node: FindNode) -> Suspendable[Walk]:
        """Take the nodes of a walk again, or do it if it was only counted."""
        if isinstance(walk, CountedWalk):
            walk = walk.begin()
            yield from walk.run(find_node)
            walk.end_index = self._searches.rotation.next_start_index
            self._trace.end_phase("placement_walk", walk.status)
            return walk
        problem = yield from walk.repeat()
        if problem is not None and isinstance(self._root, CompositePodGroup):
            walk.status = Status(Code.ERROR, (f"failed to assume the subtree: {problem.message}",))
            yield from walk.undo()
        return walk

    def _nodes_of(self, walk: Walk | CountedWalk, find_node: FindNode) -> tuple[tuple[PendingPod, str], ...]:
        """List the pods with a node in a walk that was undone or counted."""
        if isinstance(walk, CountedWalk):
            walk = run_sync(self._take(walk, find_node))
            run_sync(walk.undo())
        return tuple([(pod.attempt.pod, pod.node) for pod in walk.placed()])

    def _count(
        self, group: GenericPodGroup, placements: Sequence[GroupPlacement], start: WalkStart
    ) -> Suspendable[Sequence[CountedWalk | None]]:
        """Count the pods of a PodGroup that fit into each placement; None where only a walk tells."""
        unknown = [None] * len(placements)
        if not isinstance(group, PodGroup):
            return unknown
        attempts: list[Attempt] = []
        for begin_attempt in self._attempts.get(group.metadata.name, ()):
            attempts.append(begin_attempt())
            yield from self._turn()
        searches = self._searches
        room = yield from measure_room(attempts, self._cluster.nodes, searches.sign, searches.search, self._turn)
        if room is None:
            return unknown

        def begin(rows: AvailableRows) -> Walk:
            start.restore()
            return self._walk(group, rows)

        pods, walks = [attempt.pod for attempt in attempts], list[CountedWalk | None]()
        counts, feasibility = room.count(placements), self._walk(group, None).ask_feasibility
        verdicts: dict[int, GroupVerdict] = {}
        for number in dict.fromkeys(count for count in counts if count is not None):
            verdicts[number] = yield from judge(pods, number, feasibility, self._turn)
        for placement, count in zip(placements, counts, strict=True):
            verdict, full = None if count is None else verdicts[count], None
            if verdict is None or not (verdict.status.code == Code.SUCCESS or verdict.status.is_rejected):
                walks.append(None)
                continue
            if len(verdict.placed) < verdict.tried:
                full = room.explain(placement)
                yield from self._turn()
            walks.append(CountedWalk(verdict, pods, full, partial(begin, placement.rows)))
        return walks

    def _walk(self, group: GenericPodGroup, rows: AvailableRows) -> Walk:
        """Return a walk over a group within these nodes that has not begun."""
        if isinstance(group, CompositePodGroup):
            below = self._cluster.groups.trees.children(group)
            parts = [
                WalkedGroup(partial(self._schedule, each, rows), partial(self._walk, each, rows)) for each in below
            ]
            return Walk(group, self._profile, 0, parts, self._turn)
        scope = None
        if rows is not None and len(rows) < len(self._cluster.nodes):
            scope = np.sort(self._cluster.nodes.positions[rows])
        pods = [WalkedPod(begin, scope) for begin in self._attempts.get(group.metadata.name, ())]
        running = self._cluster.groups.members(group.metadata.namespace, group.metadata.name).running
        return Walk(group, self._profile, running, pods, self._turn)

    def _name(self, group: GenericPodGroup) -> str:
        """Return the name of a group below the root, "" for the root."""
        return "" if group is self._root else group.metadata.name

    def _set_placement(self, group: GenericPodGroup, placement: str, walk: Walk) -> None:
        if group is self._root and walk.status.code == Code.SUCCESS:
            self._trace.placement = placement

    def _failed(self, group: GenericPodGroup, rows: AvailableRows, status: Status) -> Walk:
        """Return a walk that has not begun, with this Status."""
        walk = self._walk(group, rows)
        self._add_rejector(status)
        walk.status = status
        return walk
