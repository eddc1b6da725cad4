"""Remembered answers: what the plugins that sign said about every row, caught up with the change logs before use.

A *Layer* holds, for one signature, the first rejection, the weighted total and the raw scores of some plugins on every
row. Plugins that read only the Node object make the lower layer, those that read a node's pods the upper one, which
stands on the lower: its columns contain the lower's. A *Plan* is all that is known in advance about the pods of one
signature: its top layer, and what must be asked afresh in every cycle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import LOWER, PASS, UPPER, StatusTable, of_plugin, order_of
from kframework.core.runtime.points import (
    PreFilterAnswer,
    PreFilterResult,
    ask_pre_filter,
    bad_score,
    fault,
    run_filter,
    run_pre_filter,
    run_pre_score,
    run_score,
)
from kframework.core.runtime.profile import FilterStep, Profile, ScoreStep, Signature, Step, as_column
from kframework.framework.answers import MAX_SCORE, Scores
from kframework.framework.cycle_state import CycleState
from kframework.framework.status import Code, Status
from kframework.state.columns import Column
from kframework.state.log import Log
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod

#: Up to this many rows the scalar form is asked, above it the columnar one. With the default profile ten changed rows
#: cost 0.40 ms one by one and 0.32 as columns, so the turning point lies at about eight.
FEW = 8


# -- asking one plugin about many rows -----------------------------------------------------------------------------


def ask_filter_rows(
    profile: Profile,
    step: FilterStep,
    state: CycleState,
    pod: PendingPod,
    nodes: NodeTable,
    rows: NDArray[np.int64],
    rejections: Scores,
    table: StatusTable,
) -> None:
    """Ask one Filter plugin about these rows and keep the smaller rejection of each.

    `rejections` is aligned to `rows` and changed in place. The columnar form is asked where it is the cheaper one; the
    scalar form only about rows to which no earlier plugin objects, as the answer could not matter elsewhere. A columnar
    form that raises is asked again row by row, so that the fault is that of a node.
    """
    if len(rows) and step.ask_rows is not None and (len(rows) > FEW or not step.scalar):
        try:
            bits = as_column(step.ask_rows(state, pod, nodes, rows), len(rows))
            rejected = np.flatnonzero(bits)
        except Exception as error:
            fault(profile, step.name, "filter_nodes", error)
        else:
            if len(rejected):
                mine = of_plugin(step.order) | (bits[rejected] & 0xFFFFFFFF)
                rejections[rejected] = np.minimum(rejections[rejected], mine)
            return
    open_places = np.flatnonzero(rejections > of_plugin(step.order))
    for place in open_places.tolist():
        status = run_filter(profile, step, state, pod, nodes[int(rows[place])])
        if status is not None:
            rejections[place] = table.rejection(step.order, status)


def ask_score_rows(
    profile: Profile, step: ScoreStep, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: NDArray[np.int64]
) -> tuple[Scores, dict[int, Status]]:
    """Ask one Score plugin about these rows; return its raw scores, aligned, and the faults by row.

    A columnar form that raises is asked again row by row, as in `ask_filter_rows`.
    """
    faults: dict[int, Status] = {}
    if len(rows) and step.ask_rows is not None and (len(rows) > FEW or not step.scalar):
        try:
            raw = as_column(step.ask_rows(state, pod, nodes, rows), len(rows))
        except Exception as error:
            fault(profile, step.name, "score_nodes", error)
        else:
            if step.normalize is None:
                for place in np.flatnonzero((raw < 0) | (raw > MAX_SCORE)).tolist():
                    faults[int(rows[place])] = bad_score(profile, step, int(raw[place]))
            return raw, faults
    # Written out because a call per row is a sixth of what a simple plugin costs: 1.06 us through run_score, 0.88 so.
    ask, low, high = step.ask, step.lowest, step.highest
    by_row = nodes.by_row
    scores: list[int] = []
    for row in rows.tolist():
        try:
            score: int | Status = ask(state, pod, by_row[row])
        except Exception as error:
            score = fault(profile, step.name, "score", error)
        if type(score) is not int or not low <= score <= high:
            faults[row], score = bad_score(profile, step, score), 0
        scores.append(score)
    return np.array(scores, dtype=np.int64), faults


# -- a layer -------------------------------------------------------------------------------------------------------


class Layer:
    """The answers of some plugins for one signature, on every row of the table.

    `rejections`, `totals` (weighted sums of the scores that need no normalising) and `raw` (scores to be normalised, by
    plugin) are columns; a row's total and raw scores mean something only where its rejection is PASS. `faults` holds
    what a Score plugin did wrong, by row.
    """

    def __init__(
        self,
        profile: Profile,
        nodes: NodeTable,
        log: Log,
        filters: Sequence[FilterStep],
        scores: Sequence[ScoreStep],
        below: Layer | None = None,
    ) -> None:
        self._profile = profile
        self._nodes = nodes
        self._log = log.reader()
        #: Counts how often all rows were asked again; and how often the layer below had been, when last looked at.
        self._rebuilt = self._rebuilt_below = 0
        self.filters = filters
        self.scores = scores
        self.below = below
        self.table: StatusTable = StatusTable(LOWER if below is None else UPPER)
        self.rejections: Column = Column(nodes.capacity)
        self.totals: Column = Column(nodes.capacity)
        normalized = [score for score in scores if score.normalize is not None]
        self.raw: dict[str, Column] = {score.name: Column(nodes.capacity) for score in normalized}
        self.faults: dict[int, Status] = {}

    @property
    def nbytes(self) -> int:
        """The memory of the layer's own columns."""
        return (2 + len(self.raw)) * self.rejections.values.nbytes

    @property
    def has_faults(self) -> bool:
        """Whether some plugin's Filter failed on some row."""
        return self.table.faults > 0 or (self.below is not None and self.below.has_faults)

    def catch_up(self, state: CycleState, pod: PendingPod) -> None:
        """Ask again about the rows that changed since the last time; about all of them the first time."""
        below = self.below
        if below is not None:
            below.catch_up(state, pod)
            if below._rebuilt != self._rebuilt_below:
                # Its rejections refer to other Statuses now, and its rejections are part of ours.
                self._rebuilt_below = below._rebuilt
                self._log.restart()
        rows = self._log.changed()
        if rows is not None and not rows:
            return
        if rows is None or len(self.table) > 2 * len(self._nodes) + 2 * FEW:
            self._rebuilt += 1
            self.table.clear()
            self.faults.clear()
            self._ask_rows(state, pod, self._nodes.order)
        elif len(rows) == 1:
            self._ask_row(state, pod, rows[0])
        else:
            distinct = dict.fromkeys(rows)
            if len(distinct) <= FEW:
                for row in distinct:
                    self._ask_row(state, pod, row)
            else:
                self._ask_rows(state, pod, np.fromiter(distinct, dtype=np.int64, count=len(distinct)))

    def _ask_row(self, state: CycleState, pod: PendingPod, row: int) -> None:
        profile, node, below = self._profile, self._nodes[row], self.below
        rejection = PASS if below is None else below.rejections.cells[row]
        reach = order_of(rejection)
        for step in self.filters:
            if step.order > reach:
                break
            status = run_filter(profile, step, state, pod, node)
            if status is not None:
                rejection = self.table.rejection(step.order, status)
                break
        self.rejections.cells[row] = rejection
        if rejection != PASS:
            return
        if self.faults:
            self.faults.pop(row, None)
        total = 0 if below is None else below.totals.cells[row]
        for score_step in self.scores:
            score = run_score(profile, score_step, state, pod, node)
            if isinstance(score, Status):
                self.faults.setdefault(row, score)
            elif score_step.normalize is None:
                total += score_step.weight * score
            else:
                self.raw[score_step.name].cells[row] = score
        self.totals.cells[row] = total

    def _ask_rows(self, state: CycleState, pod: PendingPod, rows: NDArray[np.int64]) -> None:
        profile, nodes, below = self._profile, self._nodes, self.below
        if below is None:
            rejections = np.full(len(rows), PASS, dtype=np.int64)
            totals = np.zeros(len(rows), dtype=np.int64)
        else:
            rejections, totals = below.rejections.values[rows], below.totals.values[rows]
        for step in self.filters:
            ask_filter_rows(profile, step, state, pod, nodes, rows, rejections, self.table)
        self.rejections.values[rows] = rejections
        passing = np.flatnonzero(rejections == PASS)
        if self.faults:
            for row in rows.tolist():
                self.faults.pop(row, None)
        for score_step in self.scores:
            raw, faults = ask_score_rows(profile, score_step, state, pod, nodes, rows[passing])
            for row, status in faults.items():
                self.faults.setdefault(row, status)
            if score_step.normalize is None:
                totals[passing] += score_step.weight * raw
            else:
                self.raw[score_step.name].values[rows[passing]] = raw
        self.totals.values[rows] = totals

    def raw_of(self, plugin: str) -> Column:
        """Return the raw scores of a plugin that normalises, from this layer or the one below."""
        if plugin in self.raw:
            return self.raw[plugin]
        assert self.below is not None
        return self.below.raw_of(plugin)

    def table_of(self, source: int) -> StatusTable:
        """Return the table that a rejection with this source refers to."""
        if self.table.source == source or self.below is None:
            return self.table
        return self.below.table

    @property
    def faulty_scores(self) -> bool:
        """Whether some plugin's Score failed on some row."""
        return bool(self.faults) or (self.below is not None and bool(self.below.faults))

    def score_fault(self, rows: Iterable[int]) -> Status | None:
        """Return what a Score plugin did wrong on the first of these rows where one did."""
        for row in rows:
            found = (self.below.faults.get(row) if self.below is not None else None) or self.faults.get(row)
            if found is not None:
                return found
        return None

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys([*(s.name for s in self.filters), *(s.name for s in self.scores)]))
        return f"<Layer of {names or 'nothing'}{' on ' + repr(self.below) if self.below else ''}>"


