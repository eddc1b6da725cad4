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

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import FEW, AnswerColumns, NominatedRejections, ask_filter_rows
from kframework.core.cycle.plan import Plan
from kframework.core.cycle.rejections import (
    ATTEMPT,
    FIRST,
    PASS,
    UNREACHED,
    StatusTable,
    count_reasons,
    decode_status,
    filter_with_nominated_pods,
    plugin_order,
    plugin_rejection,
)
from kframework.core.cycle.results import FilterOutcome, FitError, Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.rotation import Rotation, find_first_passing, nodes_to_find, row_by_row
from kframework.core.cycle.scoring import Scoring, find_best
from kframework.core.cycle.suspendable import ExtenderClient, ExtenderError, run_sync
from kframework.core.runtime.points import PreFilterResult, run_pre_filter
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.profiles import EXTENDER
from kframework.core.runtime.steps import FilterStep
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import FAULTS
from kframework.framework.answers import Diagnosis
from kframework.framework.cycle_state import CycleState
from kframework.framework.suspendable import Suspendable, wait_for
from kframework.state.cluster import ClusterState
from kframework.state.node_order import Positions, rotate, take
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

_log = logging.getLogger(__name__)

_NONE = np.zeros(0, dtype=np.int64)
_NO_NODES = ScheduleError(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("no nodes available to schedule pods",)))
#: The phase of a pod whose plugins need not run again.
_PRE_FILTERED = ("pre_filter", 0, Code.SUCCESS)
_NO_REASON = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_NOT_FILTERED = FilterOutcome()


