"""The what-if: operations on the live tables that are undone by their inverses."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from kframework.errors import StatementError
from kframework.objects import Node
from kframework.state.columns import Column
from kframework.state.pods import PodInfo

if TYPE_CHECKING:
    from kframework.state.cluster import ClusterState

__all__ = ["Statement"]


class Statement:
    """Operations on the live tables, kept until `commit` or undone by `rollback`.

    As a context manager it rolls back on the way out unless it was closed before. An inner statement (`statement()`)
    must be closed before its outer one, and its commit hands its operations to the outer one. Statements side by side
    may be closed in any order if they only add and remove, and different pods; else the last opened goes first. A
    violation raises StatementError.
    """

    __slots__ = ("_cuttable", "_marks", "_others", "_outer", "_state", "_undo", "closed", "evicted", "touched")

    def __init__(self, state: ClusterState, outer: Statement | None = None) -> None:
        self._state = state
        self._outer = outer
        self._undo: list[Callable[[], object]] = []
        self._marks = (state.nodes.node_log.end, state.nodes.pod_log.end)
        self._cuttable = True
        self._others = False
        self.closed = False
        #: The uids of the pods that were added or removed.
        self.touched: set[str] = set()
        #: The pods to be evicted when the outermost statement is committed.
        self.evicted: list[PodInfo] = []
        state.statements.append(self)

    # -- operations ------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Put a pod that is on no node on this one."""
        if pod.row >= 0:
            raise StatementError(f"pod {pod.key} is on a node already")
        nodes, row = self._state.nodes, self._row(node_name)
        nodes.place(pod, row)
        self._record(lambda: nodes.lift(pod), pod)

    def remove(self, pod: PodInfo) -> None:
        """Take a pod off its node."""
        if pod.row < 0:
            raise StatementError(f"pod {pod.key} is on no node")
        nodes, row = self._state.nodes, pod.row
        nodes.lift(pod)
        self._record(lambda: nodes.place(pod, row), pod)

    def evict(self, pod: PodInfo) -> None:
        """Take a pod off its node, for good if the statement is committed: it is then listed in `evicted`."""
        self.remove(pod)
        self.evicted.append(pod)

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Assume a pending pod on a node, as after a scheduling decision."""
        state = self._state
        state.assume(pod, node_name)
        self._others = True
        self._record(lambda: state.forget(pod.uid), pod)

    def set_node(self, node: Node) -> None:
        """Replace the object of a node that exists."""
        nodes = self._state.nodes
        self._row(node.metadata.name)
        old = nodes.put(node)
        assert old is not None
        self._others = True
        self._record(lambda: nodes.put(old))

    def write(self, column: Column, row: int, value: int) -> None:
        """Set a cell of an extension's column."""
        old = column.cells[row]
        column.cells[row] = value

        def restore() -> None:
            column.cells[row] = old

        self._others = True
        self._record(restore)

    def statement(self) -> Statement:
        """Open an inner statement."""
        self._open()
        return Statement(self._state, self)

    # -- closing ---------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Keep what was done; an inner statement hands it to its outer one."""
        self._close()
        if self._outer is not None:
            self._outer._undo += self._undo
            self._outer.touched |= self.touched
            self._outer.evicted += self.evicted
            self._outer._others |= self._others

    def rollback(self) -> None:
        """Undo what was done, last first."""
        youngest = self._state.statements[-1] is self
        self._close()
        for undo in reversed(self._undo):
            undo()
        if youngest and self._cuttable:
            node_mark, pod_mark = self._marks
            # Nobody has read the entries of this what-if: as if it had never been.
            self._state.nodes.node_log.cut(node_mark)
            self._state.nodes.pod_log.cut(pod_mark)

    def __enter__(self) -> Statement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.closed:
            self.rollback()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _row(self, node_name: str) -> int:
        self._open()
        row = self._state.nodes.row(node_name)
        if row is None:
            raise StatementError(f"there is no node {node_name!r}")
        return row

    def _open(self) -> None:
        if self.closed:
            raise StatementError("the statement is closed")

    def _record(self, undo: Callable[[], object], pod: PodInfo | None = None) -> None:
        self._undo.append(undo)
        if pod is not None:
            self.touched.add(pod.uid)
        statements = self._state.statements
        if statements[-1] is not self:
            # Entries of this statement now lie behind the marks of younger ones, which must not cut them away.
            for younger in statements[statements.index(self) + 1 :]:
                younger._cuttable = False

    def _close(self) -> None:
        self._open()
        statements = self._state.statements
        for younger in statements[statements.index(self) + 1 :]:
            if younger._within(self):
                raise StatementError("an inner statement is still open")
            if self._others or younger._others or self.touched & younger.touched:
                raise StatementError("a younger statement is still open and the two cannot be closed in this order")
        statements.remove(self)
        self.closed = True

    def _within(self, other: Statement) -> bool:
        outer = self._outer
        while outer is not None and outer is not other:
            outer = outer._outer
        return outer is other

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<Statement {state}, {len(self._undo)} operations>"