# -- a plan --------------------------------------------------------------------------------------------------------


class Plan:
    """What a profile knows in advance about the pods of one signature.

    `top` is None when no plugin signs the pod. `state` is what the signing plugins stored; an attempt's own state
    stands on it. `pre_filter_result` is the whole of PreFilter where every plugin signs, else None and it is run with
    the answers remembered in `pre_filter`. `fresh_filters` and `fresh_scores` are asked in every cycle.
    """

    def __init__(
        self, profile: Profile, signature: Signature, pod: PendingPod, nodes: NodeTable, lower: LowerLayers
    ) -> None:
        self.profile = profile
        self.state: CycleState = CycleState()
        signed = {
            plugin.name for plugin, value in zip(profile.placement, signature.values, strict=True) if value is not None
        }
        self.pre_filter: dict[str, PreFilterAnswer] = {}
        #: The state as it was before a plugin that does not sign: what there is if that plugin ends PreFilter.
        self.before: dict[str, CycleState] = {}

        def ask(step: Step) -> PreFilterAnswer:
            answer = self.pre_filter[step.name] = ask_pre_filter(profile, step, self.state, pod, nodes)
            return answer

        self.pre_filter_result: PreFilterResult | None = None
        if all(step.name in signed for step in profile.pre_filter):
            # Plugins behind the one that ends it store nothing, as in kube-scheduler: PostFilter may notice.
            self.pre_filter_result = run_pre_filter(profile, profile.pre_filter, ask)
        else:
            for step in profile.pre_filter:
                if step.name in signed:
                    ask(step)
                else:
                    self.before[step.name] = self.state.clone()
        #: The plugins to be asked for `pre_filter` in every cycle; none is passed over that rejects the pod or narrows.
        self.fresh_pre_filters: tuple[Step, ...] = tuple(
            step
            for step in profile.pre_filter
            if step.name not in signed or not _consents(self.pre_filter.get(step.name))
        )
        # A pod that is rejected as a whole is never scored, and its plugins need not have stored what scoring wants.
        rejected = any(isinstance(answer, Status) and not _skips(answer) for answer in self.pre_filter.values())
        self.pre_score: dict[str, Status | None] = {
            step.name: run_pre_score(profile, step, self.state, pod, nodes, nodes.order)
            for step in profile.pre_score
            if step.name in signed and not rejected
        }
        silent = {name for name, answer in self.pre_filter.items() if _skips(answer)}
        unscored = {name for name, answer in self.pre_score.items() if _skips(answer) or _fails(answer)}
        filters = [step for step in profile.filters if step.name in signed and step.name not in silent]
        scores = [step for step in profile.scores if step.name in signed and step.name not in unscored]
        self.fresh_filters: tuple[FilterStep, ...] = tuple(step for step in profile.filters if step.name not in signed)
        #: Those to be asked about every row, and those to be asked only along the rotation.
        self.fresh_columnar: tuple[FilterStep, ...] = tuple(
            step for step in self.fresh_filters if step.ask_rows is not None
        )
        self.fresh_scalar: tuple[FilterStep, ...] = tuple(step for step in self.fresh_filters if step.ask_rows is None)
        self.fresh_scores: tuple[ScoreStep, ...] = tuple(step for step in profile.scores if step.name not in signed)
        self.fresh_pre_scores: tuple[Step, ...] = tuple(step for step in profile.pre_score if step.name not in signed)
        self.normalizing: tuple[ScoreStep, ...] = tuple(step for step in scores if step.normalize is not None)
        #: The error of a signing plugin's `pre_score`: it ends the attempt once scoring is reached.
        self.pre_score_fault: Status | None = next(
            (answer for answer in self.pre_score.values() if _fails(answer)), None
        )
        #: The Filter and Score plugins that have something to say, in order: what a few rows are asked by.
        self.filters: tuple[FilterStep, ...] = tuple(step for step in profile.filters if step.name not in silent)
        self.scores: tuple[ScoreStep, ...] = tuple(step for step in profile.scores if step.name not in unscored)
        self.lower_key: tuple[Hashable, ...] = _lower_key(profile, signature)
        below = lower.get(self.lower_key, filters, scores, nodes)
        upper_filters = [step for step in filters if step.plugin.reads != "node"]
        upper_scores = [step for step in scores if step.plugin.reads != "node"]
        upper: Layer | None = None
        if upper_filters or upper_scores:
            upper = Layer(profile, nodes, nodes.pod_log, upper_filters, upper_scores, below)
        self.top: Layer | None = upper or below
        #: The memory of the columns that belong to this plan alone.
        self.nbytes: int = upper.nbytes if upper is not None else 0

    def __repr__(self) -> str:
        fresh = ", ".join(dict.fromkeys([s.name for s in self.fresh_filters] + [s.name for s in self.fresh_scores]))
        return f"<Plan {self.top!r}, afresh: {fresh or 'nobody'}>"


