"""What-ifs, nested and side by side: what is rolled back never was, and an illegal order changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from kframework.errors import StatementError
from kframework.objects import Node, Pod
from kframework.state.cluster import AssumeError
from kframework.state.log import Log
from kframework.state.node_order import zone_of
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from tests.properties.expected_tables import ClusterObjects
from tests.properties.state_machine import (
    Action,
    StateMachine,
    changes,
    fails,
    looks,
    nodes_made,
    pods_made,
    start_of_history,
)


@dataclass(frozen=True)
class Operation:
    """What a statement did: to a pod (its uid), or to a node (uid None)."""

    apply: Callable[[ClusterObjects], object]
    uid: str | None = None
    added: bool = False
    evicted: bool = False
    #: Where an evicted pod was.
    seat: tuple[Pod, str] | None = None
    node: str = ""

    def depends_on(self, other: Operation) -> bool:
        """Return whether the two must be undone in the reverse order."""
        return self.uid == other.uid


@dataclass(eq=False)
class Opened:
    """A statement, with the one it was opened in."""

    statement: Statement
    outer: Opened | None
    closed: bool = False

    def within(self, other: Opened) -> bool:
        """Return whether this is an inner statement of the other, at any depth."""
        return self.outer is not None and (self.outer is other or self.outer.within(other))


places = st.integers(0, 4)
ways = st.sampled_from(["add", "assume", "remove", "evict"])
which = st.sampled_from([0, 0, 0, 1, 2, 3])
openings = st.tuples(st.just("begin"))
in_statements = st.one_of(
    st.tuples(st.just("open"), which, st.booleans()),
    st.tuples(st.just("open"), which, st.booleans()),
    st.tuples(st.just("change_pod"), which, ways, pods_made, places),
    st.tuples(st.just("change_pod"), which, ways, pods_made, places),
    st.tuples(st.just("change_pod"), which, ways, pods_made, places),
    st.tuples(st.just("set_node"), which, nodes_made, places),
    st.tuples(st.just("write"), which, st.integers(0, 3), places),
    st.tuples(st.just("commit"), which),
    st.tuples(st.just("roll_back"), which),
    looks,
)


class StatementMachine(StateMachine):
    """A journal of operations, each with its statement; a rollback strikes out what the statement did."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[Opened] = []
        self.journal: list[tuple[Opened | None, Operation]] = []
        self.loose: dict[str, tuple[PodInfo, Pod]] = {}

    @start_of_history
    def start(self, nodes: list[Node], pods: list[tuple[Pod, str]]) -> None:
        super().start(nodes, pods)
        self.begin()

    def possible(self) -> st.SearchStrategy[Action]:
        return in_statements if self.opened else st.one_of(changes, openings, openings, openings)

    def now(self) -> ClusterObjects:
        truth = self.truth.copy()
        for _, operation in self.journal:
            operation.apply(truth)
        return truth

    def begin(self) -> None:
        self.opened.append(Opened(self.state.statement(), None))

    def open(self, which: int, inner: bool) -> None:
        of = self._pick(which)
        if sum(not each.closed for each in self.opened) == 5:
            return
        if not inner:
            self.begin()
        elif self._try(not of.closed, of.statement.statement):
            self.opened.append(Opened(self.state.statements[-1], of))

    def change_pod(self, which: int, how: str, new: Pod, place: int) -> None:
        """Put a pod on a node or take it off; on the last of the places the other way round, which is illegal."""
        of, (info, pod), now = self._pick(which), self._podded(new), self.now()
        uid, node_name = pod.metadata.uid, self._node_name(place)
        on = uid in now.placed and now.placed[uid][1] in now.nodes
        orphan = uid in now.pods and now.pods[uid][1] not in now.nodes
        wanted = ("remove", "evict") if on else () if orphan else ("add", "assume")
        if wanted and how not in wanted and node_name in now.nodes:
            how = wanted[place % 2]

        def put(truth: ClusterObjects) -> None:
            truth.placed[uid] = (pod, node_name)

        def assume(truth: ClusterObjects) -> None:
            truth.pods[uid] = truth.placed[uid] = (pod, node_name)
            truth.assumed.add(uid)

        def take(truth: ClusterObjects) -> None:
            del truth.placed[uid]

        legal, statement = how in wanted, of.statement
        match how:
            case "add":
                operation, act = Operation(put, uid, added=True), lambda: statement.add(info, node_name)
                legal = legal and node_name in now.nodes
            case "assume":
                operation, act = Operation(assume, uid), lambda: statement.assume(info, node_name)
                legal = legal and node_name in now.nodes and uid not in now.pods
            case "remove":
                operation, act = Operation(take, uid), lambda: statement.remove(info)
            case _:
                seat = now.placed.get(uid)
                operation, act = Operation(take, uid, evicted=True, seat=seat), lambda: statement.evict(info)
        if self._try(legal and self._may(of, operation), act):
            self.journal.append((of, operation))

    def set_node(self, which: int, new: Node, place: int) -> None:
        of, name = self._pick(which), self._node_name(place)
        new = msgspec.structs.replace(new, metadata=msgspec.structs.replace(new.metadata, name=name))

        def replace(truth: ClusterObjects) -> None:
            truth.nodes[name] = new

        operation = Operation(replace, node=name)
        possible = name in self.truth.nodes
        if self._try(possible and self._may(of, operation), lambda: of.statement.set_node(new)):
            self.journal.append((of, operation))

    def write(self, which: int, value: int, place: int) -> None:
        of, name = self._pick(which), self._node_name(place)
        row = self.state.nodes.row(name)
        if row is None:
            return

        def write(truth: ClusterObjects) -> None:
            truth.extra[name] = value

        operation, column = Operation(write), self.state.nodes.column("extra")
        if self._try(self._may(of, operation), lambda: of.statement.write(column, row, value)):
            self.journal.append((of, operation))

    def commit(self, which: int) -> None:
        of = self._pick(which)
        if not self._try(self._may_close(of) and self._may_commit(of), of.statement.commit):
            return
        if of.outer is None:
            nodes = self.now().nodes
            for operation in self._operations(of):
                if operation.node:
                    self.tree.put(operation.node, zone_of(nodes[operation.node].metadata.labels))
            self._put_back(of)
        self.journal = [(of.outer if owner is of else owner, operation) for owner, operation in self.journal]
        self._closed(of)

    def _put_back(self, of: Opened) -> None:
        """The evicted run on where they ran last, if the books know them and they are nowhere else."""
        now = self.now()
        seats = {operation.uid: operation.seat for operation in self._operations(of) if operation.evicted}
        for uid, seat in seats.items():
            if uid is not None and uid in now.pods and uid not in now.placed:

                def put_back(truth: ClusterObjects, uid: str = uid, seat: tuple[Pod, str] | None = seat) -> None:
                    assert seat is not None
                    truth.placed[uid] = seat

                self.journal.append((of, Operation(put_back, uid)))

    def roll_back(self, which: int) -> None:
        of = self._pick(which)
        if self._try(self._may_close(of), of.statement.rollback):
            self.journal = [(owner, operation) for owner, operation in self.journal if owner is not of]
            self._closed(of)

    def _closed(self, of: Opened) -> None:
        of.closed = True
        if all(each.closed for each in self.opened):
            self.truth = self.now()
            self.opened, self.journal, self.loose = [], [], {}

    def _may(self, of: Opened, operation: Operation) -> bool:
        return not of.closed and not any(
            younger.within(of) or any(map(operation.depends_on, self._operations(younger)))
            for younger in self._younger(of)
        )

    def _may_close(self, of: Opened) -> bool:
        return not of.closed and not any(
            younger.within(of) or self._dependent(of, younger) for younger in self._younger(of)
        )

    def _may_commit(self, of: Opened) -> bool:
        start = 0 if of.outer is None else self.opened.index(of.outer) + 1
        between = [each for each in self.opened[start : self.opened.index(of)] if not each.closed]
        if any(self._dependent(of, older) for older in between):
            return False
        now = self.now()
        added = {operation.uid for operation in self._operations(of) if operation.added}
        kept = {uid for uid in added if uid in now.placed and now.placed[uid][1] in now.nodes}
        return of.outer is not None or all(now.pods.get(uid) == now.placed[uid] for uid in kept)

    def _dependent(self, one: Opened, other: Opened) -> bool:
        return any(a.depends_on(b) for a in self._operations(one) for b in self._operations(other))

    def _operations(self, of: Opened) -> list[Operation]:
        return [operation for owner, operation in self.journal if owner is of]

    def _younger(self, of: Opened) -> Iterator[Opened]:
        return (each for each in self.opened[self.opened.index(of) + 1 :] if not each.closed)

    def _pick(self, which: int) -> Opened:
        """Pick a statement: the open ones first, the youngest before the others."""
        ranked = sorted(self.opened, key=lambda each: not each.closed)
        return ranked[-1 - which % len(ranked)]

    def _node_name(self, place: int) -> str:
        names = [*self.truth.nodes, "node-nowhere"]
        return names[place % len(names)]

    def _podded(self, new: Pod) -> tuple[PodInfo, Pod]:
        """Return the pod of this uid that the books know, else the one that what-ifs have used before, else this."""
        uid = new.metadata.uid
        known = self.state.pods.get(uid)
        if known is not None:
            return known, self.now().pods[uid][0]
        return self.loose.setdefault(uid, (PendingPod(new, self.state.interner), new))

    def _try(self, legal: bool, act: Callable[[], object]) -> bool:
        try:
            act()
        except (StatementError, AssumeError) as error:
            assert not legal, error
        else:
            assert legal, "the order is illegal"
        return legal

    @invariant()
    def the_evicted_are_listed(self) -> None:
        for each in self.opened:
            if not each.closed:
                evicted = [operation.uid for operation in self._operations(each) if operation.evicted]
                assert [pod.uid for pod in each.statement.evicted] == evicted


