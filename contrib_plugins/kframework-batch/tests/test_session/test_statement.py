"""What a job does is done as a whole or not at all: statuses, sums, nodes, columns and books of plugins together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.action import Action
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import JobStatement, Session
from kframework_batch.task_status import PREEMPTABLE, TaskStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_node

from kframework.values.status import Code, Status

Script = Callable[[Session], None]

_CONFIGURATION = """
actions: scripted
tiers:
- plugins:
  - name: ledger
  - name: predicates
  - name: nodeorder
"""


def staged(script: Script, *gangs: Gang, sessions: int = 1, refused: str = "") -> tuple[Stage, dict[str, int]]:
    """Run sessions that do what the script says; return the stage and the books of a plugin: what it thinks is held."""
    books: dict[str, int] = {}

    class Ledger(BatchPlugin):
        name = "ledger"

        @hookimpl
        def on_session_open(self, session: Session) -> None:
            books.clear()

        @hookimpl
        def allocated(self, session: Session, task: TaskInfo) -> Status | None:
            if task.name == refused:
                return Status(Code.UNSCHEDULABLE, ("not this one",))
            books[task.name] = books.get(task.name, 0) + 1
            return None

        @hookimpl
        def deallocated(self, session: Session, task: TaskInfo) -> None:
            books[task.name] = books.get(task.name, 0) - 1

    class Scripted(Action):
        name = "scripted"

        def run(self, session: Session) -> Iterator[None]:
            script(session)
            yield

    stage = Stage(
        _CONFIGURATION,
        nodes=[make_node("n1", cpu=8), make_node("n2", cpu=8)],
        gangs=gangs,
        classes=[Scripted, Ledger],
    )
    return stage.session(sessions), books


def tasks(session: Session) -> dict[str, TaskInfo]:
    return {task.name: task for job in session.jobs.values() for task in job.tasks.values()}


def positive(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def picture(session: Session, books: dict[str, int]) -> object:
    """Return all that an operation may change."""
    nodes = session.nodes
    return (
        {name: (task.status, task.node_name, task.pod.row) for name, task in tasks(session).items()},
        {
            job.uid: (positive(job.allocated), positive(job.requested), job.ready_num, job.waiting_num)
            for job in session.jobs.values()
        },
        {name: column.values.tolist() for name, column in nodes.requesteds.items()},
        {row: (session.idle.idle(row), session.idle.future(row)) for row in nodes.order.tolist()},
        positive(books),
        sorted(session.cluster.assumed),
    )


def test_commit_binds_evicts_and_ends_promises_with_the_session() -> None:
    def script(session: Session) -> None:
        with session.statement() as statement:
            assert statement.allocate(tasks(session)["new-0"], "n1") is None
            assert statement.pipeline(tasks(session)["new-1"], "n2") is None
            statement.evict(tasks(session)["old-0"], "room is wanted")
            statement.commit()
        assert tasks(session)["new-1"].status is TaskStatus.PIPELINED

    stage, _ = staged(script, make_gang("old", 1, on=["n2"], cpu=6), make_gang("new", 2, cpu=3))
    assert stage.bound == {"new-0": "n1"}
    assert stage.evicted == {"old-0": "room is wanted"}
    assert (stage.task("new-1").status, stage.task("new-1").node_name) == (TaskStatus.PENDING, "")
    assert stage.task("old-0").status is TaskStatus.RELEASING
    row = stage.engine.cluster.nodes.row("n2")
    assert row is not None
    assert stage.engine.cluster.nodes.requested("cpu")[row] == 6000, "a victim runs until it is gone"


def test_kept_statement_holds_room_without_binding() -> None:
    seen: list[bool] = []

    def script(session: Session) -> None:
        with session.statement() as statement:
            statement.allocate(tasks(session)["a-0"], "n1")
            statement.pipeline(tasks(session)["a-1"], "n1")
            statement.keep()
        row = session.nodes.row("n1")
        assert row is not None
        seen.append(session.idle.fits_future(tasks(session)["b-0"], row))

    stage, _ = staged(script, make_gang("a", 2, cpu=4), make_gang("b", 1, cpu=1), sessions=2)
    assert seen == [False, False], "each session begins with the nodes as they are"
    assert stage.bound == {} and not stage.engine.cluster.assumed
    assert {task.status for task in stage.engine.cache.tasks.values()} == {TaskStatus.PENDING}


def test_rejection_by_a_plugin_undoes_only_the_operation() -> None:
    answers: list[Status | None] = []

    def script(session: Session) -> None:
        with session.statement() as statement:
            answers.append(statement.allocate(tasks(session)["a-0"], "n1"))
            before = picture(session, books)
            answers.append(statement.allocate(tasks(session)["a-1"], "n1"))
            answers.append(statement.pipeline(tasks(session)["a-1"], "n1"))
            assert picture(session, books) == before
            statement.commit()

    books: dict[str, int] = {}
    stage, _ = staged(script, make_gang("a", 2), refused="a-1")
    assert [answer and answer.message for answer in answers] == [None, "not this one", "not this one"]
    assert stage.bound == {"a-0": "n1"}


def test_discard_sets_tentative_nodes() -> None:
    def script(session: Session) -> None:
        with session.statement() as statement:
            statement.allocate(tasks(session)["a-0"], "n1")
        assert statement.is_closed

    stage, _ = staged(script, make_gang("a", 2, minimum=2))
    assert stage.message("a-0") == "Pod default/a-0 can possibly be assigned to n1, once minAvailable is satisfied"


def test_victim_that_cannot_be_deleted_stays() -> None:
    def script(session: Session) -> None:
        victim = tasks(session)["old-0"]
        if victim.status is TaskStatus.RUNNING and not seen:
            with session.statement() as statement:
                statement.evict(victim, "no reason")
                statement.commit()
        seen.append(victim.status)

    seen: list[TaskStatus] = []
    stage, _ = staged(script, make_gang("old", 1, on=["n1"]), sessions=0)
    stage.refuses_evictions = True
    stage.session(2)
    assert seen == [TaskStatus.RELEASING, TaskStatus.RUNNING]
    assert stage.task("old-0").status is TaskStatus.RUNNING


def test_victim_on_deleted_node_is_evicted() -> None:
    def script(session: Session) -> None:
        with session.statement() as statement:
            statement.evict(tasks(session)["lost-0"], "its node has gone")
            statement.commit()

    stage, _ = staged(script, make_gang("lost", 1, on=["n3"]))
    assert stage.evicted == {"lost-0": "its node has gone"}
    assert stage.task("lost-0").status is TaskStatus.RELEASING


operations = st.lists(
    st.tuples(
        st.sampled_from(["allocate", "pipeline", "evict", "open", "commit", "discard"]),
        st.integers(0, 11),
        st.sampled_from(["n1", "n2"]),
    ),
    max_size=25,
)


@given(operations)
def test_discard_restores_the_state(steps: list[tuple[str, int, str]]) -> None:
    books: dict[str, int] = {}

    def script(session: Session) -> None:
        books.clear()
        books.update(held)
        before = picture(session, held)
        outermost = session.statement()
        opened = [(outermost, before)]
        for how, which, node in steps:
            act(session, opened, how, which, node)
        while len(opened) > 1:
            opened.pop()[0].discard()
        outermost.discard()
        assert picture(session, held) == before

    def act(session: Session, opened: list[tuple[JobStatement, object]], how: str, which: int, node: str) -> None:
        statement, before = opened[-1]
        known = list(tasks(session).values())
        task = known[which % len(known)]
        match how:
            case "open":
                opened.append((statement.statement(), picture(session, held)))
            case "commit" if len(opened) > 1:
                opened.pop()[0].commit()
            case "discard" if len(opened) > 1:
                opened.pop()[0].discard()
                assert picture(session, held) == before
            case "allocate" if task.status is TaskStatus.PENDING:
                statement.allocate(task, node)
            case "pipeline" if task.status is TaskStatus.PENDING:
                statement.pipeline(task, node)
            case "evict" if task.status in PREEMPTABLE:
                statement.evict(task, "just so")

    gangs = [
        make_gang("run", 3, on=["n1", "n2", "n1"], cpu=2),
        make_gang("wait", 4, cpu=3),
        make_gang("idle", 2, cpu=None),
    ]
    stage, held = staged(lambda session: None, *gangs, sessions=0)
    stage_script(stage, script)
    stage.session()
    assert stage.bound == {} and stage.evicted == {}


def stage_script(stage: Stage, script: Script) -> None:
    """Give the one action of a stage another script."""
    (action,) = stage.engine._program.actions

    def run(session: Session) -> Iterator[None]:
        script(session)
        yield

    action.run = run  # type: ignore[method-assign]  # one script for each example


@pytest.mark.parametrize("seed", range(5))
def test_accounts_are_balanced_after_commit_and_undo(seed: int) -> None:
    random = Random(seed)

    def script(session: Session) -> None:
        for _ in range(20):
            waiting = [task for task in tasks(session).values() if task.status is TaskStatus.PENDING]
            with session.statement() as statement:
                for task in random.sample(waiting, min(2, len(waiting))):
                    statement.pipeline(task, random.choice(["n1", "n2"]))
                if random.random() < 0.3:
                    statement.commit()

    stage, books = staged(script, make_gang("a", 6), sessions=3)
    assert all(count in (0, 1) for count in books.values())
    assert {task.status for task in stage.engine.cache.tasks.values()} == {TaskStatus.PENDING}
    assert not any(column.values.any() for column in stage.engine.cluster.nodes.requesteds.values())
