"""Cached answers of plugins about every node, brought up to date from the change logs before use.

`AnswerColumns` holds, for one signature, the first rejection, the weighted total and the raw scores of some plugins on
every row. Plugins that read only the Node object make the lower columns, those that read a node's pods the upper ones,
which contain the lower. `NominatedRejections` holds the answers about nodes on which nominated pods are assumed to run.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import (
    FIRST,
    LOWER,
    NOMINATED,
    PASS,
    UNREACHED,
    UPPER,
    FilterTarget,
    StatusTable,
    filter_assuming_nominated_pods,
    plugin_order,
    plugin_rejection,
)
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, ScoreStep, as_column
from kframework.errors import FAULTS
from kframework.framework.cycle_state import CycleState
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column
from kframework.state.log import Log
from kframework.state.node_order import Positions
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import MAX_SCORE, Scores
from kframework.values.status import Status

#: Up to this many rows the scalar form runs, above it the columnar one. With the default profile ten changed rows
#: cost 0.40 ms one by one and 0.32 ms as columns, so the break-even is at about eight.
FEW = 8

#: The sizes of a layer and of each of its columns for no nodes, in bytes (measured).
_PER_LAYER, _PER_COLUMN = 2048, 512


# -- asking one plugin about many rows -----------------------------------------------------------------------------


def ask_filter_rows(
    step: FilterStep,
    state: CycleState,
    pod: PendingPod,
    nodes: NodeTable,
    rows: NDArray[np.int64],
    rejections: Scores,
    table: StatusTable,
) -> None:
    """Run one Filter plugin on these rows and keep the smaller rejection of each.

    `rejections` is aligned to `rows` and changed in place. The columnar form is used if it is cheaper; the scalar form
    runs only on rows that no earlier plugin rejects, as its answer could not matter elsewhere. If a columnar form
    raises, the scalar form runs row by row, so that the fault belongs to a node.
    """
    if len(rows) and step.run_rows is not None and (len(rows) > FEW or not step.scalar):
        try:
            bits = as_column(step.run_rows(state, pod, nodes, rows), len(rows))
            rejected = bits.nonzero()[0]
        except FAULTS as error:
            step.fault_status(step.name, "filter_nodes", error)
        else:
            if len(rejected):
                mine = plugin_rejection(step.order) | (bits[rejected] & 0xFFFFFFFF)
                rejections[rejected] = np.minimum(rejections[rejected], mine)
            return
    open_positions = np.flatnonzero(rejections > plugin_rejection(step.order))
    for position in open_positions.tolist():
        status = step.run(state, pod, nodes[int(rows[position])])
        if status is not None:
            rejections[position] = table.encode(step.order, status)


def ask_score_rows(
    step: ScoreStep, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: NDArray[np.int64]
) -> tuple[Scores, dict[int, Status]]:
    """Run one Score plugin on these rows; return its raw scores, aligned, and the faults by row."""
    faults: dict[int, Status] = {}
    if len(rows) and step.run_rows is not None and (len(rows) > FEW or not step.scalar):
        try:
            raw = as_column(step.run_rows(state, pod, nodes, rows), len(rows))
        except FAULTS as error:
            step.fault_status(step.name, "score_nodes", error)
        else:
            # Read as unsigned, negative scores are the largest.
            if step.normalize is None and np.count_nonzero(invalid := raw.view(np.uint64) > MAX_SCORE):
                for position in invalid.nonzero()[0].tolist():
                    faults[int(rows[position])] = step.invalid_score(int(raw[position]))
            return raw, faults
    # Inlined: another call would cost a sixth of a simple plugin (1.06 us per row through `ask`, 0.88 us inlined).
    call, low, high, by_row = step.call, step.lowest, step.highest, nodes.by_row
    scores: list[int] = []
    for row in rows.tolist():
        try:
            score = call(state, pod, by_row[row])
        except FAULTS as error:
            faults[row], score = step.fault_status(step.name, "score", error), 0
        if type(score) is not int or not low <= score <= high:
            faults[row], score = step.invalid_score(score), 0
        scores.append(score)
    return np.array(scores, dtype=np.int64), faults


# -- a layer -------------------------------------------------------------------------------------------------------


class AnswerColumns:
    """Cached answers of some plugins for one signature on every node; invalid once the set of nodes changes.

    `rejections`, `totals` (weighted sums of the scores that need no normalising) and `raw` (scores to be normalised, by
    plugin) are columns in node order, so a search reads them without a copy: all of 50,000 nodes in 160 us instead of
    280. A node's total and raw scores are valid only if its rejection is PASS. `passing` is true where it is, for all
    but `rejected` nodes. `uniform` has, by plugin, the raw score that all nodes share, None if they differ. `faults`
    holds the faults of Score plugins, by row.
    """

    def __init__(
        self,
        nodes: NodeTable,
        log: Log[int],
        filters: tuple[FilterStep, ...],
        scores: tuple[ScoreStep, ...],
        below: AnswerColumns | None = None,
    ) -> None:
        self._nodes = nodes
        self._log = log.reader()
        #: How often all rows were recomputed; and that count of the layer below at the last update.
        self._rebuilt = self._rebuilt_below = 0
        self.filters = filters
        self.scores = scores
        self.below = below
        self.table: StatusTable = StatusTable(LOWER if below is None else UPPER)
        self.rejections: Column = Column(len(nodes))
        self.totals: Column = Column(len(nodes))
        self.passing: NDArray[np.bool_] = np.zeros(len(nodes), dtype=np.bool_)
        self.rejected: int = len(nodes)
        normalized = [score for score in scores if score.normalize is not None]
        self.raw: dict[str, Column] = {score.name: Column(len(nodes)) for score in normalized}
        self.uniform: dict[str, int | None] = dict.fromkeys(self.raw)
        self.faults: dict[int, Status] = {}
        #: Whether some Filter or Score plugin failed on some row, here or below.
        self.has_faults: bool = False
        self.has_faulty_scores: bool = False
        #: The memory that its cache last counted, in bytes.
        self.counted: int = 0

    @property
    def nbytes(self) -> int:
        """The memory of the layer, without the one below, in bytes."""
        columns, nodes = 2 + len(self.raw), len(self.passing)
        return _PER_LAYER + columns * (_PER_COLUMN + 8 * nodes) + nodes + self.table.nbytes

    def catch_up(self, profile: Profile, state: CycleState, pod: PendingPod) -> list[int] | None:
        """Recompute the rows that changed since the last call, and return them; None if all may have changed.

        `profile` may be the timed copy.
        """
        below = self.below
        if below is not None:
            below.catch_up(profile, state, pod)
            if below._rebuilt != self._rebuilt_below:
                # Its rejections, which ours include, refer to other Statuses now.
                self._rebuilt_below = below._rebuilt
                self._log.restart()
        rows = self._log.read_new()
        if rows == []:
            return rows
        nodes = len(self.passing)
        if rows is None or len(rows) > max(nodes, FEW) or len(self.table.statuses) > 2 * nodes + 2 * FEW:
            rows = None
            self._ask_all(profile, state, pod)
        elif len(rows) <= FEW:
            for row in dict.fromkeys(rows):
                self._ask_row(profile, state, pod, row)
        else:
            self._ask_rows(profile, state, pod, np.fromiter(rows, dtype=np.int64, count=len(rows)))
        self.has_faults = self.table.faults > 0 or (below is not None and below.has_faults)
        self.has_faulty_scores = bool(self.faults) or (below is not None and below.has_faulty_scores)
        return rows

    def _ask_all(self, profile: Profile, state: CycleState, pod: PendingPod) -> None:
        self._rebuilt += 1
        self.table.clear()
        self.faults.clear()
        self._ask_rows(profile, state, pod, self._nodes.order)
        for name, column in self.raw.items():
            least, most = int(column.values.min(initial=0)), int(column.values.max(initial=0))
            self.uniform[name] = least if least == most else None

    def _ask_row(self, profile: Profile, state: CycleState, pod: PendingPod, row: int) -> None:
        node, position, below = self._nodes.by_row[row], self._nodes.positions.item(row), self.below
        rejection = PASS if below is None else below.rejections.cells[position]
        reach = plugin_order(rejection)
        for step in profile.matching_steps(self.filters):
            if step.order > reach:
                break
            # `ask`, inlined here and below for the same reason as in `ask_score_rows`.
            try:
                answer = step.call(state, pod, node)
                status = None if answer is None else step.check_answer(answer)
            except FAULTS as error:
                status = step.fault_status(step.name, "filter", error)
            if status is not None:
                rejection = self.table.encode(step.order, status)
                break
        passes = rejection == PASS
        self.rejections.cells[position] = rejection
        if self.passing.item(position) != passes:
            self.passing[position] = passes
            self.rejected += -1 if passes else 1
        if not passes:
            return
        if self.faults:
            self.faults.pop(row, None)
        total = 0 if below is None else below.totals.cells[position]
        for score_step in profile.matching_steps(self.scores):
            try:
                score = score_step.call(state, pod, node)
            except FAULTS as error:
                self.faults.setdefault(row, score_step.fault_status(score_step.name, "score", error))
                continue
            if type(score) is not int or not score_step.lowest <= score <= score_step.highest:
                self.faults.setdefault(row, score_step.invalid_score(score))
            elif score_step.normalize is None:
                total += score_step.weight * score
            else:
                self.raw[score_step.name].cells[position] = score
                if score != self.uniform[score_step.name]:
                    self.uniform[score_step.name] = None
        self.totals.cells[position] = total

    def _ask_rows(self, profile: Profile, state: CycleState, pod: PendingPod, rows: NDArray[np.int64]) -> None:
        nodes, positions, below = self._nodes, self._nodes.positions[rows], self.below
        if below is None:
            rejections = np.full(len(rows), PASS, dtype=np.int64)
            totals = np.zeros(len(rows), dtype=np.int64)
        else:
            rejections, totals = below.rejections.values[positions], below.totals.values[positions]
        for step in profile.matching_steps(self.filters):
            ask_filter_rows(step, state, pod, nodes, rows, rejections, self.table)
        self.rejections.values[positions] = rejections
        passes = rejections == PASS
        self.passing[positions] = passes
        self.rejected = len(self.passing) - int(np.count_nonzero(self.passing))
        found = passes.nonzero()[0]
        passing: Positions = slice(None) if len(found) == len(rows) else found
        if self.faults:
            for row in rows.tolist():
                self.faults.pop(row, None)
        for score_step in profile.matching_steps(self.scores):
            raw, faults = ask_score_rows(score_step, state, pod, nodes, rows[passing])
            for row, status in faults.items():
                self.faults.setdefault(row, status)
            if score_step.normalize is None:
                totals[passing] += raw if score_step.weight == 1 else score_step.weight * raw
            else:
                self.raw[score_step.name].values[positions[passing]] = raw
                if self.uniform[score_step.name] is not None and (raw != self.uniform[score_step.name]).any():
                    self.uniform[score_step.name] = None
        self.totals.values[positions] = totals

    def raw_of(self, plugin: str) -> Column:
        """Return the raw scores of a plugin that normalises, from this layer or the one below."""
        if plugin in self.raw:
            return self.raw[plugin]
        assert self.below is not None
        return self.below.raw_of(plugin)

    def uniform_raw_score(self, plugin: str) -> int | None:
        """Return the raw score of a normalising plugin if it is the same on all nodes, else None."""
        if plugin in self.uniform:
            return self.uniform[plugin]
        assert self.below is not None
        return self.below.uniform_raw_score(plugin)

    @property
    def tables(self) -> tuple[StatusTable, ...]:
        """The tables that its rejections refer to."""
        return (self.table,) if self.below is None else (self.table, *self.below.tables)

    def score_fault(self, rows: Iterable[int]) -> Status | None:
        """Return the first fault of a Score plugin on these rows."""
        for row in rows:
            found = (self.below.faults.get(row) if self.below is not None else None) or self.faults.get(row)
            if found is not None:
                return found
        return None


class ChangedRows:
    """A log of the rows whose node, pods or nominated pods changed between two pods.

    A pod's own nomination does not count against it, so the row it is nominated to always counts as changed.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._nodes = cluster.nodes
        self._nominator = cluster.nominator
        self._pods = cluster.nodes.pod_log.reader()
        self._nominations = cluster.nominator.log.reader()
        self._own = ""

    def since_last(self, pod: PodInfo) -> list[int] | None:
        """Return the changed rows, possibly with duplicates; None if any may have changed, as at first."""
        rows, names = self._pods.read_new(), self._nominations.read_new()
        before, self._own = self._own, self._nominator.nominated_node(pod.uid)
        if rows is None or names is None:
            return None
        found = (self._nodes.row(name) for name in (before, self._own, *names) if name)
        return [*rows, *(row for row in found if row is not None)]