def _skips(answer: PreFilterAnswer) -> bool:
    return isinstance(answer, Status) and answer.code == Code.SKIP


def _consents(answer: PreFilterAnswer) -> bool:
    return answer is None or _skips(answer)


def _fails(answer: Status | None) -> bool:
    return answer is not None and answer.code == Code.ERROR


def _lower_key(profile: Profile, signature: Signature) -> tuple[Hashable, ...]:
    return tuple(
        value for plugin, value in zip(profile.placement, signature.values, strict=True) if plugin.reads == "node"
    )


class LowerLayers:
    """The lower layers of one profile, shared by the plans that have them in common."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._layers: dict[tuple[Hashable, ...], tuple[Layer | None, int]] = {}
        self.nbytes: int = 0

    def get(
        self,
        key: tuple[Hashable, ...],
        filters: Sequence[FilterStep],
        scores: Sequence[ScoreStep],
        nodes: NodeTable,
    ) -> Layer | None:
        """Return the layer of those of the steps that read only the Node object; None if there are none."""
        layer, users = self._layers.get(key, (None, 0))
        if users == 0:
            node_filters = [step for step in filters if step.plugin.reads == "node"]
            node_scores = [step for step in scores if step.plugin.reads == "node"]
            if node_filters or node_scores:
                layer = Layer(self._profile, nodes, nodes.node_log, node_filters, node_scores)
                self.nbytes += layer.nbytes
        self._layers[key] = (layer, users + 1)
        return layer

    def release(self, key: tuple[Hashable, ...]) -> None:
        """Note that a plan no longer uses its layer."""
        layer, users = self._layers.pop(key)
        if users > 1:
            self._layers[key] = (layer, users - 1)
        elif layer is not None:
            self.nbytes -= layer.nbytes

    def clear(self) -> None:
        """Forget all layers."""
        self._layers.clear()
        self.nbytes = 0


class Layers:
    """The plans of one profile, least recently used first, within a budget of bytes.

    All are forgotten when the set of nodes changes.
    """

    def __init__(self, profile: Profile, nodes: NodeTable, budget: int) -> None:
        self._profile = profile
        self._nodes = nodes
        self._budget = budget
        self._plans: OrderedDict[Signature, Plan] = OrderedDict()
        self._lower = LowerLayers(profile)
        self._upper_bytes = 0
        self._generation = nodes.generation

    def plan(self, signature: Signature, pod: PendingPod) -> Plan:
        """Return the plan for a pod of this signature, making it if it is not remembered."""
        if self._generation != self._nodes.generation:
            self.clear()
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plans[signature] = Plan(self._profile, signature, pod, self._nodes, self._lower)
            self._upper_bytes += plan.nbytes
            self._trim()
        else:
            self._plans.move_to_end(signature)
        return plan

    @property
    def nbytes(self) -> int:
        """The memory of all columns."""
        return self._upper_bytes + self._lower.nbytes

    def clear(self) -> None:
        """Forget everything."""
        self._plans.clear()
        self._lower.clear()
        self._upper_bytes = 0
        self._generation = self._nodes.generation

    def _trim(self) -> None:
        while self.nbytes > self._budget and len(self._plans) > 1:
            _, plan = self._plans.popitem(last=False)
            self._upper_bytes -= plan.nbytes
            self._lower.release(plan.lower_key)

    def __len__(self) -> int:
        return len(self._plans)

    def __repr__(self) -> str:
        return f"<Layers of {self._profile.name}: {len(self)} plans, {self.nbytes >> 10} KiB>"