class Search:
    """One attempt to find a node for a pod; its attributes expose the result of each phase.

    `plan` is narrowed as it goes: from PreFilter on it holds only plugins that do not skip the pod. The search has
    `evaluated` this many nodes; the `candidates` passed. `feasible` are the rows of the nodes to be scored, `positions`
    their positions in node order: those of the candidates that extenders leave. `totals` are aligned to them. Nodes
    outside the positions `scope` do not exist for the search, though they do for plugins.
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
        scope: NDArray[np.int64] | None = None,
    ) -> None:
        self.cluster = cluster
        self.nodes: NodeTable = cluster.nodes
        self.scope = scope
        self.size: int = len(cluster.nodes if scope is None else scope)
        self.has_nominations: bool = bool(len(cluster.nominator))
        self.profile: Profile = plan.profile
        self.plan: Plan = plan
        self.pod: PendingPod = pod
        self.rotation = rotation
        self.start_index: int = rotation.next_start_index
        self.random = random
        self.trace: AttemptTrace = trace or AttemptTrace(pod, 0)
        self.extenders = extenders
        self.state: CycleState = CycleState(plan.state)
        self.table: StatusTable = StatusTable(ATTEMPT)
        #: None until it is read, if the plan's columns determine it.
        self._filtered: FilterOutcome | None = _NOT_FILTERED
        #: How many feasible nodes end the search.
        self.enough: int = 0
        self.evaluated: int = 0
        self.candidates: Positions = _NONE
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
            outcome = self._only_node()
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

    def repeat(self, pod: PendingPod, signature: Signature, trace: AttemptTrace) -> ScheduleResult | None:
        """Find a node for the next pod of a run or group; None if the plan's columns do not tell.

        Extenders are asked about each pod. Since the last pod only its node changed. Both share a state, which no
        plugin writes from Reserve on.
        """
        plan, cache = self.plan, self.plan.cache
        is_alike = signature is plan.signature and not pod.nominated_node_name and self.extenders is None
        if not is_alike or not self.size or cache is None or not plan.binds_directly or plan.is_outdated:
            return None
        self.pod, self.trace, self.start_index = pod, trace, self.rotation.next_start_index
        cache.catch_up(self.profile, plan.state, pod)
        if not self.is_remembered or cache.has_faulty_scores:
            return None
        self._filter_by_columns(cache)
        if not len(self.feasible):
            return None
        trace.phases.append(_PRE_FILTERED)
        trace.end_phase("filter")
        if len(self.feasible) == 1:
            return self._only_node()
        if isinstance(totals := self._totals(), Status):
            return None
        self.totals = totals
        best = self.best(totals)
        trace.end_phase("score")
        return best

    # -- PreFilter -------------------------------------------------------------------------------------------------

    def pre_filter(self) -> PreFilterResult:
        """Run PreFilter: whether the pod can be placed at all, and on which nodes."""
        plan, arguments = self.plan, (self.state, self.pod, self.nodes)

        def run() -> PreFilterResult:
            return plan.pre_filter_result or run_pre_filter(plan.pre_filters, *arguments)

        is_wrapped = self.profile.has_wrapper("pre_filter")
        result = self.profile.run_wrapped("pre_filter", run, PreFilterResult, *arguments) if is_wrapped else run()
        if result.ended_by in plan.before:
            # In kube-scheduler the signing plugins behind it did not run: PostFilter must not find their state.
            self.state = self.state.with_parent(plan.before[result.ended_by])
        skipped = result.skipped
        if self.has_nominations and plan.renewal is not None:
            # A plugin that skips is not asked about nominated pods either; else skipping makes no difference.
            skipped |= plan.renewal.run(self.pod)
        if skipped:
            self.plan = plan.skipping(skipped)
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
        if row is None or (self.scope is not None and self.nodes.positions[row] not in self.scope):
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
        percentage = self.profile.percentage_of_nodes_to_score
        # Without scores or extenders nodes are not compared, and the first feasible one will do.
        self.enough = enough = nodes_to_find(nodes, percentage) if self.needs_scoring else 1
        if self.is_remembered:
            assert self.plan.cache is not None
            self._filter_by_columns(self.plan.cache)
            return None
        # The number of rows that the previous pod needed, plus an eighth, is mostly enough; scalar filters along the
        # rotation stop by themselves.
        likely = self.plan.evaluated[-1] * 9 // 8 or 2 * enough
        first = nodes if self.plan.fresh_scalar else min(likely + 2, nodes)
        filtered = self.run_filters(allowed, first, enough)
        while filtered.evaluated == len(rows := filtered.node_order) < nodes:
            # The number of rows needed at this pass rate, plus a quarter.
            likely = len(rows) * 5 * enough // (4 * max(1, len(self.nodes.order[filtered.candidates])))
            filtered = self.run_filters(allowed, min(likely + 1, nodes), enough)
        self._filtered = filtered
        self.evaluated = self.plan.evaluated[-1] = filtered.evaluated
        self.candidates = filtered.candidates
        self.keep_feasible(self.candidates)
        status = self._first_fault(filtered)
        self._advance_start_index()
        return None if status is None else ScheduleError(status)

    @property
    def is_remembered(self) -> bool:
        """Whether the plan's columns currently determine which nodes pass."""
        cache = self.plan.cache if self.plan.is_remembered and not self.has_nominations else None
        return cache is not None and not (cache.has_faults or self._rejected_nominee or self.plan.is_outdated)

    def _filter_by_columns(self, cache: AnswerColumns) -> None:
        """Find the first passing nodes in the plan's columns."""
        passing, rejected = cache.passing, cache.rejected
        if self.scope is not None:
            passing = passing[self.scope]
            rejected = len(passing) - int(np.count_nonzero(passing))
        found, self.evaluated = find_first_passing(passing, rejected, self.start_index, self.enough)
        self.candidates, self._filtered = found if self.scope is None else self.scope[found], None
        self.keep_feasible(self.candidates)
        self.rotation.next_start_index = (self.start_index + self.evaluated) % self.size

    @property
    def filtered(self) -> FilterOutcome:
        """The evaluated nodes with their rejections."""
        if self._filtered is None:
            assert self.plan.cache is not None
            evaluated = self._next_positions(self.evaluated, self.scope)
            rejections = self.plan.cache.rejections.view[evaluated]
            self._filtered = FilterOutcome(self.nodes.order[evaluated], rejections, self.evaluated, self.candidates)
        return self._filtered

    @property
    def needs_scoring(self) -> bool:
        """Whether feasible nodes are compared; otherwise the search stops at the first one."""
        return bool(self.profile.scores) or (self.extenders is not None and self.extenders.needs_scoring)

    def allowed(self, result: PreFilterResult) -> NDArray[np.int64] | None:
        """Return the positions of the nodes worth looking at, None for all."""
        if result.nodes is None:
            return self.scope
        rows = [row for name in result.nodes if (row := self.nodes.row(name)) is not None]
        allowed = np.sort(self.nodes.positions[rows]) if rows else _NONE
        return allowed if self.scope is None else np.intersect1d(allowed, self.scope)

    def _next_positions(self, count: int, allowed: NDArray[np.int64] | None) -> Positions:
        if allowed is None:
            return rotate(self.start_index, count, self.size)
        return allowed[rotate(self.start_index, count, len(allowed))]

    def run_filters(self, allowed: NDArray[np.int64] | None, count: int, enough: int) -> FilterOutcome:
        """Filter `count` nodes; called with the first few, and with more if those were not enough."""
        positions = self._next_positions(count, allowed)
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
        """Run the scalar plugins that do not sign, along the rotation until enough nodes pass."""
        steps = self.plan.fresh_scalar
        if not steps:
            return
        passed, state, pod, by_row = 0, self.state, self.pod, self.nodes.by_row
        later = (rejections > plugin_rejection(steps[0].order)).nonzero()[0]
        for position, row in row_by_row(later, node_order):
            node, reach = by_row[row], plugin_order(rejections.item(position))
            # `filter_node`, inlined for the same reason as in `ask_score_rows`.
            for step in steps:
                if step.order > reach:
                    break
                try:
                    answer = step.call(state, pod, node)
                    status = None if answer is None else step.check_answer(answer)
                except FAULTS as error:
                    status = step.fault_status(step.name, "filter", error)
                if status is not None:
                    rejections[position] = self.table.encode(step.order, status)
                    break
            passed += rejections.item(position) == PASS
            if passed > enough:
                # The rest was not reached.
                rejections[position + 1 :] = UNREACHED
                return

    def _first_fault(self, filtered: FilterOutcome) -> Status | None:
        """Return the first fault in rotation order, which ends the search there."""
        cache, nominated = self.plan.cache, self._nominated_rejections
        remembered = (cache is not None and cache.has_faults) or (nominated is not None and nominated.table.faults)
        if self.table.faults or remembered:
            for position, rejection in enumerate(filtered.rejections[: filtered.evaluated].tolist()):
                if rejection != PASS and not self.status(rejection).is_rejected:
                    self.evaluated = position
                    return self.status(rejection)
        return None

    def _advance_start_index(self) -> None:
        """Start the next search behind the evaluated nodes; the nominated node counts wherever it is."""
        rows = self.filtered.node_order[: self.evaluated]
        evaluated = self.evaluated + sum(row not in rows for row in self._rejected_nominee)
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
        return [self.nodes.by_row[row] for row in self.feasible.tolist()]

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
        by_row[list(self._rejected_nominee)] = list(self._rejected_nominee.values())
        by_row[filtered.node_order[: self.evaluated]] = filtered.rejections[: self.evaluated]
        by_row[list(self._rejected_by_extenders)] = list(self._rejected_by_extenders.values())
        return by_row

    def _fit_error(self, result: PreFilterResult) -> FitError | ScheduleError:
        """Count the rejections by reason; return a ScheduleError if a Status cannot be computed."""
        excluded = result.excluded

        def status_of(rejection: int) -> Status:
            return (excluded or _NO_REASON) if rejection == UNREACHED else self.status(rejection)

        diagnosis = Diagnosis(self.nodes, self._by_row(), status_of)
        rejectors, pending, counts, evaluated = set(result.narrowed_by), set(), list[tuple[Status, int]](), 0
        rejectors.update(self.status(rejection).plugin for rejection in self._rejected_nominee.values())
        for rejection, count in diagnosis.counts():
            if rejection == UNREACHED:
                continue
            evaluated += count
            status = self.status(rejection)
            if not status.is_rejected:
                return ScheduleError(status)
            rejectors.add(status.plugin)
            if status.code == Code.PENDING and rejection in self.filtered.rejections:
                pending.add(status.plugin)
            counts.append((status, count))
        if excluded is not None and evaluated < self.size:
            counts.append((excluded, self.size - evaluated))
        diagnosis.rejectors = tuple(sorted(rejectors))
        return FitError(diagnosis, count_reasons(counts), frozenset(rejectors), frozenset(pending), evaluated)

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
        number, feasible, by_row = len(ties), self.feasible, self.nodes.by_row
        chosen = ties.item(self.random.randrange(number) if number > 1 else 0)
        best = tuple([(by_row[feasible.item(each)].name, total) for each, total in find_best(totals, score, ties)])
        return ScheduleResult(by_row[feasible.item(chosen)].name, score, number, self.evaluated, len(feasible), best)

    def _only_node(self) -> ScheduleResult:
        return ScheduleResult(self.nodes.by_row[self.feasible[0]].name, 0, 1, self.evaluated, 1)
