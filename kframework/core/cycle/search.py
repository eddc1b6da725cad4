"""Find a node for one pod: the scheduling cycle, a plain function from the live tables to an outcome.

    plan        remembered answers for this pod's signature, caught up with the logs
    rejections  minimum of the plan's column and of each plugin asked afresh
    candidates  the first k rows without rejection in rotation order
    total       the plan's totals + weight x normalised column of each plugin that normalises or is asked afresh
    choice      the largest total; any of the equals is right, the seeded generator draws

Nominated node, pinned pod and two-pass filter with nominated pods are the one-row question (`Search.ask_row`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from random import Random

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.layers import FEW, Layer, Plan, ask_filter_rows
from kframework.core.cycle.outcome import FitError, ScheduleError, ScheduleResult
from kframework.core.cycle.rejections import (
    ATTEMPT,
    PASS,
    PLUGIN,
    UNREACHED,
    StatusTable,
    bits_of,
    of_plugin,
    order_of,
    source_of,
)
from kframework.core.cycle.scoring import Scoring
from kframework.core.runtime.points import (
    PreFilterAnswer,
    PreFilterResult,
    ask_pre_filter,
    excluded_status,
    fault,
    filter_status,
    run_add_pod,
    run_filter,
    run_pre_filter,
)
from kframework.core.runtime.profile import FilterStep, Profile, ScoreStep, Step
from kframework.core.runtime.timing import PhaseTimer
from kframework.framework.cycle_state import CycleState
from kframework.framework.plugin import Diagnosis, Scores
from kframework.framework.status import Code, Status
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, PodInfo

Places = NDArray[np.int64]

_NONE = np.zeros(0, dtype=np.int64)
_LOWEST = int(np.iinfo(np.int64).min)


class Rotation:
    """Where the next search starts in the order of the nodes; one for all profiles."""

    __slots__ = ("next_start_index",)

    def __init__(self, next_start_index: int = 0) -> None:
        self.next_start_index: int = next_start_index


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return how many feasible nodes are enough (kube-scheduler's numFeasibleNodesToFind); percentage 0 is adaptive."""
    if nodes < 100:
        return nodes
    percentage = percentage or max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, 100)


