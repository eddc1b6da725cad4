"""What-if statements: operations on the live tables that are undone by their inverses."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TypeVar

from kframework.errors import StatementError
from kframework.objects import ApiObject, Node
from kframework.state.columns import Column
from kframework.state.nodes import NodeTable
from kframework.state.objects import ObjectStore
from kframework.state.pods import PodInfo

T = TypeVar("T", bound=ApiObject)


class Tables(Protocol):
    """The part of the cluster's state that statements change."""

    nodes: NodeTable
    pods: dict[str, PodInfo]
    statements: list[Statement]

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Put a pending pod on its chosen node before the API knows."""

    def forget(self, uid: str) -> PodInfo | None:
        """Take an assumed pod back."""


class Statement:
    """Operations on the live tables, kept by `commit` or undone by `rollback`.

    As a context manager it rolls back on exit unless it was closed before. While an inner statement (`statement()`) is
    open its outer one cannot be used; its commit passes its operations to the outer one.

    Sibling statements are independent unless they touch the same pod, or both write node objects or columns. Of
    dependent ones only the last opened may be used, it must be closed first, and it cannot be committed before the
    others are, because it builds on a what-if itself. A violation raises StatementError and changes nothing.
    """

    def __init__(self, state: Tables, outer: Statement | None = None) -> None:
        self._state = state
        self._outer = outer
        #: The inverses of all operations but pod moves, and the rows where moved pods were (-1: on no node).
        self._undo: list[Callable[[], object]] = []
        self._origins: dict[PodInfo, int] = {}
        self._start = (state.nodes.node_log.end, state.nodes.pod_log.end)
        self._released_ports = state.nodes.host_ports.released
        #: The number of entries of the two logs made by this statement.
        self._entries = 0
        #: Whether it wrote a Node object or a column.
        self._writes = False
        self._added: list[PodInfo] = []
        self._replaced: list[int] = []
        self.closed: bool = False
        #: Whether the scheduler itself holds it open while plugins run.
        self.is_held: bool = False
        #: The pods to be evicted when the outermost statement is committed, and the rows they ran on.
        self.evicted: list[PodInfo] = []
        self._evicted_rows: dict[PodInfo, int] = {}
        state.statements.append(self)

    @property
    def changed_uids(self) -> set[str]:
        """The uids of the pods that were added or removed."""
        return {pod.uid for pod in self._origins}

    # -- operations ----------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Put a pod that is on no node on this one, as long as the outermost statement is open."""
        row = self._free_row(pod, node_name)
        self._record_pod(pod, pod.row)
        self._state.nodes.add_pod(pod, row)
        if row != self._origins[pod]:
            self._added.append(pod)

    def remove(self, pod: PodInfo) -> None:
        """Take a pod off its node."""
        self._check_pod(pod)
        if pod.row < 0:
            raise StatementError(f"pod {pod.key} is on no node")
        nodes, row = self._state.nodes, pod.row
        self._record_pod(pod, row)
        nodes.remove_pod(pod)
        if pod.template.host_ports:
            nodes.host_ports.released |= {(port, row) for port in pod.template.host_ports}

    def evict(self, pod: PodInfo) -> None:
        """Remove a pod from its node as if it were deleted, and list it in `evicted`.

        It runs until the API server reports its deletion: the commit of the outermost statement puts it back, and the
        caller of that commit evicts it.
        """
        row = pod.row
        self.remove(pod)
        self.evicted.append(pod)
        self._evicted_rows[pod] = row

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Assume a pending pod on a node, as after a scheduling decision."""
        self._free_row(pod, node_name)
        state = self._state
        state.assume(pod, node_name)
        self._undo.append(lambda: state.forget(pod.uid))
        self._record_pod(pod, -1)

    def set_node(self, node: Node) -> None:
        """Replace the object of a node that exists; it moves to a new zone's place in the order with the commit."""
        self._check_write()
        row = self._row(node.metadata.name)
        nodes = self._state.nodes
        before = self._log_ends()
        old = nodes.replace(row, node)
        self._replaced.append(row)
        self._record_write(lambda: nodes.replace(row, old), self._log_ends() - before)

    def write(self, column: Column, row: int, value: int) -> None:
        """Set a cell of an extension's column."""
        self._check_write()
        nodes, old = self._state.nodes, column.cells[row]

        def restore() -> None:
            column.cells[row] = old
            nodes.mark_changed(row)

        before = self._log_ends()
        column.cells[row] = value
        nodes.mark_changed(row)
        self._record_write(restore, self._log_ends() - before)

    def record(self, undo: Callable[[], object]) -> None:
        """Register `undo` to be called on rollback, in reverse order of registration.

        This keeps an extension's own tables consistent. What it undoes must not depend on where pods are.
        """
        self._check_open()
        self._undo.append(undo)

    def assume_object(self, store: ObjectStore[T], subject: T) -> None:
        """Assume a version of an object, or store a new one, as long as the outermost statement is open.

        Raises AssumptionError if it was not derived from the version in the cluster.
        """
        self._check_open()
        metadata = subject.metadata
        latest, before = (read(metadata.name, metadata.namespace) for read in (store.latest, store.get))
        if latest is None:
            store.put(metadata, subject)
            self._undo.append(lambda: store.remove(metadata))
            return
        store.assume(metadata, subject)
        if before is None or before is latest:
            self._undo.append(lambda: store.restore(metadata))
        else:
            self._undo.append(lambda: store.assume(before.metadata, before))

    def statement(self) -> Statement:
        """Open an inner statement."""
        self._check_open()
        return Statement(self._state, self)

    # -- closing -------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Keep the changes; an inner statement passes them to its outer one.

        The outermost keeps no pod that was only added: such a pod must be assumed.
        """
        self._check_close()
        self._check_basis()
        if self._outer is None:
            self._check_added()
            nodes, known = self._state.nodes, self._state.pods
            for row in self._replaced:
                nodes.update_order(row)
            # Put evicted pods back that are still known and not placed elsewhere.
            for pod, row in self._evicted_rows.items():
                if pod.row < 0 and known.get(pod.uid) is pod:
                    nodes.add_pod(pod, row)
        else:
            self._merge_into(self._outer)
        self._close()

    def rollback(self) -> None:
        """Undo the changes."""
        is_innermost = self._is_innermost()
        if not is_innermost:
            self._check_close()
        nodes, (node_start, pod_start) = self._state.nodes, self._start
        alone = is_innermost and self._log_ends() - node_start - pod_start == self._entries
        # A pod that was assumed after it was removed from its node goes back there once it is forgotten.
        for undo in reversed(self._undo):
            undo()
        for pod, row in self._origins.items():
            if pod.row != row:
                if pod.row >= 0:
                    nodes.remove_pod(pod)
                if row >= 0:
                    nodes.add_pod(pod, row)
        nodes.host_ports.released = self._released_ports
        if alone:
            # If no reader has seen this what-if's log entries, remove them.
            nodes.node_log.discard_since(node_start)
            nodes.pod_log.discard_since(pod_start)
        self._close()

    def __enter__(self) -> Statement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.closed:
            self.rollback()

    def _merge_into(self, outer: Statement) -> None:
        outer._undo += self._undo
        for pod, row in self._origins.items():
            outer._origins.setdefault(pod, row)
        outer._entries += self._entries
        outer._writes |= self._writes
        outer._added += self._added
        outer._replaced += self._replaced
        outer.evicted += self.evicted
        outer._evicted_rows |= self._evicted_rows

    def _close(self) -> None:
        state = self._state
        state.statements.remove(self)
        if not state.statements:
            state.nodes.host_ports.released = frozenset()
        self.closed = True

    # -- recording -----------------------------------------------------------------------------------------------------

    def _record_pod(self, pod: PodInfo, row: int) -> None:
        """Record where a pod was before its first move."""
        self._origins.setdefault(pod, row)
        self._entries += 1

    def _record_write(self, undo: Callable[[], object], entries: int) -> None:
        self._undo.append(undo)
        self._entries += entries
        self._writes = True

    def _log_ends(self) -> int:
        return self._state.nodes.node_log.end + self._state.nodes.pod_log.end

    # -- the rules -----------------------------------------------------------------------------------------------------

    def _row(self, node_name: str) -> int:
        row = self._state.nodes.row(node_name)
        if row is None:
            raise StatementError(f"unknown node {node_name!r}")
        return row

    def _free_row(self, pod: PodInfo, node_name: str) -> int:
        """Return the row of the node, checking that the pod may be put there."""
        self._check_pod(pod)
        # The tables may have a newer version of the pod, or have it on an unknown node.
        known = self._state.pods.get(pod.uid)
        placed = known is not None and (known.row >= 0 or known.node_name not in self._state.nodes)
        if pod.row >= 0 or placed:
            raise StatementError(f"pod {pod.key} is on a node already")
        return self._row(node_name)

    def _check_pod(self, pod: PodInfo) -> None:
        if self._is_innermost():
            return
        for later in self._opened_later():
            if pod.uid in later.changed_uids:
                raise StatementError(f"a later statement, still open, has moved pod {pod.key}")

    def _check_write(self) -> None:
        if any(later._writes for later in self._opened_later()):
            raise StatementError("a later statement, still open, has written nodes too")

    def _check_close(self) -> None:
        if any(self._depends_on(later) for later in self._opened_later()):
            raise StatementError("a later statement, still open, builds on this one; close it first")

    def _check_basis(self) -> None:
        """Reject a commit past open statements that this one depends on."""
        statements = self._state.statements
        start = 0 if self._outer is None else statements.index(self._outer) + 1
        if any(self._depends_on(earlier) for earlier in statements[start : statements.index(self)]):
            raise StatementError("this statement builds on an earlier one, still open; close that first")

    def _check_added(self) -> None:
        state = self._state
        for pod in self._added:
            is_assumed = state.pods.get(pod.uid) is pod and state.nodes.row(pod.node_name) == pod.row
            if pod.row >= 0 and not is_assumed:
                raise StatementError(f"pod {pod.key} was only added; assume it to keep it")

    def _depends_on(self, other: Statement) -> bool:
        return not self.changed_uids.isdisjoint(other.changed_uids) or (self._writes and other._writes)

    def _opened_later(self) -> list[Statement]:
        """List the open statements opened after this one; raises if this one may not be used."""
        self._check_open()
        statements = self._state.statements
        later = statements[statements.index(self) + 1 :]
        if any(other._is_inside(self) for other in later):
            raise StatementError("an inner statement is still open")
        return later

    def _is_innermost(self) -> bool:
        return not self.closed and self._state.statements[-1] is self

    def _check_open(self) -> None:
        if self.closed:
            raise StatementError("the statement is closed")

    def _is_inside(self, other: Statement) -> bool:
        outer = self._outer
        while outer is not None and outer is not other:
            outer = outer._outer
        return outer is other

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<Statement {state}, {len(self.changed_uids)} pods changed>"
