"""Choose the node of a task: filter the nodes with room for it, and find the best of them.

The answers of plugins are cached in columns, per signature of the plugins called, and computed again only for the
rows that have changed; so is where there is room. The best of a column is known at all times (`Tournament`), so a task
costs no more than evaluating the one row that the task before has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from random import Random
from typing import TypeGuard, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework import Code, NodeInfo, NodeTable, Status
from kframework.engine import fit_error
from kframework_batch.combination import CombinedPlugins
from kframework_batch.hookspecs import Rows
from kframework_batch.hypernodes import Domain
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin
from kframework_batch.session_view import SessionView
from kframework_batch.tiers import HookCall, Tiers
from kframework_batch.tournament import ABSENT, Tournament

R = TypeVar("R")


class NodePlugins:
    """The session plugins' answers about nodes; `plugins` are those with such hooks, in order."""

    def __init__(self, session: SessionView, tiers: Tiers) -> None:
        self._session = session
        self._nodes = session.nodes
        self._predicate: Mapping[BatchPlugin, HookCall[Status | None]] = _by_plugin(tiers, "predicate")
        self._predicate_nodes: Mapping[BatchPlugin, HookCall[Rows]] = _by_plugin(tiers, "predicate_nodes")
        self._predicate_status: Mapping[BatchPlugin, HookCall[Status]] = _by_plugin(tiers, "predicate_status")
        self._node_order: Mapping[BatchPlugin, HookCall[float]] = _by_plugin(tiers, "node_order")
        self._node_order_nodes: Mapping[BatchPlugin, HookCall[NDArray[np.float64]]] = _by_plugin(
            tiers, "node_order_nodes"
        )
        self._filtering = tuple(p for p in tiers.plugins if p in self._predicate or p in self._predicate_nodes)
        self._ordering = tuple(p for p in tiers.plugins if p in self._node_order or p in self._node_order_nodes)
        self.plugins: tuple[BatchPlugin, ...] = tuple(dict.fromkeys([*self._filtering, *self._ordering]))
        #: The calls for one node, which most tasks use.
        self._filters = [(p, self._predicate.get(p) or self._filter_by_column(p)) for p in self._filtering]
        self._scores = [self._node_order.get(p) or self._score_by_column(p) for p in self._ordering]

    def rejection(self, task: TaskInfo, node: NodeInfo) -> Status | None:
        """Return the first rejection of a node in its current state; None if all plugins accept it."""
        for plugin, call in self._filters:
            status = call(self._session, task, node)
            if _rejects(status):
                return status.with_plugin(plugin.name)
        return None

    def _filter_by_column(self, plugin: BatchPlugin) -> Callable[[SessionView, TaskInfo, NodeInfo], Status | None]:
        codes, words = self._predicate_nodes[plugin], self._predicate_status[plugin]

        def call(session: SessionView, task: TaskInfo, node: NodeInfo) -> Status | None:
            code = int(codes(session, task, np.array([node.row]))[0])
            return words(session, task, code) if code else None

        return call

    def feasible(self, task: TaskInfo, rows: Rows) -> NDArray[np.bool_]:
        passing = np.ones(len(rows), dtype=np.bool_)
        for plugin in self._filtering:
            passing &= self._codes(plugin, task, rows, passing)[0] == 0
        return passing

    def rejections(self, task: TaskInfo, rows: Rows) -> Iterator[tuple[Status, NDArray[np.bool_]]]:
        """Yield each first rejection with the nodes that it is the first rejection to (bool, aligned with rows)."""
        passing = np.ones(len(rows), dtype=np.bool_)
        for plugin in self._filtering:
            codes, words = self._codes(plugin, task, rows, passing)
            for code in np.unique(codes[codes != 0]).tolist():
                yield words(code).with_plugin(plugin.name), codes == code
            passing &= codes == 0

    def _codes(
        self, plugin: BatchPlugin, task: TaskInfo, rows: Rows, among: NDArray[np.bool_]
    ) -> tuple[Rows, Callable[[int], Status]]:
        """Call a plugin for the nodes that passed so far: return codes, 0 if it passes, and their statuses."""
        session, columnar = self._session, self._predicate_nodes.get(plugin)
        if columnar is not None:
            codes = np.where(among, columnar(session, task, rows), 0)
            return codes, partial(self._predicate_status[plugin], session, task)
        codes, statuses = np.zeros(len(rows), dtype=np.int64), dict[Status, int]()
        for index in np.flatnonzero(among).tolist():
            status = self._predicate[plugin](session, task, self._nodes[int(rows[index])])
            if _rejects(status):
                codes[index] = statuses.setdefault(status, len(statuses) + 1)
        return codes, lambda code: list(statuses)[code - 1]

    def score(self, task: TaskInfo, node: NodeInfo) -> float:
        total = 0.0
        for call in self._scores:
            total += call(self._session, task, node)
        return total

    def _score_by_column(self, plugin: BatchPlugin) -> Callable[[SessionView, TaskInfo, NodeInfo], float]:
        scores = self._node_order_nodes[plugin]
        return lambda session, task, node: float(scores(session, task, np.array([node.row]))[0])

    def scores(self, task: TaskInfo, rows: Rows) -> NDArray[np.float64]:
        totals = np.zeros(len(rows), dtype=np.float64)
        for plugin in self._ordering if len(rows) else ():
            score = self._node_order_nodes.get(plugin)
            if score is not None:
                totals += score(self._session, task, rows)
            else:
                scores = (self._node_order[plugin](self._session, task, self._nodes[row]) for row in rows.tolist())
                totals += np.fromiter(scores, dtype=np.float64, count=len(rows))
        return totals