TestStatement = StatementMachine.TestCase
TestStatement.settings = settings(stateful_step_count=50)

rollback, merge_into = Statement.rollback, Statement._merge_into
cut, lift, replace = Log.discard_since, NodeTable.remove_pod, NodeTable.replace


def cut_what_was_read(log: Log[int], position: int) -> bool:
    log._read = 0
    return cut(log, position)


def cut_what_others_wrote(statement: Statement) -> None:
    rollback(statement)
    for log, start in zip(
        (statement._state.nodes.node_log, statement._state.nodes.pod_log), statement._start, strict=True
    ):
        log.discard_since(start)


def undo_the_first_first(statement: Statement) -> None:
    if not statement.closed:
        statement._undo.reverse()
    rollback(statement)


def undo_all_but_the_first(statement: Statement) -> None:
    if not statement.closed:
        del statement._undo[:1]
    rollback(statement)


def leave_the_first_pod_where_it_is(statement: Statement) -> None:
    for pod in list(statement._origins)[:1]:
        del statement._origins[pod]
    rollback(statement)


def merge_without_the_undoing(inner: Statement, outer: Statement) -> None:
    inner._undo = []
    merge_into(inner, outer)


def merge_without_the_origins(inner: Statement, outer: Statement) -> None:
    inner._origins = {}
    merge_into(inner, outer)


def stay_on_the_row(nodes: NodeTable, pod: PodInfo) -> None:
    row = pod.row
    lift(nodes, pod)
    pod.row = row


def replace_and_settle(nodes: NodeTable, row: int, node: Node) -> Node:
    old = replace(nodes, row, node)
    nodes.update_order(row)
    return old


def check_nothing(statement: Statement, *_: object) -> None:
    pass


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (Log, "discard_since", cut_what_was_read),
        (Statement, "rollback", cut_what_others_wrote),
        (Statement, "rollback", undo_the_first_first),
        (Statement, "rollback", undo_all_but_the_first),
        (Statement, "rollback", leave_the_first_pod_where_it_is),
        (Statement, "_merge_into", merge_without_the_undoing),
        (Statement, "_merge_into", merge_without_the_origins),
        (Statement, "_check_pod", check_nothing),
        (Statement, "_check_write", check_nothing),
        (Statement, "_check_close", check_nothing),
        (Statement, "_check_basis", check_nothing),
        (Statement, "_check_added", check_nothing),
        (NodeTable, "remove_pod", stay_on_the_row),
        (NodeTable, "replace", replace_and_settle),
    ],
)
def test_planted_fault_is_detected(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert fails(StatementMachine)
