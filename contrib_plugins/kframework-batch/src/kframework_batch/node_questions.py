"""Predicates and node orders of all plugins, about one node or about many, in whichever form each plugin has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kframework import Code, Status
from kframework_batch.hookspecs import Rows
from kframework_batch.plugin import BatchPlugin
from kframework_batch.task import TaskInfo
from kframework_batch.tiers import Call, Tiers

if TYPE_CHECKING:
    from kframework import NodeInfo
    from kframework_batch.session import Session

R = TypeVar("R")


class NodeQuestions:
    """What the plugins of a session say of nodes; `plugins` are those that say anything, in order."""

    def __init__(self, session: Session, tiers: Tiers) -> None:
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
            if _objects(status):
                return status.with_plugin(plugin.name)
        return None

    def passing(self, task: TaskInfo, rows: Rows) -> NDArray[np.bool_]:
        """Tell of many nodes whether all let the task in (bool, aligned with rows)."""
        passing = np.ones(len(rows), dtype=np.bool_)
        for plugin in self._filtering:
            asked = self._predicate_nodes.get(plugin)
            if asked is not None:
                passing &= asked(self._session, task, rows) == 0
            else:
                for place in np.flatnonzero(passing).tolist():
                    node = self._nodes[int(rows[place])]
                    passing[place] = not _objects(self._predicate[plugin](self._session, task, node))
        return passing

    def rejections(self, task: TaskInfo, rows: Rows) -> list[tuple[Status, NDArray[np.bool_]]]:
        """Return each first rejection with the nodes that it is the first rejection to (bool, aligned with rows)."""
        open_rows = np.ones(len(rows), dtype=np.bool_)
        found: dict[tuple[str, tuple[str, ...]], tuple[Status, NDArray[np.bool_]]] = {}
        for plugin in self._filtering:
            for status, where in self._said(plugin, task, rows, open_rows):
                status = status.with_plugin(plugin.name)
                known = found.setdefault((plugin.name, status.reasons), (status, np.zeros(len(rows), dtype=np.bool_)))
                known[1][:] |= where
                open_rows &= ~where
        return list(found.values())

    def _said(
        self, plugin: BatchPlugin, task: TaskInfo, rows: Rows, among: NDArray[np.bool_]
    ) -> list[tuple[Status, NDArray[np.bool_]]]:
        """Return what one plugin has against nodes among those that others let pass."""
        session, columnar = self._session, self._predicate_nodes.get(plugin)
        if columnar is not None:
            codes = np.where(among, columnar(session, task, rows), 0)
            distinct = np.unique(codes[codes != 0]).tolist()
            return [(self._predicate_status[plugin](session, task, code), codes == code) for code in distinct]
        said = []
        for place in np.flatnonzero(among).tolist():
            status = self._predicate[plugin](session, task, self._nodes[int(rows[place])])
            if _objects(status):
                where = np.zeros(len(rows), dtype=np.bool_)
                where[place] = True
                said.append((status, where))
        return said

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

    def __repr__(self) -> str:
        return f"<NodeQuestions to {', '.join(plugin.name for plugin in self.plugins) or 'nobody'}>"


def _objects(status: Status | None) -> TypeGuard[Status]:
    return status is not None and status.code != Code.SUCCESS


def _by_plugin(tiers: Tiers, hook: str) -> Mapping[BatchPlugin, Call[R]]:
    return {call.plugin: cast("Call[R]", call) for call in tiers.flat(hook)}