class NominatedRejections:
    """Cached filter results for one pod signature, assuming nominated pods already run on their nodes.

    Call `catch_up` before reading.
    """

    def __init__(self) -> None:
        self.table: StatusTable = StatusTable(NOMINATED)
        self._changed: ChangedRows | None = None
        self._rejections: Column = Column(0)
        #: Nominated pods of equal or higher priority count, so the answers depend on the pod's priority.
        self._priority = 0

    @property
    def nbytes(self) -> int:
        """The memory of the answers, in bytes."""
        return self._rejections.values.nbytes + self.table.nbytes

    def catch_up(self, cluster: ClusterState, pod: PendingPod) -> None:
        """Drop the answers that changed since the last pod."""
        nodes = cluster.nodes
        if self._changed is None:
            self._changed, self._rejections = ChangedRows(cluster), Column(nodes.capacity)
        rows = self._changed.since_last(pod)
        if rows is None or pod.priority != self._priority or len(self.table) > 2 * len(nodes):
            self._priority = pod.priority
            self.table.clear()
            self._rejections.values[:] = PASS
            found = (nodes.row(name) for name in cluster.nominator.node_names)
            rows = [row for row in found if row is not None]
        for row in rows:
            self._rejections.cells[row] = UNREACHED

    def rejections(self, question: FilterTarget, state: CycleState, rows: NDArray[np.int64]) -> Scores:
        found = self._rejections.values[rows]
        for position in np.flatnonzero(found == UNREACHED).tolist():
            row = int(rows[position])
            node = question.cluster.nodes[row]
            status = filter_assuming_nominated_pods(question, question.filters, state, node)
            rejection = PASS if status is None else self.table.encode(FIRST, status)
            found[position] = self._rejections.cells[row] = rejection
        return found
