"""A full evaluation of one pod: the current answers of all plugins on all nodes, without side effects.

An attempt knows only the first rejection of each node it evaluated, mostly from caches; an evaluation calls all plugins
on all nodes, in columns if they have that form. It is work in slices (`time_sliced`): between two of them the scheduler
runs, no Statement is open, and random draws and requests of the plugins are undone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import ask_filter_rows, ask_score_rows
from kframework.core.cycle.records import fit_error
from kframework.core.cycle.rejections import ATTEMPT, FIRST, PASS, StatusTable, in_words, with_nominated_pods
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.points import PreFilterResult, run_pre_filter_point, run_pre_score_point
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, ScoreStep, as_column
from kframework.errors import PluginError
from kframework.framework.answers import Diagnosis
from kframework.framework.cycle_state import CycleState
from kframework.scheduler.slices import time_sliced
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Scores
from kframework.values.status import Status, unresolvable

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: The number of rows evaluated in one piece: without a columnar form, and with one.
_FEW, _MANY = 16, 2_000

#: The logger of plugin faults.
_faults = logging.getLogger("kframework.core.runtime.profile")

_NONE = np.zeros(0, dtype=np.int64)


def evaluate(engine: PodEngine, pod: PendingPod) -> Generator[None, None, FullEvaluation]:
    """Call all plugins for the pod on all nodes, in slices; a pod on a node is treated as if it were not there."""
    evaluation = FullEvaluation(engine, pod)
    yield from time_sliced(evaluation.work(), evaluation.isolated)
    return evaluation


class ScoreColumn(msgspec.Struct, frozen=True):
    """The scores of one Score plugin for the feasible nodes: raw, normalised to 0..100, and the weight."""

    plugin: str
    weight: int
    raw: Scores
    normalized: Scores


class FullEvaluation:
    """The answers of the plugins of the pod's profile, complete once its `work` is done.

    `rows` are the evaluated nodes, in node order, and `names` their names: rows are reused after deletions. `said`
    holds each Filter plugin's own rejection by row, PASS if none, regardless of others; `first` the first of them in
    configured order, as an attempt counts them. `feasible` are the rows that all of them accept, in node order;
    `scores` and `totals` are aligned to them. Like an attempt, it scores two feasible nodes or more; unlike one, it
    evaluates all.
    """

    def __init__(self, engine: PodEngine, pod: PendingPod) -> None:
        self.engine = engine
        self.cluster: ClusterState = engine.cluster
        self.nodes: NodeTable = engine.cluster.nodes
        self.profile: Profile = engine.profiles[pod.scheduler_name]
        self.pod = pod
        self._random = self._generators()
        self._generation = self.nodes.generation
        self._reset()

    def _reset(self) -> None:
        self.pre_filter_result: PreFilterResult = PreFilterResult()
        self.state: CycleState = CycleState()
        self.rows: NDArray[np.int64] = self.nodes.order
        #: Those of them that PreFilter leaves.
        self.within: NDArray[np.int64] = _NONE
        self.names: list[str] = []
        #: The Filter plugins that do not skip this pod, in order.
        self.filters: tuple[FilterStep, ...] = ()
        self.said: dict[str, Scores] = {}
        self.first: Scores = np.full(self.nodes.capacity, PASS, dtype=np.int64)
        #: The first rejections to the nodes in configured order, each with the number of nodes.
        self.counted: list[tuple[Status, int]] = []
        self.feasible: NDArray[np.int64] = _NONE
        self.scores: list[ScoreColumn] = []
        self.totals: Scores = _NONE
        #: The error of a plugin in scoring; then there are no totals.
        self.fault: Status | None = None
        #: The pods nominated to a row that this one must leave room for.
        self.nominated: dict[int, Sequence[PodInfo]] = {}
        self._table = StatusTable(ATTEMPT)
        self._words: dict[int, Status] = {}

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Open a slice of work: the pod is on no node, and draws and requests of plugins are undone at the end."""
        drawn = [(random, random.getstate()) for random in self._random]
        with self.engine.isolated(), self.cluster.statement() as what_if:
            placed = self.cluster.pods.get(self.pod.uid)
            if placed is not None and placed.row >= 0:
                what_if.remove(placed)
            # Attempts log the faults of plugins, and the evaluation reports them.
            before, _faults.disabled = _faults.disabled, True
            try:
                yield
            finally:
                _faults.disabled = before
                while self.cluster.statements[-1] is not what_if:
                    self.cluster.statements[-1].rollback()  # a plugin left it open
                for random, state in drawn:
                    random.setstate(state)

    def _generators(self) -> list[Random]:
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
        finished = False
        while not finished:
            self._generation, finished = self.nodes.generation, True
            for _ in self._ask():
                yield
                if self.is_stale:
                    finished = False
                    break

    @property
    def is_stale(self) -> bool:
        """Whether nodes were added or deleted since it began: rows may have other nodes."""
        return self.nodes.generation != self._generation

    def _ask(self) -> Iterator[None]:
        self._reset()
        self.pre_filter_result = run_pre_filter_point(self.profile, self.state, self.pod, self.nodes)
        yield
        for piece in _pieces(self.rows, _MANY):
            self.names += [self.nodes.by_row[row].name for row in piece.tolist()]
            yield
        among = self.pre_filter_result.nodes
        rows = self.within = self.rows if among is None else self.rows[[name in among for name in self.names]]
        if self.pre_filter_result.status is not None:
            return
        self.filters = tuple(step for step in self.profile.filters if step.name not in self.pre_filter_result.skipped)
        for step in self.filters:
            column = self.said[step.name] = np.full(self.nodes.capacity, PASS, dtype=np.int64)
            for piece in _pieces(rows, _FEW if step.run_rows is None else _MANY):
                rejections = np.full(len(piece), PASS, dtype=np.int64)
                ask_filter_rows(step, self.state, self.pod, self.nodes, piece, rejections, self._table)
                column[piece] = rejections
                yield
        yield from self._ask_beside_nominated_pods(rows)
        for column in self.said.values():
            np.minimum(self.first, column, out=self.first)
        yield
        yield from self._count()
        self.feasible = rows[self.first[rows] == PASS]
        if len(self.feasible) > 1:
            yield from self._ask_scores()

    def _ask_beside_nominated_pods(self, rows: NDArray[np.int64]) -> Iterator[None]:
        """Filter again where pods are nominated, assuming them on their nodes; such rejections come first."""
        nominator = self.cluster.nominator
        for name in list(nominator.node_names):
            row = self.nodes.row(name)
            # Some may have been bound meanwhile, or have lost their nomination.
            nominated = nominator.beside(self.pod, name)
            if not nominated or row is None or row not in rows:
                continue
            self.nominated[row], node = nominated, self.nodes[row]
            with with_nominated_pods(self, self.state, node, nominated) as state:
                if isinstance(state, Status):
                    self.first[row] = self._table.rejection(FIRST, state)
                else:
                    for step in self.filters:
                        if (status := step.run(state, self.pod, node)) is not None:
                            self.said[step.name][row] = self._table.rejection(step.order, status)
            yield

    def _ask_scores(self) -> Iterator[None]:
        skipped = run_pre_score_point(self.profile, self.state, self.pod, self.nodes, self.feasible)
        yield
        if isinstance(skipped, Status):
            self.fault = skipped
            return
        totals = np.zeros(len(self.feasible), dtype=np.int64)
        for step in self.profile.scores:
            if step.name not in skipped:
                yield from self._ask_score(step)
                if self.fault is not None:
                    return
                totals += self.scores[-1].normalized * step.weight
        self.totals = totals

    def _ask_score(self, step: ScoreStep) -> Iterator[None]:
        raw: list[Scores] = []
        for piece in _pieces(self.feasible, _FEW if step.run_rows is None else _MANY):
            scores, faults = ask_score_rows(step, self.state, self.pod, self.nodes, piece)
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
        """Return the Status of a rejection."""
        status = self._words.get(rejection)
        if status is None:
            status = self._words[rejection] = in_words(rejection, (self._table,), self.profile.filters, self.pod)
        return status

    @property
    def reasons(self) -> Mapping[str, int]:
        """The number of nodes for which each reason is the first."""
        if self.pre_filter_result.status is not None:
            return dict.fromkeys(self.pre_filter_result.status.reasons, len(self.rows))
        reasons = Counter[str]()
        for status, count in self.counted:
            for reason in status.reasons:
                reasons[reason] += count
        return dict(reasons)

    def _count(self) -> Iterator[None]:
        first = self.first[self.rows]
        rejections, counts = np.unique(first[first != PASS], return_counts=True)
        for rejection, count in zip(rejections.tolist(), counts.tolist(), strict=True):
            self.counted.append((self.status(rejection), count))
            yield
        excluded = self.pre_filter_result.excluded
        if excluded is not None:
            self.counted.append((excluded, len(self.rows) - len(self.within)))

    @property
    def message(self) -> str:
        """Why no node is feasible, word for word as in an attempt, without the part of PostFilter."""
        status = self.pre_filter_result.status
        return fit_error(len(self.rows), self.reasons, pre_filter_message=status.message if status is not None else "")

    @property
    def diagnosis(self) -> Diagnosis:
        """The rejections of the nodes, as PostFilter plugins receive them."""
        result = self.pre_filter_result
        nobody = result.excluded or result.status or unresolvable()
        rejectors = sorted({status.plugin for status, _ in self.counted} | set(result.narrowed_by))
        return Diagnosis(self.nodes, self.first, lambda o: nobody if o == PASS else self.status(o), rejectors)


class OptionalHooks:
    """The hooks of a profile's plugins that only explanations call: `explain`, `suggest` and `suggest_nodes`.

    A plugin that fails in one of them spoils nothing: its first fault is logged, and it is not called again.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._faulty: set[str] = set()

    def of(self, plugin: str, hook: str) -> Callable[..., object] | None:
        """Return this hook of a plugin; None if it has none."""
        method = getattr(self._profile.plugins.get(plugin), hook, None)
        return cast("Callable[..., object]", method) if hasattr(method, "kframework_impl") else None

    def safely(self, plugin: str, hook: str, ask: Callable[[], T], otherwise: T) -> T:
        """Return what `ask` returns, or `otherwise` if this plugin fails or has failed."""
        if plugin in self._faulty:
            return otherwise
        try:
            return ask()
        except Exception as error:
            self._faulty.add(plugin)
            _log.error("%s", self._profile.fault_error(plugin, hook, error), exc_info=error)
            return otherwise


def _pieces(rows: NDArray[np.int64], length: int) -> Iterator[NDArray[np.int64]]:
    return (rows[begin : begin + length] for begin in range(0, len(rows), length))