def _rejects(status: Status | None) -> TypeGuard[Status]:
    return status is not None and status.code != Code.SUCCESS


def _by_plugin(tiers: Tiers, hook: str) -> Mapping[BatchPlugin, HookCall[R]]:
    return {call.plugin: cast("HookCall[R]", call) for call in tiers.flat(hook)}


#: Up to this number rows are evaluated one by one, more as columns.
_MAX_SINGLE_ROWS = 16

#: The number of signatures whose scores are cached.
_MAX_SIGNATURES = 512


class Choice(msgspec.Struct, frozen=True):
    """The node of a task.

    `idle` is true if there is room now; else there will be, once terminating tasks and victims have gone. `ties` is the
    number of nodes that were as good, `feasible` of those with room now (or in the future).
    """

    row: int
    node: str
    idle: bool
    score: float
    ties: int
    feasible: int


class NodeScores:
    """The scores of every node for the tasks of one signature, and where these fit.

    `idle` holds the total of a feasible node that has room now, `future` that of one that will have room.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self.idle: Tournament = Tournament(nodes.capacity)
        self.future: Tournament = Tournament(nodes.capacity)
        #: Reads in the log of changed rows how far the scores are behind.
        self.log = nodes.pod_log.reader()


class ScoreCache:
    """The scores of one configuration, least recently used first, until the set of nodes changes."""

    def __init__(self) -> None:
        self._scores: OrderedDict[Hashable, NodeScores] = OrderedDict()
        self._generation = -1

    def get(self, signature: Hashable, nodes: NodeTable) -> NodeScores:
        if nodes.generation != self._generation:
            self._scores.clear()
            self._generation = nodes.generation
        scores = self._scores.get(signature)
        if scores is None:
            scores = self._scores[signature] = NodeScores(nodes)
            if len(self._scores) > _MAX_SIGNATURES:
                self._scores.popitem(last=False)
        else:
            self._scores.move_to_end(signature)
        return scores


class Placement:
    """Finds nodes for the tasks of one session."""

    def __init__(self, session: SessionView, plugins: CombinedPlugins, scores: ScoreCache, random: Random) -> None:
        self._session = session
        self._nodes = session.nodes
        self._idle = session.idle
        self._plugins = plugins
        self._score_cache = scores
        self._random = random
        self.node_plugins: NodePlugins = NodePlugins(session, plugins.tiers)
        self._best_nodes = cast("tuple[HookCall[int | None], ...]", plugins.tiers.flat("best_node"))
        #: What was chosen last for each task, by uid.
        self.choices: dict[str, Choice] = {}
        #: The nodes that tasks, by uid, are given where they are among the best, in place of one that is drawn.
        self.preferred: Mapping[str, str] = {}

    # -- the best node -----------------------------------------------------------------------------------------------

    def choose(self, task: TaskInfo, domain: Domain | None = None) -> Choice | str:
        """Return the best node with room for a task, now if there is one, else to come; or why there is none."""
        rejection = self._plugins.pre_predicate(task)
        if rejection is not None:
            return fit_error(len(self._nodes), dict.fromkeys(rejection.reasons, len(self._nodes)))
        rows = self._nodes.order if domain is None else domain.rows
        # The dependencies of the answers besides the nodes; a plugin that signs None must be called every time.
        signs = tuple([plugin.sign(self._session, task) for plugin in self.node_plugins.plugins])
        known = None not in signs
        scores = self._cached_scores(task, (task.pod.template, signs)) if known else self._uncached_scores(task, rows)
        idle, future = scores.idle, scores.future
        if domain is not None:
            idle, future = idle.restricted_to(rows), future.restricted_to(rows)
        choice = self._best(task, idle, idle=True) or self._best(task, future, idle=False)
        if choice is None:
            return self._fit_error(task, rows)
        self.choices[task.uid] = choice
        return choice

    def forget(self, task: TaskInfo) -> None:
        """Forget what was chosen for a task that comes by its node some other way."""
        self.choices.pop(task.uid, None)

    def _best(self, task: TaskInfo, totals: Tournament, *, idle: bool) -> Choice | None:
        best, ties = totals.best, totals.ties
        if not ties:
            return None
        row = totals.best_row(self._random.randrange(ties) if ties > 1 else 0)
        if self.preferred:
            preferred = self._nodes.row(self.preferred.get(task.uid, ""))
            row = row if preferred is None or totals.scores[preferred] != best else preferred
        if self._best_nodes:
            # The first plugin decides that chooses at all.
            candidates = np.flatnonzero(totals.scores > ABSENT)
            answers = (call(self._session, task, candidates, totals.scores[candidates]) for call in self._best_nodes)
            row = next((answer for answer in answers if answer is not None), row)
        return Choice(row, self._nodes[row].name, idle, best, ties, totals.count)

    # -- what is remembered --------------------------------------------------------------------------------------------

    def _cached_scores(self, task: TaskInfo, signature: Hashable) -> NodeScores:
        """Return the scores of tasks like this one, with the rows asked again that have changed."""
        nodes = self._nodes
        scores = self._score_cache.get(signature, nodes)
        rows = scores.log.read_new()
        if rows is None:
            self._evaluate(scores, task, nodes.order)
        elif len(distinct := dict.fromkeys(rows)) <= _MAX_SINGLE_ROWS:
            for row in distinct:
                idle = future = ABSENT
                if self._idle.fits_future(task, row) and self.node_plugins.rejection(task, nodes[row]) is None:
                    future = self.node_plugins.score(task, nodes[row])
                    if self._idle.is_unchanged or self._idle.fits_idle(task, row):
                        idle = future
                scores.idle.put(row, idle)
                scores.future.put(row, future)
        else:
            self._evaluate(scores, task, np.fromiter(distinct, dtype=np.int64, count=len(distinct)))
        return scores

    def _evaluate(self, scores: NodeScores, task: TaskInfo, rows: Rows) -> None:
        future, idle = np.full(len(rows), ABSENT), np.full(len(rows), ABSENT)
        passing = self._feasible_positions(task, rows)
        future[passing] = self.node_plugins.scores(task, rows[passing])
        ready = passing[self._idle.fitting_idle(task, rows[passing])]
        idle[ready] = future[ready]
        scores.idle.put_many(rows, idle)
        scores.future.put_many(rows, future)

    # -- what is not cached --------------------------------------------------------------------------------------------

    def _uncached_scores(self, task: TaskInfo, rows: Rows) -> NodeScores:
        """Return scores for this task alone: those with room now are scored, or if there are none, the others."""
        scores = NodeScores(self._nodes)
        candidates = rows[self._feasible_positions(task, rows)]
        idle = candidates[self._idle.fitting_idle(task, candidates)]
        if len(idle):
            scores.idle.put_many(idle, self.node_plugins.scores(task, idle))
        else:
            scores.future.put_many(candidates, self.node_plugins.scores(task, candidates))
        return scores

    def _feasible_positions(self, task: TaskInfo, rows: Rows) -> Rows:
        """Return the places among rows of the nodes that let a task in and will have room for it."""
        indices = self._idle.fitting_future(task, rows).nonzero()[0]
        return indices[self.node_plugins.feasible(task, rows[indices])] if len(indices) else indices

    # -- for those who push others out ---------------------------------------------------------------------------------

    def rank_nodes(self, task: TaskInfo) -> list[int]:
        """Return the rows on which a task might be placed if others went, the best first."""
        if self._plugins.pre_predicate(task) is not None:
            return []
        rows = self._nodes.order
        hopeless = np.zeros(len(rows), dtype=np.bool_)
        for status, where in self.node_plugins.rejections(task, rows):
            hopeless |= where & (status.code != Code.UNSCHEDULABLE)
        rows = rows[~hopeless]
        scores = self.node_plugins.scores(task, rows)
        return [int(row) for row in rows[np.argsort(-scores, kind="stable")]]

    def rejection(self, task: TaskInfo, row: int) -> Status | None:
        return self.node_plugins.rejection(task, self._nodes[row])

    def _fit_error(self, task: TaskInfo, rows: Rows) -> str:
        """Return why all of these nodes are rejected: the number of nodes for each of the first reasons."""
        reasons: dict[str, int] = {}
        short = np.zeros(len(rows), dtype=np.bool_)
        for resource, _, enough in self._idle.shortages(task, rows):
            reason = "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            if not enough.all():
                reasons[reason] = int(np.count_nonzero(~enough))
            short |= ~enough
        for status, where in self.node_plugins.rejections(task, rows):
            count = int(np.count_nonzero(where & ~short))
            for reason in status.reasons if count else ():
                reasons[reason] = reasons.get(reason, 0) + count
        return fit_error(len(rows), reasons)
