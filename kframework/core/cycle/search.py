"""The search for a node for one pod, from the live tables to an outcome.

plan        cached answers for this pod's signature, brought up to date from the logs
rejections  minimum of the plan's column and of each plugin that is called in every cycle
candidates  the first k rows without rejection in rotation order
total       the plan's totals + weight x normalised column of each plugin that normalises or is called in every cycle
choice      one of the largest totals, drawn by the seeded generator
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import FEW, NominatedRejections, ask_filter_rows
from kframework.core.cycle.plan import Plan
from kframework.core.cycle.rejections import (
    ATTEMPT,
    FIRST,
    PASS,
    UNREACHED,
    StatusTable,
    decode_status,
    filter_with_nominated_pods,
    plugin_order,
    plugin_rejection,
)
from kframework.core.cycle.results import FitError, Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.rotation import Rotation, find_first_passing, nodes_to_find, row_by_row
from kframework.core.cycle.scoring import Scoring
from kframework.core.cycle.suspendable import ExtenderClient, ExtenderError, Suspendable, run_sync, wait_for
from kframework.core.runtime.points import PreFilterResult, run_pre_filter
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import EXTENDER
from kframework.core.runtime.steps import FilterStep
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import FAULTS
from kframework.framework.answers import Diagnosis
from kframework.framework.cycle_state import CycleState
from kframework.state.cluster import ClusterState
from kframework.state.node_order import Positions, rotate, take
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

_log = logging.getLogger(__name__)

_NONE = np.zeros(0, dtype=np.int64)
_LOWEST = int(np.iinfo(np.int64).min)
_NO_NODES = ScheduleError(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("no nodes available to schedule pods",)))
_NO_REASON = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class FilterOutcome(msgspec.Struct, frozen=True):
    """The result of filtering the nodes.

    `node_order`: the rows in the order in which they were evaluated; `rejections` are aligned to it, and are valid for
    the first `evaluated`. `candidates`: the positions of passing nodes, no more than are enough.
    """

    node_order: NDArray[np.int64] = _NONE
    rejections: Scores = _NONE
    evaluated: int = 0
    candidates: Positions = _NONE


_NOT_FILTERED = FilterOutcome()


class Search:
    """One attempt to find a node for a pod; its attributes expose the result of each phase.

    `plan` is narrowed as it goes: from PreFilter on it holds only plugins that do not skip the pod. `feasible` are the
    rows of the nodes to be scored, `positions` their positions in node order; `totals` are aligned to them.
    """

    def __init__(
        self,
        cluster: ClusterState,
        plan: Plan,
        pod: PendingPod,
        rotation: Rotation,
        random: Random,
        trace: AttemptTrace | None = None,
        extenders: ExtenderClient | None = None,
    ) -> None:
        self.cluster = cluster
        self.nodes: NodeTable = cluster.nodes
        self.size: int = len(cluster.nodes)
        self.has_nominations: bool = bool(len(cluster.nominator))
        self.profile: Profile = plan.profile
        self.plan: Plan = plan
        self.pod = pod
        self.rotation = rotation
        self.start_index: int = rotation.next_start_index
        self.random = random
        self.trace: AttemptTrace = trace or AttemptTrace(pod, 0)
        self.extenders = extenders
        self.state: CycleState = CycleState(plan.state)
        self.table: StatusTable = StatusTable(ATTEMPT)
        self.filtered: FilterOutcome = _NOT_FILTERED
        self.positions: Positions = _NONE
        self.feasible: NDArray[np.int64] = _NONE
        self.totals: Scores = _NONE
        self._statuses: dict[int, Status] = {}
        #: The rejections of nodes with their nominated pods assumed; None before the first use.
        self._nominated_rejections: NominatedRejections | None = None
        #: The rejection of the nominated node, if it was tried first and failed.
        self._rejected_nominee: dict[int, int] = {}
        #: The rejections by extenders, by row.
        self._rejected_by_extenders: dict[int, int] = {}

    def run(self) -> Outcome:
        """Find a node without extenders."""
        return run_sync(self.steps())

    def steps(self) -> Suspendable[Outcome]:
        if not self.size:
            return _NO_NODES
        result = self.pre_filter()
        self.trace.end_phase("pre_filter", result.status)
        if result.status is not None:
            return self._rejected(result) if result.status.is_rejected else ScheduleError(result.status)
        phase = "filter"
        outcome: Outcome | None = None
        if self.has_nominations or self.pod.status.nominated_node_name:
            outcome = yield from self._try_nominated_node()
        outcome = outcome or self._filter(result)
        if outcome is None and self.extenders is not None:
            self.trace.end_phase(phase)
            phase = "extender_filter"
            outcome = yield from self._ask_extenders(self.extenders, result)
        if outcome is None and not len(self.feasible):
            outcome = self._fit_error(result)
        elif outcome is None and len(self.feasible) == 1:
            outcome = ScheduleResult(self.nodes.by_row[self.feasible[0]].name, 0, 1, self.filtered.evaluated, 1)
        self.trace.end_phase(phase, outcome.status if isinstance(outcome, ScheduleError) else None)
        if outcome is not None:
            return outcome
        totals = self._totals()
        if isinstance(totals, Status):
            self.trace.end_phase("score", totals)
            return ScheduleError(totals)
        phase, self.totals = "score", totals
        if self.extenders is not None:
            self.trace.end_phase(phase)
            phase = "extender_prioritize"
            nodes = self._feasible_nodes()
            added = yield from wait_for(self.extenders.prioritize(self.pod, nodes))
            totals = totals + np.array([added.get(node.name, 0) for node in nodes], dtype=np.int64)
        best = self.best(totals)
        self.trace.end_phase(phase)
        return best

    # -- PreFilter -------------------------------------------------------------------------------------------------

    def pre_filter(self) -> PreFilterResult:
        """Run PreFilter: whether the pod can be placed at all, and on which nodes."""
        plan, arguments = self.plan, (self.state, self.pod, self.nodes)

        def run() -> PreFilterResult:
            return plan.pre_filter_result or run_pre_filter(plan.pre_filters, *arguments)

        if self.profile.has_wrapper("pre_filter"):
            result = self.profile.run_wrapped("pre_filter", run, PreFilterResult, *arguments)
        else:
            result = run()
        if result.ended_by in plan.before:
            # In kube-scheduler the signing plugins behind it did not run: PostFilter must not find their state.
            self.state = self.state.with_parent(plan.before[result.ended_by])
        if result.skipped:
            self.plan = plan.skipping(result.skipped)
        return result

    def _rejected(self, result: PreFilterResult) -> FitError:
        """Return the FitError of a pod rejected as a whole: the same Status for every node."""
        status = result.status or _NO_REASON
        rejectors = {status.plugin} if status.plugin else set()
        if status.code == Code.UNSCHEDULABLE or not status.plugin:
            rejectors.update(result.narrowed_by)
        same = np.zeros(self.nodes.capacity, dtype=np.int64)
        diagnosis = Diagnosis(self.nodes, same, lambda _: status, tuple(sorted(rejectors)), status.message)
        reasons = dict.fromkeys(status.reasons, self.size)
        return FitError(diagnosis, reasons, frozenset(rejectors), frozenset(), 0)

    # -- one row ---------------------------------------------------------------------------------------------------

    @property
    def filters(self) -> Sequence[FilterStep]:
        """The Filter plugins that do not skip the pod, in order, as used for single rows."""
        return self.plan.filters

    def _try_nominated_node(self) -> Suspendable[ScheduleResult | None]:
        """Try only the node that the pod is nominated to; if it fails, the search continues."""
        name = self.pod.status.nominated_node_name or self.cluster.nominator.nominated_node(self.pod.uid)
        row = self.nodes.row(name) if name else None
        if row is None:
            return None
        node = self.nodes[row]
        status = filter_with_nominated_pods(self, self.filters, self.state, node)
        if status is None:
            return ScheduleResult(node.name, 0, 1, 1, 1) if (yield from self._extenders_accept(node)) else None
        if status.is_rejected:
            self._rejected_nominee[row] = self.table.encode(FIRST, status)
        return None

    # -- many rows -------------------------------------------------------------------------------------------------

    def keep_feasible(self, positions: Positions) -> None:
        self.positions, self.feasible = positions, self.nodes.order[positions]

    def _filter(self, result: PreFilterResult) -> ScheduleError | None:
        allowed = self.allowed(result)
        nodes = self.size if allowed is None else len(allowed)
        if allowed is not None and nodes <= FEW:
            # A pod pinned to a few nodes (DaemonSets): filtering them costs less than updating a layer.
            self.plan = self.plan.uncached
        elif self.plan.cache is not None:
            self.plan.cache.catch_up(self.profile, self.plan.state, self.pod)
        enough = nodes_to_find(nodes, self.profile.percentage_of_nodes_to_score) if self.needs_scoring else 1
        if self.is_remembered:
            self.filtered = self.filter_by_columns(enough)
            self.keep_feasible(self.filtered.candidates)
            self.rotation.next_start_index = (self.start_index + self.filtered.evaluated) % nodes
            return None
        # The number of rows that the previous pod needed, plus an eighth, is mostly enough; scalar filters along the
        # rotation stop by themselves.
        first = nodes if self.plan.fresh_scalar else min(max(2 * enough + 2, self.plan.evaluated[-1] * 9 // 8), nodes)
        filtered = self.run_filters(allowed, first, enough)
        while filtered.evaluated == len(rows := filtered.node_order) < nodes:
            # The number of rows needed at this pass rate, plus a quarter.
            likely = len(rows) * 5 * enough // (4 * max(1, len(self.nodes.order[filtered.candidates])))
            filtered = self.run_filters(allowed, min(likely + 1, nodes), enough)
        self.filtered = filtered
        self.plan.evaluated[-1] = filtered.evaluated
        self.keep_feasible(filtered.candidates)
        status = self._first_fault()
        self._advance_start_index()
        return None if status is None else ScheduleError(status)

    @property
    def is_remembered(self) -> bool:
        """Whether the plan's columns currently determine which nodes pass."""
        cache = self.plan.cache if self.plan.is_remembered and not self.has_nominations else None
        return cache is not None and not cache.has_faults and not self._rejected_nominee

    def filter_by_columns(self, enough: int) -> FilterOutcome:
        """Find the first passing nodes from the plan's columns."""
        cache, nodes = self.plan.cache, self.nodes
        assert cache is not None
        candidates, evaluated = find_first_passing(cache.passing, cache.rejected, self.start_index, enough)
        positions = rotate(self.start_index, evaluated, self.size)
        return FilterOutcome(nodes.order[positions], cache.rejections.view[positions], evaluated, candidates)

    @property
    def needs_scoring(self) -> bool:
        """Whether feasible nodes are compared; otherwise the search stops at the first one."""
        return bool(self.profile.scores) or (self.extenders is not None and self.extenders.needs_scoring)

    def allowed(self, result: PreFilterResult) -> NDArray[np.int64] | None:
        """Return the positions of the nodes worth looking at, None for all."""
        if result.nodes is None:
            return None
        rows = [row for name in result.nodes if (row := self.nodes.row(name)) is not None]
        return np.sort(self.nodes.positions[rows]) if rows else _NONE

    def run_filters(self, allowed: NDArray[np.int64] | None, count: int, enough: int) -> FilterOutcome:
        """Filter `count` nodes; called with the first few, and with more if those were not enough."""
        positions = rotate(self.start_index, count, self.size if allowed is None else len(allowed))
        if allowed is not None:
            positions = allowed[positions]
        node_order = self.nodes.order[positions]
        rejections = self._rejections(positions, node_order)
        self._run_scalar_filters(node_order, rejections, enough)
        passes = rejections == PASS
        if np.count_nonzero(passes) == len(passes):  # a microsecond less than `all`
            evaluated = min(enough, len(node_order))
            return FilterOutcome(node_order, rejections, evaluated, take(positions, slice(0, evaluated)))
        passing = passes.nonzero()[0]
        evaluated = int(passing[enough]) if len(passing) > enough else len(node_order)
        return FilterOutcome(node_order, rejections, evaluated, take(positions, passing[:enough]))

    def _rejections(self, positions: Positions, node_order: NDArray[np.int64]) -> Scores:
        """Return the rejections of these rows, without those of uncached scalar plugins."""
        cache = self.plan.cache
        rejections = np.full(len(node_order), PASS) if cache is None else cache.rejections.view[positions]
        if self.plan.fresh_columnar or self.plan.fresh_scalar:
            rejections = rejections.copy()
        for step in self.plan.fresh_columnar:
            ask_filter_rows(step, self.state, self.pod, self.nodes, node_order, rejections, self.table)
        if self.has_nominations:
            rejections = np.minimum(rejections, self._rejections_with_nominated_pods(node_order))
        return rejections

    def _rejections_with_nominated_pods(self, rows: NDArray[np.int64]) -> Scores:
        nominated = self._nominated_rejections
        if nominated is None:
            nominated = self.plan.nominated_rejections if self.plan.remembers_filters else NominatedRejections()
            nominated.catch_up(self.cluster, self.pod)
            self._nominated_rejections = nominated
        return nominated.rejections(self, self.state, rows)

    def _run_scalar_filters(self, node_order: NDArray[np.int64], rejections: Scores, enough: int) -> None:
        """Run the scalar plugins that do not sign, along the rotation until enough nodes pass.

        If none passes they also run on the other rows, so that the first rejection of each is known.
        """
        steps = self.plan.fresh_scalar
        if not steps:
            return
        passed, open_positions = 0, rejections == PASS
        state, pod, by_row = self.state, self.pod, self.nodes.by_row
        for position, row in row_by_row(np.flatnonzero(open_positions), node_order):
            node = by_row[row]
            # `first_rejection`, inlined for the same reason as in `ask_score_rows`.
            for step in steps:
                try:
                    answer = step.call(state, pod, node)
                    status = None if answer is None else step.check_answer(answer)
                except FAULTS as error:
                    status = step.fault_status(step.name, "filter", error)
                if status is not None:
                    rejections[position] = self.table.encode(step.order, status)
                    break
            else:
                passed += 1
            if passed > enough:
                # The rest was not reached.
                rejections[position + 1 :] = UNREACHED
                return
        if not passed:
            self._complete_rejections(node_order, rejections, ~open_positions)

    def _complete_rejections(
        self, node_order: NDArray[np.int64], rejections: Scores, rejected: NDArray[np.bool_]
    ) -> None:
        """Run the scalar plugins on rows that later plugins reject."""
        behind = np.flatnonzero(rejected & (rejections > plugin_rejection(self.plan.fresh_scalar[0].order)))
        for position, row in row_by_row(behind, node_order):
            rejections[position] = self._earlier_rejection(row, int(rejections[position]))

    def _earlier_rejection(self, row: int, rejection: int) -> int:
        """Return a node's rejection by a scalar plugin ordered before the given one, else that one."""
        node, reach = self.nodes[row], plugin_order(rejection)
        for step in self.plan.fresh_scalar:
            if step.order > reach:
                break
            status = step.run(self.state, self.pod, node)
            if status is not None:
                return self.table.encode(step.order, status)
        return rejection

    def _first_fault(self) -> Status | None:
        """Return the first fault in rotation order, which ends the search there."""
        filtered, cache, nominated = self.filtered, self.plan.cache, self._nominated_rejections
        remembered = (cache is not None and cache.has_faults) or (nominated is not None and nominated.table.faults)
        if self.table.faults or remembered:
            for position, rejection in enumerate(filtered.rejections[: filtered.evaluated].tolist()):
                if rejection == PASS or self.status(rejection).is_rejected:
                    continue
                # After an earlier rejection the faulty plugin does not run.
                earlier = self._earlier_rejection(int(filtered.node_order[position]), rejection)
                if not self.status(earlier).is_rejected:
                    self.filtered = FilterOutcome(
                        filtered.node_order, filtered.rejections, position, filtered.candidates
                    )
                    return self.status(earlier)
                filtered.rejections[position] = earlier
        return None

    def _advance_start_index(self) -> None:
        """Start the next search behind the evaluated nodes; the nominated node counts wherever it is."""
        evaluated = self.filtered.evaluated
        for row in self._rejected_nominee:
            evaluated += row not in self.filtered.node_order[: self.filtered.evaluated]
        self.rotation.next_start_index = (self.start_index + evaluated) % self.size

    # -- extenders -------------------------------------------------------------------------------------------------

    def _extenders_accept(self, node: NodeInfo) -> Suspendable[bool]:
        """Run extenders on the nominated node only; if they reject it or fail, the search continues."""
        if self.extenders is None:
            return True
        try:
            return bool((yield from wait_for(self.extenders.filter(self.pod, [node]))).nodes)
        except ExtenderError as error:
            _log.warning("extenders cannot say whether pod %s may go to %s: %s", self.pod.key, node.name, error)
            return False

    def _ask_extenders(self, extenders: ExtenderClient, result: PreFilterResult) -> Suspendable[ScheduleError | None]:
        """Let the extenders remove feasible nodes; one removed without a reason counts as not evaluated."""
        nodes = self._feasible_nodes()
        try:
            answer = yield from wait_for(extenders.filter(self.pod, nodes))
        except ExtenderError as error:
            return ScheduleError(Status(Code.ERROR, (str(error),)))
        passing = {node.row for node in answer.nodes}
        for node in nodes:
            if node.row not in passing:
                status = answer.failed.get(node.name, result.excluded or _NO_REASON).with_plugin(EXTENDER)
                rejection = self.table.encode(len(self.profile.filters), status)
                self._rejected_by_extenders[node.row] = rejection
        self.keep_feasible(self.nodes.positions[np.array([node.row for node in answer.nodes], dtype=np.int64)])
        return None

    def _feasible_nodes(self) -> list[NodeInfo]:
        by_row = self.nodes.by_row
        return [by_row[row] for row in self.feasible.tolist()]

    # -- why not ---------------------------------------------------------------------------------------------------

    def status(self, rejection: int) -> Status:
        """Return the Status of a rejection, computed once for all nodes that share it."""
        status = self._statuses.get(rejection)
        if status is None:
            tables = [self.table, *(self.plan.cache.tables if self.plan.cache is not None else ())]
            if self._nominated_rejections is not None:
                tables.append(self._nominated_rejections.table)
            status = self._statuses[rejection] = decode_status(rejection, tables, self.profile.filters, self.pod)
        return status

    def _by_row(self) -> Scores:
        filtered, by_row = self.filtered, np.full(self.nodes.capacity, UNREACHED)
        rejections = filtered.rejections[: filtered.evaluated]
        if self.plan.fresh_scalar and PASS in rejections:
            # The scalar plugins skipped rows that others reject, because some node passed.
            self._complete_rejections(filtered.node_order[: filtered.evaluated], rejections, rejections != PASS)
        by_row[list(self._rejected_nominee)] = list(self._rejected_nominee.values())
        by_row[filtered.node_order[: filtered.evaluated]] = rejections
        by_row[list(self._rejected_by_extenders)] = list(self._rejected_by_extenders.values())
        return by_row

    def _fit_error(self, result: PreFilterResult) -> FitError | ScheduleError:
        """Count the rejections by reason; return a ScheduleError if a Status cannot be computed."""
        by_row, excluded = self._by_row(), result.excluded
        reasons: dict[str, int] = {}
        rejectors, pending = set(result.narrowed_by), set()
        rejectors.update(self.status(rejection).plugin for rejection in self._rejected_nominee.values())
        rejections, counts = np.unique(by_row[by_row != UNREACHED], return_counts=True)
        for rejection, count in zip(rejections.tolist(), counts.tolist(), strict=True):
            status = self.status(rejection)
            if not status.is_rejected:
                return ScheduleError(status)
            rejectors.add(status.plugin)
            if status.code == Code.PENDING and rejection in self.filtered.rejections:
                pending.add(status.plugin)
            for reason in status.reasons:
                reasons[reason] = reasons.get(reason, 0) + count
        evaluated = int(counts.sum())
        if excluded is not None and evaluated < self.size:
            for reason in excluded.reasons:
                reasons[reason] = reasons.get(reason, 0) + self.size - evaluated

        def status_of(rejection: int) -> Status:
            return (excluded or _NO_REASON) if rejection == UNREACHED else self.status(rejection)

        diagnosis = Diagnosis(self.nodes, by_row, status_of, tuple(sorted(rejectors)))
        return FitError(diagnosis, reasons, frozenset(rejectors), frozenset(pending), evaluated)

    # -- which one -------------------------------------------------------------------------------------------------

    def _totals(self) -> Scores | Status:
        if not self.profile.scores and self.extenders is None:
            return np.ones(len(self.feasible), dtype=np.int64)
        scoring = Scoring(self.plan, self.state, self.pod, self.nodes, self.positions, self.feasible)
        skipped = scoring.pre_score()
        if self.plan.runs_pre_score:
            self.trace.end_phase("pre_score", skipped if isinstance(skipped, Status) else None)
        return skipped if isinstance(skipped, Status) else scoring.totals(skipped)

    def best(self, totals: Scores) -> ScheduleResult:
        """Draw one of the nodes with the largest total."""
        score = totals.item(totals.argmax())  # a microsecond less than `max`, like `nonzero` than `flatnonzero`
        ties = (totals == score).nonzero()[0]
        chosen = ties.item(self.random.randrange(len(ties)) if len(ties) > 1 else 0)
        positions = ties[:3].tolist()
        if len(positions) < 3:
            rest, positions = totals.copy(), []
            while len(positions) < min(3, len(rest)):
                positions.append(int(rest.argmax()))
                rest[positions[-1]] = _LOWEST
        feasible, by_row = self.feasible, self.nodes.by_row
        rows = zip(feasible[positions].tolist(), totals[positions].tolist(), strict=True)
        best = tuple([(by_row[row].name, total) for row, total in rows])
        node = by_row[feasible.item(chosen)].name
        return ScheduleResult(node, score, len(ties), self.filtered.evaluated, len(feasible), best)
