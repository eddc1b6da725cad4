"""Predicates and node orders of all plugins, about one node or about many, in whichever form each plugin has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kframework import Code, NodeInfo, Status
from kframework_batch.hookspecs import Rows
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin
from kframework_batch.session_view import SessionView
from kframework_batch.tiers import Call, Tiers

R = TypeVar("R")


class NodeQuestions:
    """What the plugins of a session say of nodes; `plugins` are those that say anything, in order."""

    def __init__(self, session: SessionView, tiers: Tiers) -> None:
        self._session = session
        self._nodes = session.nodes
        self._predicate: Mapping[BatchPlugin, Call[Status | None]] = _by_plugin(tiers, "predicate")
        self._predicate_nodes: Mapping[BatchPlugin, Call[Rows]] = _by_plugin(tiers, "predicate_nodes")
        self._predicate_status: Mapping[BatchPlugin, Call[Status]] = _by_plugin(tiers, "predicate_status")
        self._node_order: Mapping[BatchPlugin, Call[float]] = _by_plugin(tiers, "node_order")
        self._node_order_nodes: Mapping[BatchPlugin, Call[NDArray[np.float64]]] = _by_plugin(tiers, "node_order_nodes")
        self._filtering = tuple(p for p in tiers.plugins if p in self._predicate or p in self._predicate_nodes)
        self._ordering = tuple(p for p in tiers.plugins if p in self._node_order or p in self._node_order_nodes)
        self.plugins: tuple[BatchPlugin, ...] = tuple(dict.fromkeys([*self._filtering, *self._ordering]))

    # -- predicates --------------------------------------------------------------------------------------------------

    def rejection(self, task: TaskInfo, node: NodeInfo) -> Status | None:
        """Return the first rejection to a node as it stands now; None if all let the task in."""
        session = self._session
        for plugin in self._filtering:
            asked = self._predicate.get(plugin)
            if asked is not None:
                status = asked(session, task, node)
            else:
                code = int(self._predicate_nodes[plugin](session, task, np.array([node.row]))[0])
                status = self._predicate_status[plugin](session, task, code) if code else None
            if _rejects(status):
                return status.with_plugin(plugin.name)
        return None

    def passing(self, task: TaskInfo, rows: Rows) -> NDArray[np.bool_]:
        """Return which of many nodes all let the task in to (bool, aligned with rows)."""
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
        """Ask a plugin about the nodes that others let pass: 0 or a code for each, and what puts codes into words."""
        session, columnar = self._session, self._predicate_nodes.get(plugin)
        if columnar is not None:
            codes = np.where(among, columnar(session, task, rows), 0)
            return codes, partial(self._predicate_status[plugin], session, task)
        codes, said = np.zeros(len(rows), dtype=np.int64), dict[Status, int]()
        for place in np.flatnonzero(among).tolist():
            status = self._predicate[plugin](session, task, self._nodes[int(rows[place])])
            if _rejects(status):
                codes[place] = said.setdefault(status, len(said) + 1)
        return codes, lambda code: list(said)[code - 1]

    # -- node orders -------------------------------------------------------------------------------------------------

    def total(self, task: TaskInfo, node: NodeInfo) -> float:
        """Return what a node is worth to a task, all plugins together."""
        total = 0.0
        for plugin in self._ordering:
            asked = self._node_order.get(plugin)
            if asked is not None:
                total += asked(self._session, task, node)
            else:
                total += float(self._node_order_nodes[plugin](self._session, task, np.array([node.row]))[0])
        return total

    def totals(self, task: TaskInfo, rows: Rows) -> NDArray[np.float64]:
        """Return the same for all candidates (float64, aligned with rows)."""
        totals = np.zeros(len(rows), dtype=np.float64)
        for plugin in self._ordering if len(rows) else ():
            asked = self._node_order_nodes.get(plugin)
            if asked is not None:
                totals += asked(self._session, task, rows)
            else:
                scores = (self._node_order[plugin](self._session, task, self._nodes[row]) for row in rows.tolist())
                totals += np.fromiter(scores, dtype=np.float64, count=len(rows))
        return totals


def _rejects(status: Status | None) -> TypeGuard[Status]:
    return status is not None and status.code != Code.SUCCESS


def _by_plugin(tiers: Tiers, hook: str) -> Mapping[BatchPlugin, Call[R]]:
    return {call.plugin: cast("Call[R]", call) for call in tiers.flat(hook)}
