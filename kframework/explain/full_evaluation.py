"""A full evaluation of one pod: the current answers of all plugins on all nodes, without side effects.

An attempt knows only the first rejection of each node it evaluated, mostly from caches; an evaluation calls all plugins
on all nodes, in columns if they have that form. It is work in slices (`time_sliced`): between two of them the scheduler
runs, no Statement is open, and random draws and requests of the plugins are undone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import ask_filter_rows, ask_score_rows
from kframework.core.cycle.records import fit_error
from kframework.core.cycle.rejections import (
    ATTEMPT,
    FIRST,
    PASS,
    StatusTable,
    add_nominated_pods,
    count_reasons,
    decode_status,
)
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.points import PreFilterResult, run_pre_filter_point, run_pre_score_point
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, ScoreStep, as_column
from kframework.errors import PluginError
from kframework.framework.answers import Diagnosis
from kframework.framework.cycle_state import CycleState
from kframework.scheduler.cooperative import time_sliced
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Scores
from kframework.values.status import Status, unresolvable

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: The number of rows evaluated in one piece: without a columnar form, and with one.
_SCALAR_CHUNK, _COLUMNAR_CHUNK = 16, 2_000

#: The logger of plugin faults.
_fault_log = logging.getLogger("kframework.core.runtime.profile")

_NO_ROWS = np.zeros(0, dtype=np.int64)


class ScoreColumn(msgspec.Struct, frozen=True):
    """The scores of one Score plugin for the feasible nodes: raw, normalised to 0..100, and the weight."""

    plugin: str
    weight: int
    raw: Scores
    normalized: Scores


class FullEvaluation:
    """The answers of the plugins of the pod's profile, complete once its `work` is done.

    `rows` are the evaluated nodes, in node order, and `names` their names: rows are reused after deletions.
    `rejections` holds each Filter plugin's own rejection by row, PASS if none, regardless of others; `first_rejection`
    the first of them in configured order, as an attempt counts them. `feasible` are the rows that all of them accept,
    in node order; `scores` and `totals` are aligned to them. Like an attempt, it scores two feasible nodes or more;
    unlike one, it evaluates all.
    """

    def __init__(self, engine: PodEngine, pod: PendingPod) -> None:
        self.engine = engine
        self.cluster: ClusterState = engine.cluster
        self.nodes: NodeTable = engine.cluster.nodes
        self.profile: Profile = engine.profiles[pod.scheduler_name]
        self.pod = pod
        self._random = self._random_generators()
        self._generation = self.nodes.generation
        self._reset()

    def _reset(self) -> None:
        self.pre_filter_result: PreFilterResult = PreFilterResult()
        self.state: CycleState = CycleState()
        self.rows: NDArray[np.int64] = self.nodes.order
        #: Those of them that PreFilter leaves.
        self.candidate_rows: NDArray[np.int64] = _NO_ROWS
        self.names: list[str] = []
        #: The Filter plugins that do not skip this pod, in order.
        self.filters: tuple[FilterStep, ...] = ()
        self.rejections: dict[str, Scores] = {}
        self.first_rejection: Scores = np.full(self.nodes.capacity, PASS, dtype=np.int64)
        #: The first rejections to the nodes in configured order, each with the number of nodes.
        self.status_counts: list[tuple[Status, int]] = []
        self.feasible: NDArray[np.int64] = _NO_ROWS
        self.scores: list[ScoreColumn] = []
        self.totals: Scores = _NO_ROWS
        #: The error of a plugin in scoring; then there are no totals.
        self.fault: Status | None = None
        #: The pods nominated to a row that this one must leave room for.
        self.nominated: dict[int, Sequence[PodInfo]] = {}
        self._table = StatusTable(ATTEMPT)
        self._statuses: dict[int, Status] = {}

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Open a slice of work: the pod is on no node, and draws and requests of plugins are undone at the end."""
        random_states = [(random, random.getstate()) for random in self._random]
        with self.engine.isolated(), self.cluster.statement() as what_if:
            pod = self.cluster.pods.get(self.pod.uid)
            if pod is not None and pod.row >= 0:
                what_if.remove(pod)
            # Attempts log the faults of plugins, and the evaluation reports them.
            before, _fault_log.disabled = _fault_log.disabled, True
            try:
                yield
            finally:
                _fault_log.disabled = before
                while self.cluster.statements[-1] is not what_if:
                    self.cluster.statements[-1].rollback()  # a plugin left it open
                for random, state in random_states:
                    random.setstate(state)

    def _random_generators(self) -> list[Random]:
        """List the generators that plugins may draw from: of the gates, and of the plugins that do not sign the pod."""
        profile = self.profile
        try:
            values: Sequence[object] = profile.sign(self.pod).values
        except PluginError:
            values = [None] * len(profile.placement)
        drawing = {plugin.name for plugin, value in zip(profile.placement, values, strict=True) if value is None}
        drawing |= {step.name for step in profile.pre_enqueue}
        return [plugin.handle.random for name, plugin in profile.plugins.items() if name in drawing]

    def work(self) -> Iterator[None]:
        """Evaluate; yields where it may pause, and starts over if nodes are added or deleted meanwhile."""
        is_complete = False
        while not is_complete:
            self._generation, is_complete = self.nodes.generation, True
            for _ in self._evaluate():
                yield
                if self.is_stale:
                    is_complete = False
                    break

    @property
    def is_stale(self) -> bool:
        """Whether nodes were added or deleted since it began: rows may have other nodes."""
        return self.nodes.generation != self._generation

    def _evaluate(self) -> Iterator[None]:
        self._reset()
        self.pre_filter_result = run_pre_filter_point(self.profile, self.state, self.pod, self.nodes)
        yield
        for chunk in _chunks(self.rows, _COLUMNAR_CHUNK):
            self.names += [self.nodes.by_row[row].name for row in chunk.tolist()]
            yield
        allowed = self.pre_filter_result.nodes
        rows = self.candidate_rows = (
            self.rows if allowed is None else self.rows[[name in allowed for name in self.names]]
        )
        if self.pre_filter_result.status is not None:
            return
        self.filters = tuple(step for step in self.profile.filters if step.name not in self.pre_filter_result.skipped)
        for step in self.filters:
            column = self.rejections[step.name] = np.full(self.nodes.capacity, PASS, dtype=np.int64)
            for chunk in _chunks(rows, _SCALAR_CHUNK if step.run_rows is None else _COLUMNAR_CHUNK):
                rejections = np.full(len(chunk), PASS, dtype=np.int64)
                ask_filter_rows(step, self.state, self.pod, self.nodes, chunk, rejections, self._table)
                column[chunk] = rejections
                yield
        yield from self._filter_assuming_nominated_pods(rows)
        for column in self.rejections.values():
            np.minimum(self.first_rejection, column, out=self.first_rejection)
        yield
        yield from self._count_statuses()
        self.feasible = rows[self.first_rejection[rows] == PASS]
        if len(self.feasible) > 1:
            yield from self._score_nodes()

    def _filter_assuming_nominated_pods(self, rows: NDArray[np.int64]) -> Iterator[None]:
        """Filter again where pods are nominated, assuming them on their nodes; such rejections come first."""
        nominator = self.cluster.nominator
        for name in list(nominator.node_names):
            row = self.nodes.row(name)
            # Some may have been bound meanwhile, or have lost their nomination.
            nominated = nominator.nominated_pods_for_node(self.pod, name)
            if not nominated or row is None or row not in rows:
                continue
            self.nominated[row], node = nominated, self.nodes[row]
            with self.cluster.statement() as what_if:
                state = add_nominated_pods(what_if, self, self.state, node, nominated)
                if isinstance(state, Status):
                    self.first_rejection[row] = self._table.encode(FIRST, state)
                else:
                    for step in self.filters:
                        if (status := step.run(state, self.pod, node)) is not None:
                            self.rejections[step.name][row] = self._table.encode(step.order, status)
            yield

    def _score_nodes(self) -> Iterator[None]:
        skipped = run_pre_score_point(self.profile, self.state, self.pod, self.nodes, self.feasible)
        yield
        if isinstance(skipped, Status):
            self.fault = skipped
            return
        totals = np.zeros(len(self.feasible), dtype=np.int64)
        for step in self.profile.scores:
            if step.name not in skipped:
                yield from self._score_plugin(step)
                if self.fault is not None:
                    return
                totals += self.scores[-1].normalized * step.weight
        self.totals = totals

    def _score_plugin(self, step: ScoreStep) -> Iterator[None]:
        raw: list[Scores] = []
        for chunk in _chunks(self.feasible, _SCALAR_CHUNK if step.run_rows is None else _COLUMNAR_CHUNK):
            scores, faults = ask_score_rows(step, self.state, self.pod, self.nodes, chunk)
            if faults:
                self.fault = next(iter(faults.values()))
                return
            raw.append(scores)
            yield
        column = np.concatenate(raw)
        normalized = column if step.normalize is None else step.normalize_scores(self.state, self.pod, column.copy())
        if isinstance(normalized, Status):
            self.fault = normalized
        else:
            self.scores.append(ScoreColumn(step.name, step.weight, column, as_column(normalized, len(column))))

    def status(self, rejection: int) -> Status:
        status = self._statuses.get(rejection)
        if status is None:
            status = self._statuses[rejection] = decode_status(
                rejection, (self._table,), self.profile.filters, self.pod
            )
        return status

    def rejection_of(self, node: str) -> Status | None:
        """Return the first rejection of a node; None if it is feasible, or unknown."""
        row, result = self.nodes.row(node), self.pre_filter_result
        if row is None or result.status is not None:
            return result.status
        if row not in self.candidate_rows:
            return None if result.excluded is None else result.excluded.with_plugin(", ".join(result.narrowed_by))
        rejection = int(self.first_rejection[row])
        return None if rejection == PASS else self.status(rejection)

    def leads(self, node: str, other: str) -> dict[str, int]:
        """Return by plugin how much higher its weighted score is for a node than for another; {} if not both fit."""
        own, others = self.position_of(node), self.position_of(other)
        if own is None or others is None:
            return {}
        return {
            column.plugin: int(column.normalized[own] - column.normalized[others]) * column.weight
            for column in self.scores
        }

    def position_of(self, node: str) -> int | None:
        """Return the position of a node among the feasible ones; None if it is not feasible, or unknown."""
        return self.nodes.position_in(self.feasible, node)

    @property
    def reasons(self) -> Mapping[str, int]:
        if self.pre_filter_result.status is not None:
            return dict.fromkeys(self.pre_filter_result.status.reasons, len(self.rows))
        return count_reasons(self.status_counts)

    def _count_statuses(self) -> Iterator[None]:
        first = self.first_rejection[self.rows]
        rejections, counts = np.unique(first[first != PASS], return_counts=True)
        for rejection, count in zip(rejections.tolist(), counts.tolist(), strict=True):
            self.status_counts.append((self.status(rejection), count))
            yield
        excluded = self.pre_filter_result.excluded
        if excluded is not None:
            self.status_counts.append((excluded, len(self.rows) - len(self.candidate_rows)))

    @property
    def message(self) -> str:
        """Why no node is feasible, word for word as in an attempt, without the part of PostFilter."""
        status = self.pre_filter_result.status
        return fit_error(len(self.rows), self.reasons, pre_filter_message=status.message if status is not None else "")

    @property
    def diagnosis(self) -> Diagnosis:
        """The rejections of the nodes, as PostFilter plugins receive them."""
        result = self.pre_filter_result
        no_rejection = result.excluded or result.status or unresolvable()
        rejectors = sorted({status.plugin for status, _ in self.status_counts} | set(result.narrowed_by))
        return Diagnosis(
            self.nodes, self.first_rejection, lambda o: no_rejection if o == PASS else self.status(o), rejectors
        )


def evaluate(engine: PodEngine, pod: PendingPod) -> FullEvaluation:
    """Evaluate a pod without a pause."""
    evaluation = FullEvaluation(engine, pod)
    for _ in time_sliced(evaluation.work(), evaluation.isolated):
        pass
    return evaluation


class OptionalHooks:
    """The hooks that only explanations call; after a plugin's first fault, which is logged, its hooks are skipped."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._faulty: set[str] = set()

    def get(self, plugin: str, hook: str) -> Callable[..., object] | None:
        method = getattr(self._profile.plugins.get(plugin), hook, None)
        return cast("Callable[..., object]", method) if hasattr(method, "kframework_impl") else None

    def call_safely(self, plugin: str, hook: str, call: Callable[[], T], default: T) -> T:
        if plugin in self._faulty:
            return default
        try:
            return call()
        except Exception as error:
            self._faulty.add(plugin)
            _log.error("%s", self._profile.fault_error(plugin, hook, error), exc_info=error)
            return default


def _chunks(rows: NDArray[np.int64], length: int) -> Iterator[NDArray[np.int64]]:
    return (rows[begin : begin + length] for begin in range(0, len(rows), length))
