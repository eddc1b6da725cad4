"""How many pods of a PodGroup fit into each placement, where cached answers tell without a search for each pod.

If what a node takes depends on nothing but the pods on it, then a walk over like pods places as many of them as all
nodes of the placement together take, on whichever nodes. So only the walk within the chosen placement is done.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.attempt import Attempt
from kframework.core.cycle.records import PlacementTrial, fit_error
from kframework.core.cycle.rejections import count_reasons, plugin_rejection
from kframework.core.cycle.search import Search
from kframework.core.groups.walk import Walk, group_status
from kframework.core.runtime.profile import Signature
from kframework.core.runtime.steps import FilterStep, as_column
from kframework.errors import FAULTS, PluginError
from kframework.framework.answers import GroupPlacement
from kframework.framework.suspendable import Suspendable
from kframework.state.columns import count_values
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

#: A group with more kinds of pods is walked in every placement: the room for each kind takes some 0.2 ms.
MAX_KINDS = 8


class PodRoom(msgspec.Struct, frozen=True):
    """The room for pods of one kind, by position in node order: how many fit, and the rejection of the next one.

    At most as many pods count as wait; the rejection is that of a node which takes fewer.
    """

    search: Search
    pods: Scores
    rejections: Scores


class FullPlacement(msgspec.Struct, frozen=True):
    """Why the next pod fits on none of the `nodes` of a placement: reasons with node counts, and the rejectors."""

    nodes: int
    reasons: dict[str, int]
    rejectors: frozenset[str]
    pending: frozenset[str]


class PlacementRoom:
    """The room for the pods of a group, `number` in all, for each kind of them."""

    def __init__(self, rooms: Sequence[PodRoom], number: int, nodes: NodeTable) -> None:
        self._rooms = rooms
        self._number = number
        self._nodes = nodes

    def count(self, placements: Sequence[GroupPlacement]) -> list[int | None]:
        """Return how many of the pods fit into each placement, None where that depends on the nodes they get."""
        rows = np.concatenate([placement.rows for placement in placements])
        bounds = np.cumsum([0, *(len(placement.rows) for placement in placements)])
        # Whichever kinds of pods a node gets, it takes at least as many as of the kind that it takes fewest of.
        pods = np.minimum.reduce([room.pods for room in self._rooms])[self._nodes.positions[rows]]
        totals = np.diff(np.concatenate(([0], pods.cumsum()))[bounds])
        counts: list[int] = np.minimum(totals, self._number).tolist()
        return [count if len(self._rooms) == 1 or count == self._number else None for count in counts]

    def explain(self, placement: GroupPlacement) -> FullPlacement:
        """Return why the next pod is rejected by all nodes of a placement that takes fewer pods than wait."""
        (room,) = self._rooms
        rejections = count_values(room.rejections[self._nodes.positions[placement.rows]])
        counts = [(room.search.status(rejection), count) for rejection, count in rejections]
        rejectors = frozenset(status.plugin for status, _ in counts)
        pending = frozenset(status.plugin for status, _ in counts if status.code == Code.PENDING)
        return FullPlacement(len(placement.rows), count_reasons(counts), rejectors, pending)


class GroupVerdict(NamedTuple):
    """What becomes of a group: its Status, the pods that get nodes, and how many were tried."""

    status: Status
    placed: tuple[PendingPod, ...]
    tried: int


def judge(
    pods: Sequence[PendingPod],
    count: int,
    ask_feasibility: Callable[[int, int], Status | None],
    turn: Callable[[], Suspendable[None]],
) -> Suspendable[GroupVerdict]:
    """Ask what becomes of a group if the first `count` of its pods get nodes and the others none."""
    tried, answer = 0, ask_feasibility(0, len(pods))
    while tried < len(pods) and (answer is None or answer.code == Code.WAIT):
        tried += 1
        answer = ask_feasibility(min(tried, count), len(pods) - tried)
        yield from turn()
    return GroupVerdict(group_status(answer), tuple(pods[: min(tried, count)]), tried)


class CountedWalk:
    """A walk over a group within a placement, as far as the number of pods that fit determines it.

    Attributes:
        status: the group's Status.
        placed_pods: the pods that get nodes.
        begin: returns the walk itself, to be run.
    """

    def __init__(
        self, verdict: GroupVerdict, pods: Sequence[PendingPod], full: FullPlacement | None, begin: Callable[[], Walk]
    ) -> None:
        self.status: Status = verdict.status
        self.placed_pods: tuple[PendingPod, ...] = verdict.placed
        self.begin: Callable[[], Walk] = begin
        self._failed = pods[len(verdict.placed) : verdict.tried]
        self._full = full

    def trial(self, group: str, placement: str) -> PlacementTrial:
        """Return the record of the walk over a group within a placement."""
        first = reason = ""
        if self._full is not None:
            first, reason = self._failed[0].key, fit_error(self._full.nodes, self._full.reasons)
        placed = len(self.placed_pods)
        return PlacementTrial(group, placement, self.status.code, self.status.message, placed, first, reason)

    def add_rejectors_to(self, walk: Walk) -> None:
        """Let the pods of another walk wait also for what the plugins that rejected them in this one wait for."""
        if self._full is not None:
            failed = {pod.uid for pod in self._failed}
            for pod in walk.pods():
                if pod.attempt.pod.uid in failed:
                    pod.rejectors |= self._full.rejectors
                    pod.pending |= self._full.pending


def measure_room(
    attempts: Sequence[Attempt],
    nodes: NodeTable,
    sign: Callable[[Attempt], Signature],
    search: Callable[[Attempt], Search],
    turn: Callable[[], Suspendable[None]],
) -> Suspendable[PlacementRoom | None]:
    """Measure the room for the pods of these attempts; None if cached answers do not tell."""
    kinds: dict[Hashable, Attempt] = {}
    try:
        for attempt in attempts:
            kinds.setdefault((sign(attempt), attempt.pod.on_node), attempt)
            if len(kinds) > MAX_KINDS or attempt.pod.nominated_node_name:
                return None
            yield from turn()
        rooms = [_room_for(_remembered(search, attempt), len(attempts)) for attempt in kinds.values()]
    except PluginError:
        return None  # the walk reports it
    known = [room for room in rooms if room is not None]
    return PlacementRoom(known, len(attempts), nodes) if len(known) == len(rooms) > 0 else None


def _remembered(search: Callable[[Attempt], Search], attempt: Attempt) -> Search:
    """Return a search for a pod whose plan has columns, if it can have any: those come with its second search."""
    first = search(attempt)
    return first if first.is_remembered else search(attempt)


def _room_for(search: Search, number: int) -> PodRoom | None:
    """Return the room for up to this number of like pods; None if a node depends on more than its own pods."""
    plan, cache = search.plan, search.plan.cache
    if cache is None or not (search.is_remembered and plan.binds_directly) or search.extenders is not None:
        return None
    changing = [step for step in plan.filters if step.plugin.reads != "node"]
    if any(step.more is None for step in changing):
        return None
    cache.catch_up(search.profile, plan.state, search.pod)
    if cache.has_faults or cache.has_faulty_scores:
        return None
    passing = cache.passing.nonzero()[0]
    most, rejections = np.full(len(passing), number), cache.rejections.values.copy()
    for step in changing:
        counts = _count(step, search, passing, number)
        if counts is None:
            return None
        pods, mine = counts
        rejections[passing] = np.where(pods < most, mine, rejections[passing])
        most = np.minimum(most, pods)
    column = np.zeros(len(cache.passing), dtype=np.int64)
    column[passing] = most
    return PodRoom(search, column, rejections)


def _count(step: FilterStep, search: Search, positions: NDArray[np.int64], number: int) -> tuple[Scores, Scores] | None:
    """Return how many pods a plugin lets onto these nodes, and its rejection of the next one; None if it cannot say.

    Most nodes have room for all pods; the others are bisected.
    """
    pods, least = np.full(len(positions), number), np.zeros(len(positions), dtype=np.int64)
    rejections = np.full(len(positions), plugin_rejection(step.order))
    added, unclear = np.full(len(positions), number - 1), np.arange(len(positions))
    try:
        while len(unclear):
            bits = _filter_more(step, search, positions[unclear], added)
            if bits is None:
                return None
            rejects = bits != 0
            full = unclear[rejects]
            pods[full], rejections[full] = added[rejects], plugin_rejection(step.order) | (bits[rejects] & 0xFFFFFFFF)
            least[unclear[~rejects]] = added[~rejects] + 1
            unclear = unclear[least[unclear] < pods[unclear]]
            added = (least[unclear] + pods[unclear]) // 2
    except FAULTS as error:
        step.fault_status(step.name, "filter_more", error)
        return None
    return pods, rejections


def _filter_more(step: FilterStep, search: Search, positions: NDArray[np.int64], added: Scores) -> Scores | None:
    assert step.more is not None
    rows = search.nodes.order[positions]
    answer = step.more(search.state, search.pod, search.nodes, rows, added)
    return None if answer is None else as_column(answer, len(rows))
