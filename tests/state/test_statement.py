"""Statements: what each operation does and undoes, which orders are legal, what is left in the logs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework.errors import StatementError
from kframework.objects import PersistentVolumeClaim
from kframework.state.cluster import AssumeError, ClusterState
from kframework.state.log import UNREAD
from kframework.state.objects import AssumptionError
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from tests.support.objects import node, pod
from tests.support.storage import claim


class Cluster(ClusterState):
    """Nodes a, b and c; pods p and q are on a, r and s wait, each takes one core; the node of another has left."""

    def __init__(self) -> None:
        super().__init__()
        for name in "abc":
            self.put_node(node(name))
        for uid in "pq":
            self.put_pod(pod(uid, {"cpu": "1"}, node_name="a"))
        self.put_pod(pod("orphan", node_name="gone"))
        self.pending = {uid: PendingPod(pod(uid, {"cpu": "1"}), self.interner) for uid in "rs"}

    def pod(self, uid: str) -> PodInfo:
        """Return a pod, placed or pending."""
        return self.pods.get(uid) or self.pending[uid]

    def on(self, name: str) -> str:
        """Spell the pods on a node, having compared the books with them."""
        info = self.nodes.find(name)
        assert info is not None
        assert info.requested("cpu") == 1000 * info.requested("pods") == 1000 * len(info.pods)
        return "".join(sorted(each.uid for each in info.pods))

    def log_ends(self) -> tuple[int, int]:
        """Return where the two logs end."""
        return self.nodes.node_log.end, self.nodes.pod_log.end


@pytest.fixture
def state() -> Cluster:
    return Cluster()


def close(statement: Statement, kept: bool) -> None:
    """Commit a statement or roll it back."""
    if kept:
        statement.commit()
    else:
        statement.rollback()


def test_operations_show_at_once_and_are_undone(state: Cluster) -> None:
    ends, cells = state.log_ends(), state.nodes.column("own").cells
    with state.statement() as statement:
        statement.add(state.pod("r"), "b")
        statement.remove(state.pod("p"))
        statement.add(state.pod("p"), "c")
        statement.evict(state.pod("q"))
        statement.assume(state.pod("s"), "b")
        statement.set_node(node("b", {"cpu": "1"}))
        statement.write(state.nodes.column("own"), 1, 7)
        assert (state.on("a"), state.on("b"), state.on("c")) == ("", "rs", "p")
        assert (state.nodes.allocatable("cpu")[1], cells[1], state.assumed) == (1000, 7, {"s"})
        assert [each.uid for each in statement.evicted] == ["q"]
        assert statement.changed_uids == {"p", "q", "r", "s"}
        assert repr(statement) == "<Statement open, 4 pods changed>"
    assert repr(statement) == "<Statement closed, 4 pods changed>"
    assert (state.on("a"), state.on("b"), state.on("c")) == ("pq", "", "")
    assert (state.nodes.allocatable("cpu")[1], cells[1], state.assumed) == (4000, 0, set())
    assert (state.pod("s").node_name, state.pod("p").node_name) == ("", "a")
    assert state.log_ends() == ends
    assert state.statements == []


def test_commit_keeps_what_was_done(state: Cluster) -> None:
    with state.statement() as statement:
        statement.assume(state.pod("r"), "b")
        statement.evict(state.pod("q"))
        statement.set_node(node("b", {"cpu": "1"}))
        statement.commit()
    assert (state.on("b"), state.assumed) == ("r", {"r"})
    assert state.nodes.allocatable("cpu")[1] == 1000


def test_evicted_pod_takes_its_room_until_the_cluster_deletes_it(state: Cluster) -> None:
    taken = state.nodes.requested("pods")[0]
    with state.statement() as statement:
        statement.evict(state.pod("q"))
        with statement.statement() as inner:
            inner.evict(state.pod("p"))
            inner.commit()
        assert (state.on("a"), state.nodes.requested("pods")[0]) == ("", taken - 2)
        statement.commit()
    assert (state.on("a"), state.nodes.requested("pods")[0]) == ("pq", taken)
    assert [each.uid for each in statement.evicted] == ["q", "p"]


def test_evicted_pod_that_went_elsewhere_is_not_put_back(state: Cluster) -> None:
    with state.statement() as statement:
        statement.add(state.pod("r"), "b")
        statement.evict(state.pod("r"))  # the books do not know it: it was only supposed to be there
        statement.commit()
    assert state.on("b") == ""


def test_books_of_an_extension_are_undone_in_reverse(state: Cluster) -> None:
    said: list[str] = []
    outer = state.statement()
    outer.record(lambda: said.append("first"))
    kept = outer.statement()
    kept.record(lambda: said.append("second"))
    kept.commit()
    with outer.statement() as inner:
        inner.record(lambda: said.append("third"))
    assert said == ["third"]
    outer.rollback()
    assert said == ["third", "second", "first"]
    with pytest.raises(StatementError, match="closed"):
        outer.record(lambda: None)


def test_exception_rolls_back(state: Cluster) -> None:
    with pytest.raises(ZeroDivisionError), state.statement() as statement:
        statement.remove(state.pod("p"))
        raise ZeroDivisionError
    assert (state.on("a"), statement.closed) == ("pq", True)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda of, state: of.add(state.pod("p"), "b"), "pod default/p is on a node already"),
        (lambda of, state: of.assume(state.pod("p"), "b"), "pod default/p is on a node already"),
        (lambda of, state: of.remove(state.pod("r")), "pod default/r is on no node"),
        (lambda of, state: of.evict(state.pod("r")), "pod default/r is on no node"),
        (lambda of, state: of.add(state.pod("r"), "x"), "unknown node 'x'"),
        (lambda of, state: of.assume(state.pod("r"), "x"), "unknown node 'x'"),
        (lambda of, state: of.set_node(node("x")), "unknown node 'x'"),
        (lambda of, state: of.add(PodInfo(pod("p"), state.interner), "b"), "pod default/p is on a node already"),
        (lambda of, state: of.add(state.pod("orphan"), "b"), "pod default/orphan is on a node already"),
        (lambda of, state: of.remove(state.pod("orphan")), "pod default/orphan is on no node"),
    ],
)
def test_refused_operation_changes_nothing(
    state: Cluster, act: Callable[[Statement, Cluster], object], message: str
) -> None:
    ends = state.log_ends()
    statement = state.statement()
    with pytest.raises(StatementError, match=message):
        act(statement, state)
    assert (state.on("a"), state.on("b"), state.assumed, state.log_ends()) == ("pq", "", set(), ends)
    assert (statement.changed_uids, statement.evicted) == (set(), [])
    statement.rollback()
    assert (state.on("a"), state.on("b")) == ("pq", "")


def test_pod_in_the_books_cannot_be_assumed_even_off_its_node(state: Cluster) -> None:
    with state.statement() as statement:
        statement.remove(state.pod("p"))
        with pytest.raises(AssumeError):
            statement.assume(state.pod("p"), "b")
    assert (state.on("a"), state.on("b")) == ("pq", "")


@pytest.mark.parametrize(
    "use",
    [
        lambda of, state: of.add(state.pod("r"), "a"),
        lambda of, state: of.remove(state.pod("p")),
        lambda of, state: of.evict(state.pod("p")),
        lambda of, state: of.assume(state.pod("r"), "a"),
        lambda of, state: of.set_node(node("a", {"cpu": "1"})),
        lambda of, state: of.write(state.nodes.column("own"), 0, 7),
        lambda of, state: of.statement(),
        lambda of, state: of.commit(),
        lambda of, state: of.rollback(),
    ],
)
@pytest.mark.parametrize("others", [0, 1])
def test_closed_statement_is_of_no_use(
    state: Cluster, use: Callable[[Statement, Cluster], object], others: int
) -> None:
    closed = state.statement()
    closed.rollback()
    for _ in range(others):
        state.statement()
    with pytest.raises(StatementError, match="the statement is closed"):
        use(closed, state)
    assert (state.on("a"), state.nodes.column("own").cells[0], len(state.statements)) == ("pq", 0, others)


@pytest.mark.parametrize("home", ["a", "b"])
def test_pod_that_was_only_added_is_not_kept_but_at_home(state: Cluster, home: str) -> None:
    statement = state.statement()
    statement.remove(state.pod("p"))
    statement.add(state.pod("p"), home)
    if home == "a":
        statement.commit()
    else:
        with pytest.raises(StatementError, match="pod default/p was only added; assume it to keep it"):
            statement.commit()
        statement.rollback()
    assert (state.on("a"), state.on("b")) == ("pq", "")


def test_pod_that_was_added_and_removed_is_no_hindrance(state: Cluster) -> None:
    statement = state.statement()
    statement.add(state.pod("r"), "b")
    statement.remove(state.pod("r"))
    statement.commit()
    assert (state.on("b"), "r" in state.pods) == ("", False)


@pytest.mark.parametrize(("keep", "order"), [(True, ["b", "d", "c", "a"]), (False, ["a", "b", "d", "c"])])
def test_what_if_moves_a_node_to_another_zone_with_its_commit(keep: bool, order: list[str]) -> None:
    state = ClusterState()
    for name, zone in (("a", "x"), ("b", "y"), ("c", "y")):
        state.put_node(node(name, zone=zone))
    statement = state.statement()
    statement.set_node(node("a", zone="y"))
    close(statement, keep)
    state.put_node(node("d", zone="z"))
    assert [info.name for info in state.nodes] == order


@pytest.mark.parametrize(
    ("inner_kept", "outer_kept", "on_a", "evicted"),
    [(True, True, "pq", "pq"), (True, False, "pq", "pq"), (False, True, "pq", "p"), (False, False, "pq", "p")],
)
def test_inner_statement_is_part_of_its_outer_one(
    state: Cluster, inner_kept: bool, outer_kept: bool, on_a: str, evicted: str
) -> None:
    outer = state.statement()
    outer.evict(state.pod("p"))
    inner = outer.statement()
    inner.evict(state.pod("q"))
    close(inner, inner_kept)
    assert "".join(each.uid for each in outer.evicted) == evicted
    close(outer, outer_kept)
    assert "".join(sorted(state.on("a"))) == on_a


def test_outer_statement_rests_while_an_inner_one_is_open(state: Cluster) -> None:
    outer = state.statement()
    inner = outer.statement().statement()
    forbidden: list[Callable[[], None]] = [lambda: outer.remove(state.pod("p")), outer.commit, outer.rollback]
    for act in forbidden:
        with pytest.raises(StatementError, match="an inner statement is still open"):
            act()
    assert (state.on("a"), inner.closed) == ("pq", False)


def test_independent_statements_are_closed_in_any_order(state: Cluster) -> None:
    one, two, three = (state.statement() for _ in range(3))
    one.remove(state.pod("p"))
    three.assume(state.pod("s"), "c")
    two.set_node(node("b", {"cpu": "1"}))
    two.assume(state.pod("r"), "b")
    one.add(state.pod("p"), "c")
    two.commit()
    one.rollback()
    three.commit()
    assert (state.on("a"), state.on("b"), state.on("c")) == ("pq", "r", "s")


Act = Callable[[Statement, Cluster], object]

REMOVE: Act = lambda of, state: of.remove(state.pod("p"))  # noqa: E731  # a table of deeds
ADD: Act = lambda of, state: of.add(state.pod("p"), "b")  # noqa: E731 -- a table of one-liners
SET: Act = lambda of, state: of.set_node(node("a", {"cpu": "1"}))  # noqa: E731 -- a table of one-liners
WRITE: Act = lambda of, state: of.write(state.nodes.column("own"), 0, 7)  # noqa: E731 -- a table of one-liners

DEPENDENT = [(REMOVE, ADD), (SET, WRITE), (WRITE, WRITE), (SET, SET)]


@pytest.mark.parametrize(("first", "then"), DEPENDENT)
@pytest.mark.parametrize("kept", [True, False])
def test_of_dependent_statements_the_younger_is_closed_first(state: Cluster, first: Act, then: Act, kept: bool) -> None:
    older, younger = state.statement(), state.statement()
    first(older, state)
    then(younger, state)
    with pytest.raises(StatementError, match="a later statement, still open, builds on this one; close it first"):
        close(older, kept)
    younger.rollback()
    older.rollback()
    assert (state.on("a"), state.on("b")) == ("pq", "")
    assert (state.nodes.allocatable("cpu")[0], state.nodes.column("own").cells[0]) == (4000, 0)


@pytest.mark.parametrize(("first", "then"), DEPENDENT)
def test_statement_is_not_committed_before_the_one_it_builds_on(state: Cluster, first: Act, then: Act) -> None:
    older, younger = state.statement(), state.statement()
    first(older, state)
    then(younger, state)
    with pytest.raises(StatementError, match="this statement builds on an earlier one, still open"):
        younger.commit()
    younger.rollback()
    older.rollback()
    assert (state.on("a"), state.nodes.allocatable("cpu")[0]) == ("pq", 4000)


@pytest.mark.parametrize(("first", "then"), DEPENDENT)
def test_older_statement_does_not_meddle(state: Cluster, first: Act, then: Act) -> None:
    older, younger = state.statement(), state.statement()
    first(younger, state)
    with pytest.raises(StatementError, match="a later statement, still open, has"):
        then(older, state)
    younger.rollback()
    older.rollback()
    assert (state.on("a"), state.on("b"), state.nodes.allocatable("cpu")[0]) == ("pq", "", 4000)


def test_inner_commit_does_not_slip_below_what_it_builds_on(state: Cluster) -> None:
    older, between = state.statement(), state.statement()
    between.remove(state.pod("p"))
    inner = older.statement()
    inner.add(state.pod("p"), "b")
    with pytest.raises(StatementError, match="this statement builds on an earlier one, still open"):
        inner.commit()
    for each in (inner, between, older):
        each.rollback()
    assert (state.on("a"), state.on("b")) == ("pq", "")


def test_outer_statement_includes_changes_of_its_inner_one(state: Cluster) -> None:
    older = state.statement()
    with older.statement() as inner:
        inner.remove(state.pod("p"))
        inner.commit()
    younger = state.statement()
    younger.add(state.pod("p"), "b")
    with pytest.raises(StatementError):
        older.rollback()
    younger.rollback()
    older.rollback()
    assert (state.on("a"), state.on("b")) == ("pq", "")


@pytest.mark.parametrize(("kept", "node_name"), [(True, "b"), (False, "")], ids=["commit", "rollback"])
def test_pod_that_is_assumed_where_a_what_if_took_it_off_goes_back_there(
    state: Cluster, kept: bool, node_name: str
) -> None:
    older, pod = state.statement(), state.pod("r")
    older.add(pod, "b")
    younger = older.statement()
    younger.remove(pod)
    younger.assume(pod, "b")
    close(younger, kept)
    assert (state.on("b"), pod.node_name) == ("r", node_name)
    older.rollback()
    assert (state.on("b"), pod.node_name, state.assumed) == ("", "", set())


def test_reader_inside_a_what_if_gets_restored_changes(state: Cluster) -> None:
    log = state.nodes.pod_log
    log.since(UNREAD)
    statement = state.statement()
    statement.remove(state.pod("p"))
    log.since(log.end - 1)
    position = log.end
    statement.rollback()
    assert log.since(position) == [0]


def test_commit_during_an_older_what_if_stays_in_the_log(state: Cluster) -> None:
    log = state.nodes.pod_log
    log.since(UNREAD)
    position = log.end
    older, younger = state.statement(), state.statement()
    older.add(state.pod("r"), "b")
    younger.assume(state.pod("s"), "c")
    younger.commit()
    older.rollback()
    changed = log.since(position)
    assert changed is not None
    assert 2 in changed


def test_changes_restored_by_an_older_what_if_stay_in_the_log(state: Cluster) -> None:
    log = state.nodes.pod_log
    older = state.statement()
    older.remove(state.pod("p"))
    log.since(UNREAD)
    position = log.end
    younger = state.statement()
    younger.add(state.pod("r"), "b")
    older.rollback()
    younger.rollback()
    changed = log.since(position)
    assert changed is not None
    assert 0 in changed


def test_log_is_cut_through_nested_commits(state: Cluster) -> None:
    ends = state.log_ends()
    with state.statement() as outer:
        outer.remove(state.pod("p"))
        with outer.statement() as inner:
            inner.set_node(node("b", {"cpu": "1"}))
            inner.commit()
        with outer.statement() as inner:
            inner.add(state.pod("r"), "c")
    assert state.log_ends() == ends


def test_written_column_is_a_change_of_its_row(state: Cluster) -> None:
    ends = state.log_ends()
    statement = state.statement()
    statement.write(state.nodes.column("own"), 2, 7)
    logs = (state.nodes.node_log, state.nodes.pod_log)
    assert [log.since(end) for log, end in zip(logs, ends, strict=True)] == [[2], [2]]
    ends = state.log_ends()
    statement.rollback()
    assert [log.since(end) for log, end in zip(logs, ends, strict=True)] == [[2], [2]]


def test_objects_are_assumed_or_stored_as_long_as_a_statement_is_open(state: Cluster) -> None:
    store, data = state.objects(PersistentVolumeClaim), claim("data", version="1")
    store.put(data.metadata, data)
    first, second = (claim("data", version="1", selected=name) for name in "ab")
    with state.statement() as outer:
        outer.assume_object(store, first)
        with outer.statement() as inner:
            inner.assume_object(store, second)
            inner.assume_object(store, claim("new"))
            assert store.get("data", "default") == second and store.get("new", "default") is not None
        assert store.get("data", "default") == first and store.get("new", "default") is None
        with pytest.raises(AssumptionError):
            outer.assume_object(store, claim("data", version="2"))
    assert store.get("data", "default") == data