class Search:
    """One attempt to find a node for a pod."""

    #: How many rows the search looked at.
    evaluated: int = 0

    def __init__(
        self,
        cluster: ClusterState,
        plan: Plan,
        pod: PendingPod,
        rotation: Rotation,
        random: Random,
        timer: PhaseTimer | None = None,
    ) -> None:
        self.profile: Profile = plan.profile
        self.cluster = cluster
        self.nodes: NodeTable = cluster.nodes
        self.plan = plan
        self.pod = pod
        self.rotation = rotation
        self.random = random
        self.state: CycleState = CycleState(plan.state)
        self.table: StatusTable = StatusTable(ATTEMPT)
        self.top: Layer | None = plan.top
        #: Filter plugins to be asked about every row, and those to be asked only along the rotation.
        self.fresh_columnar: tuple[FilterStep, ...] = plan.fresh_columnar
        self.fresh_scalar: tuple[FilterStep, ...] = plan.fresh_scalar
        self._skipped: frozenset[str] = frozenset()
        self.fresh_scores: tuple[ScoreStep, ...] = plan.fresh_scores
        #: Whether something tells the feasible nodes apart; otherwise the first is as good as any.
        self.needs_scoring: bool = bool(self.profile.scores)
        #: The rejection of a nominated node that was tried first, by row.
        self._tried: dict[int, int] = {}
        self._words: dict[int, Status] = {}
        self._rejections_beside: dict[int, int] = {}
        #: The rows that are out of the question once the pods nominated to them have arrived.
        self._taken: set[int] = set()
        #: What the search looked at, for those who check it: rows in rotation order, their rejections, the rows that
        #: pass the filters, those of them that go on to scoring and their totals.
        self.node_order: NDArray[np.int64] = _NONE
        self.rejections: Scores = _NONE
        self.candidates: NDArray[np.int64] = _NONE
        self.feasible: NDArray[np.int64] = _NONE
        self.totals: Scores = _NONE
        #: How long the points took.
        self.timer: PhaseTimer = timer or PhaseTimer()

    def run(self) -> ScheduleResult | FitError | ScheduleError:
        """Find a node."""
        pre_filter_result = self._begin()
        if not isinstance(pre_filter_result, PreFilterResult):
            return pre_filter_result
        outcome = self._nominated() or self._filter(pre_filter_result) or self._few(pre_filter_result)
        self.timer.take("filter", outcome.status if isinstance(outcome, ScheduleError) else None)
        if outcome is not None:
            return outcome
        outcome = self._choose()
        self.timer.take("score", outcome.status if isinstance(outcome, ScheduleError) else None)
        return outcome

    def _begin(self) -> PreFilterResult | FitError | ScheduleError:
        """Find out whether the pod can be placed at all, and where to look."""
        if not len(self.nodes):
            return ScheduleError(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("no nodes available to schedule pods",)))
        pre_filter_result = self._pre_filter()
        self.timer.take("pre_filter", pre_filter_result.status)
        if pre_filter_result.status is None:
            return pre_filter_result
        return (
            self._rejected(pre_filter_result)
            if pre_filter_result.status.rejected
            else ScheduleError(pre_filter_result.status)
        )

    def _filter(self, pre_filter_result: PreFilterResult) -> ScheduleError | None:
        """Find the feasible nodes."""
        node_order = self._node_order(pre_filter_result)
        if pre_filter_result.nodes is not None and len(node_order) <= FEW:
            # A pod pinned to a few nodes (DaemonSets): asking them costs less than bringing a layer up to date.
            self.top, self.fresh_columnar, self.fresh_scalar, self.fresh_scores = (
                None,
                self.filters,
                (),
                self.plan.scores,
            )
        elif self.top is not None:
            self.top.catch_up(self.plan.state, self.pod)
        enough = nodes_to_find(len(node_order), self.profile.percentage_of_nodes_to_score) if self.needs_scoring else 1
        # The first few rows are mostly enough; what is asked along the rotation stops by itself.
        self._look(node_order if self.fresh_scalar else node_order[: 2 * enough + 2], enough)
        if len(self.candidates) <= enough and len(self.node_order) < len(node_order):
            self._look(node_order, enough)
        self.candidates = self.feasible = self.candidates[:enough]
        fault_found = self._fault()
        self._advance()
        return None if fault_found is None else ScheduleError(fault_found)

    def _few(self, pre_filter_result: PreFilterResult) -> ScheduleResult | FitError | ScheduleError | None:
        """Return the outcome when at most one node is feasible; None when there are several to choose from."""
        if not len(self.feasible):
            return self._unfit(pre_filter_result)
        if len(self.feasible) == 1:
            return ScheduleResult(self.nodes[int(self.feasible[0])].name, 0, 1, self.evaluated, 1)
        return None

    def _look(self, node_order: NDArray[np.int64], enough: int) -> None:
        """Find out which of these rows pass; called with the first few, and with all if those were not enough."""
        self.node_order, self.rejections = node_order, self._rejections(node_order)
        self._ask_fresh_scalar(node_order, self.rejections, enough)
        passes = self.rejections == PASS
        if passes.all():
            self.candidates = node_order
            self.evaluated = min(enough, len(node_order))
        else:
            passing = np.flatnonzero(passes)
            self.candidates = node_order[passing]
            self.evaluated = int(passing[enough]) if len(passing) > enough else len(node_order)

    # -- PreFilter -------------------------------------------------------------------------------------------------

    def _pre_filter(self) -> PreFilterResult:
        pre_filter_result = self.profile.wrapped(
            "pre_filter", self._pre_filter_result, self.state, self.pod, self.nodes
        )
        if pre_filter_result.ended_by in self.plan.before:
            # The signing plugins behind it were not asked in kube-scheduler: PostFilter must not find their state.
            self.state = self.state.on(self.plan.before[pre_filter_result.ended_by])
        if pre_filter_result.skipped:
            self._skipped = pre_filter_result.skipped
            self.fresh_columnar = tuple(
                step for step in self.fresh_columnar if step.name not in pre_filter_result.skipped
            )
            self.fresh_scalar = tuple(step for step in self.fresh_scalar if step.name not in pre_filter_result.skipped)
        return pre_filter_result

    @cached_property
    def filters(self) -> tuple[FilterStep, ...]:
        """The Filter plugins that have something to say, in order: what one row is asked by."""
        return tuple(step for step in self.plan.filters if step.name not in self._skipped)

    def _pre_filter_result(self, state: CycleState, pod: PendingPod, nodes: object) -> PreFilterResult:
        plan = self.plan
        if plan.pre_filter_result is not None:
            return plan.pre_filter_result

        def ask(step: Step) -> PreFilterAnswer:
            if step.name in plan.pre_filter:
                return plan.pre_filter[step.name]
            return ask_pre_filter(self.profile, step, state, pod, self.nodes)

        return run_pre_filter(self.profile, plan.fresh_pre_filters, ask)

    def _rejected(self, pre_filter_result: PreFilterResult) -> FitError:
        """Sum up a rejection of the pod as a whole: every node says the same."""
        status = pre_filter_result.status
        assert status is not None
        rejectors = {status.plugin} if status.plugin else set()
        if status.code == Code.UNSCHEDULABLE or not status.plugin:
            rejectors.update(pre_filter_result.narrowed_by)
        same = np.zeros(self.nodes.capacity, dtype=np.int64)
        diagnosis = Diagnosis(self.nodes, same, lambda _: status, tuple(sorted(rejectors)), status.message)
        reasons = {reason: len(self.nodes) for reason in status.reasons}
        return FitError(diagnosis, reasons, frozenset(rejectors), frozenset(), 0)

    # -- one row ---------------------------------------------------------------------------------------------------

    def ask_row(self, row: int, state: CycleState) -> int:
        """Return the first rejection to a node as it stands now, PASS if there is none."""
        node = self.nodes[row]
        for step in self.filters:
            status = run_filter(self.profile, step, state, self.pod, node)
            if status is not None:
                return self.table.rejection(step.order, status)
        return PASS

    @cached_property
    def _rivals(self) -> dict[int, list[PodInfo]]:
        """The pods nominated to each row that are at least as important."""
        rivals = ((self.nodes.row(name), pods) for name, pods in self.cluster.nominator.nominated_pods(self.pod))
        return {row: pods for row, pods in rivals if row is not None}

    def _beside(self, row: int) -> int:
        """Return the first rejection to a node on which the pods nominated to it had already arrived."""
        if row not in self._rejections_beside:
            self._rejections_beside[row] = self._ask_beside(row, self._rivals[row])
        return self._rejections_beside[row]

    def _ask_beside(self, row: int, rivals: Sequence[PodInfo]) -> int:
        node, state = self.nodes[row], self.state.clone()
        with self.cluster.statement() as statement:
            for rival in rivals:
                statement.add(rival, node.name)
                failed = run_add_pod(self.profile, self.filters, state, self.pod, rival, node)
                if failed is not None:
                    return self.table.rejection(0, failed)
            return self.ask_row(row, state)

    def _nominated(self) -> ScheduleResult | None:
        """Try the node that the pod is nominated to, alone; a failure only means that the search goes on."""
        name = self.pod.status.nominated_node_name or self.cluster.nominator.node_of(self.pod.uid)
        row = self.nodes.row(name) if name else None
        if row is None:
            return None
        rejection = self._beside(row) if row in self._rivals else PASS
        if rejection == PASS:
            rejection = self.ask_row(row, self.state)
        if rejection == PASS:
            return ScheduleResult(name, 0, 1, 1, 1)
        if self.status(rejection).rejected:
            self._tried[row] = rejection
        return None

    # -- many rows -------------------------------------------------------------------------------------------------

    def _node_order(self, pre_filter_result: PreFilterResult) -> NDArray[np.int64]:
        """Return the rows to look at, in the order in which the search looks at them."""
        if pre_filter_result.nodes is None:
            start = self.rotation.next_start_index % len(self.nodes)
            return self.nodes.twice[start : start + len(self.nodes)]
        rows = [row for name in pre_filter_result.nodes if (row := self.nodes.row(name)) is not None]
        order = self.nodes.order[np.sort(self.nodes.places[rows])] if rows else _NONE
        start = self.rotation.next_start_index % len(order) if len(order) else 0
        return np.concatenate((order[start:], order[:start]))

    def _rejections(self, node_order: NDArray[np.int64]) -> Scores:
        """Return the rejections to these rows, save those of scalar plugins that must be asked afresh."""
        top = self.top
        rejections = (
            top.rejections.values[node_order] if top is not None else np.full(len(node_order), PASS, dtype=np.int64)
        )
        for step in self.fresh_columnar:
            ask_filter_rows(self.profile, step, self.state, self.pod, self.nodes, node_order, rejections, self.table)
        if len(self.cluster.nominator) and self._rivals:
            for place in np.flatnonzero(np.isin(node_order, list(self._rivals))).tolist():
                beside = self._beside(int(node_order[place]))
                if beside != PASS:
                    rejections[place] = beside
                    self._taken.add(int(node_order[place]))
        return rejections

    def _ask_fresh_scalar(self, node_order: NDArray[np.int64], rejections: Scores, enough: int) -> None:
        """Ask the scalar plugins that do not sign, only along the rotation and until enough nodes pass.

        When none passes they are asked about the other rows too, so that the first rejection to each is known.
        """
        if not self.fresh_scalar:
            return
        passed, by_row = 0, self.nodes.by_row
        unrejected = rejections == PASS
        for place, row in _in_turn(np.flatnonzero(unrejected), node_order):
            node = by_row[row]
            # Written out for the same reason as in `ask_score_rows`.
            for step in self.fresh_scalar:
                try:
                    answer = step.ask(self.state, self.pod, node)
                    status = None if answer is None else filter_status(self.profile, step, answer)
                except Exception as error:
                    status = fault(self.profile, step.name, "filter", error)
                if status is not None:
                    rejections[place] = self.table.rejection(step.order, status)
                    break
            else:
                passed += 1
            if passed > enough:
                # Whatever comes behind was not reached.
                rejections[place + 1 :] = UNREACHED
                return
        if not passed:
            self._ask_behind(node_order, rejections, ~unrejected)

    def _ask_behind(self, node_order: NDArray[np.int64], rejections: Scores, rejected_rows: NDArray[np.bool_]) -> None:
        """Ask those plugins about the rows to which others behind them object."""
        behind = np.flatnonzero(rejected_rows & (rejections > of_plugin(self.fresh_scalar[0].order)))
        for place, row in _in_turn(behind, node_order):
            rejections[place] = self._ask_scalars(row, int(rejections[place]))

    def _ask_scalars(self, row: int, rejection: int) -> int:
        """Return the rejections of a node by plugins asked along the rotation that come before those of others."""
        if row in self._taken:
            return rejection
        node, reach = self.nodes[row], order_of(rejection)
        for step in self.fresh_scalar:
            if step.order > reach:
                break
            status = run_filter(self.profile, step, self.state, self.pod, node)
            if status is not None:
                return self.table.rejection(step.order, status)
        return rejection

    def _fault(self) -> Status | None:
        """Return the first fault that the search ran into; there it ended."""
        top = self.top
        if not self.table.faults and (top is None or not top.has_faults):
            return None
        for place, rejection in enumerate(self.rejections[: self.evaluated].tolist()):
            if rejection == PASS or self.status(rejection).rejected:
                continue
            # An earlier rejection keeps the faulty plugin from being asked.
            earlier = self._ask_scalars(int(self.node_order[place]), rejection)
            if not self.status(earlier).rejected:
                self.evaluated = place
                return self.status(earlier)
            self.rejections[place] = earlier
        return None

    def _advance(self) -> None:
        """Let the next search start behind what this one looked at; the nominated node counts wherever it is."""
        outside = sum(row not in self.node_order[: self.evaluated] for row in self._tried)
        self.rotation.next_start_index = (self.rotation.next_start_index + self.evaluated + outside) % len(self.nodes)

    # -- why not ---------------------------------------------------------------------------------------------------

    def status(self, rejection: int) -> Status:
        """Put a rejection into words, once for all nodes that share it."""
        status = self._words.get(rejection)
        if status is None:
            status = self._words[rejection] = self._in_words(rejection)
        return status

    def _in_words(self, rejection: int) -> Status:
        source = source_of(rejection)
        if source == ATTEMPT:
            return self.table.statuses[bits_of(rejection)]
        if source != PLUGIN:
            assert self.top is not None
            return self.top.table_of(source).statuses[bits_of(rejection)]
        step = self.profile.filters[order_of(rejection)]
        assert step.explain is not None
        try:
            status = step.explain(self.pod, bits_of(rejection))
        except Exception as error:
            return fault(self.profile, step.name, "filter_status", error)
        if isinstance(status, Status) and status.rejected:
            return status.with_plugin(step.name)
        return fault(self.profile, step.name, "filter_status", f"answered {status!r}, which is no rejection")

    def _by_row(self) -> Scores:
        """Return what stands against the node of each row."""
        by_row: Scores = np.full(self.nodes.capacity, UNREACHED)
        by_row[list(self._tried)] = list(self._tried.values())
        by_row[self.node_order[: self.evaluated]] = self.rejections[: self.evaluated]
        return by_row

    def _unfit(self, pre_filter_result: PreFilterResult) -> FitError | ScheduleError:
        """Count what stands against the nodes; ScheduleError where that cannot be put into words."""
        by_row = self._by_row()
        absent = excluded_status(pre_filter_result) if pre_filter_result.nodes is not None else None
        reasons: dict[str, int] = {}
        rejectors, pending = set(pre_filter_result.narrowed_by), set()
        rejectors.update(self.status(rejection).plugin for rejection in self._tried.values())
        rejections, counts = np.unique(by_row[by_row != UNREACHED], return_counts=True)
        for rejection, count in zip(rejections.tolist(), counts.tolist(), strict=True):
            status = self.status(rejection)
            if not status.rejected:
                return ScheduleError(status)
            rejectors.add(status.plugin)
            if status.code == Code.PENDING and rejection in self.rejections:
                pending.add(status.plugin)
            for reason in status.reasons:
                reasons[reason] = reasons.get(reason, 0) + count
        evaluated = int(counts.sum())
        if absent is not None and evaluated < len(self.nodes):
            for reason in absent.reasons:
                reasons[reason] = reasons.get(reason, 0) + len(self.nodes) - evaluated

        def status_of(rejection: int) -> Status:
            if rejection == UNREACHED:
                return absent or Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            return self.status(rejection)

        diagnosis = Diagnosis(self.nodes, by_row, status_of, tuple(sorted(rejectors)))
        return FitError(diagnosis, reasons, frozenset(rejectors), frozenset(pending), evaluated)

    # -- which one -------------------------------------------------------------------------------------------------

    def _choose(self) -> ScheduleResult | ScheduleError:
        """Score the feasible nodes and draw one of the best."""
        if not self.profile.scores:
            totals: Scores | Status = np.ones(len(self.feasible), dtype=np.int64)
        else:
            totals = self._totals()
        if isinstance(totals, Status):
            return ScheduleError(totals)
        self.totals = totals
        return self._best(totals)

    def _best(self, totals: Scores) -> ScheduleResult:
        """Draw one of the nodes with the largest total."""
        candidates = self.feasible
        best = int(totals.max())
        ties = np.flatnonzero(totals == best)
        chosen = int(ties[self.random.randrange(len(ties))]) if len(ties) > 1 else int(ties[0])
        return ScheduleResult(
            self.nodes[int(candidates[chosen])].name,
            best,
            len(ties),
            self.evaluated,
            len(candidates),
            self._top(candidates, totals, ties),
        )

    def _totals(self) -> Scores | Status:
        """Return the totals of the feasible nodes, or what went wrong."""
        scoring = Scoring(self.plan, self.top, self.fresh_scores, self.state, self.pod, self.nodes)
        skipped = scoring.pre_score(self.feasible)
        if scoring.asks_before:
            self.timer.take("pre_score", skipped if isinstance(skipped, Status) else None)
        return skipped if isinstance(skipped, Status) else scoring.totals(self.feasible, skipped)

    def _top(self, candidates: NDArray[np.int64], totals: Scores, ties: Places) -> tuple[tuple[str, int], ...]:
        """Name the three best nodes."""
        places = ties[:3].tolist()
        if len(places) < 3:
            rest = totals.copy()
            rest[places] = _LOWEST
            while len(places) < min(3, len(rest)):
                place = int(rest.argmax())
                places.append(place)
                rest[place] = _LOWEST
        return tuple((self.nodes[int(candidates[place])].name, int(totals[place])) for place in places)


def _in_turn(places: Places, node_order: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield these places of the node_order with their rows, block by block, as most searches end early."""
    for begin in range(0, len(places), 512):
        block = places[begin : begin + 512]
        yield from zip(block.tolist(), node_order[block].tolist(), strict=True)
