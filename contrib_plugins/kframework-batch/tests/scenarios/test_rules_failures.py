"""What is left when something fails half-way through a session: rules of whole sessions.

Unlike Volcano's a commit is whole: a gang is bound with its minimum, or nothing of it is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from kframework_batch import core_plugins
from kframework_batch.action import Action
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin, Vote, hookimpl
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Stage, make_gang, make_node, make_queue

from kframework.engine import Plan
from kframework.errors import PluginError
from kframework.objects import ObjectMeta, PriorityClass
from kframework.values.status import Code, Status, unschedulable

TIERS = """
tiers:
- plugins: [{name: gang}]
- plugins: [{name: predicates}]
"""


class Ledger(BatchPlugin):
    """Counts its calls about each task."""

    name = "ledger"
    books: ClassVar[dict[str, int]] = {}

    @hookimpl
    def on_session_open(self, session: Session) -> None:
        self.books.clear()

    @hookimpl
    def allocated(self, session: Session, task: TaskInfo) -> None:
        self.books[task.name] = self.books.get(task.name, 0) + 1

    @hookimpl
    def deallocated(self, session: Session, task: TaskInfo) -> None:
        self.books[task.name] = self.books.get(task.name, 0) - 1


class Echo(Ledger):
    """Counts the same behind the one that refuses, which it must not hear of."""

    name = "echo"
    books: ClassVar[dict[str, int]] = {}


class Refusing(BatchPlugin):
    """Refuses the tasks that end in 1 the room that was found for them."""

    name = "refusing"

    @hookimpl
    def allocated(self, session: Session, task: TaskInfo) -> Status | None:
        return unschedulable("not this one") if task.name == "j-1" else None


REFUSED = TIERS.replace("tiers:\n", "tiers:\n- plugins: [{name: ledger}, {name: refusing}, {name: echo}]\n")
WATCHED = REFUSED.replace("{name: refusing}, ", "")


@pytest.fixture
def reserved(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let the core's Reserve refuse j-1; return the pods that hold something reserved."""
    held: set[str] = set()

    def reserve(profile: object, state: object, pod: Any, node_name: str) -> Status | None:
        held.add(pod.name)
        return Status(Code.UNSCHEDULABLE, ("not this one",)) if pod.name == "j-1" else None

    def unreserve(profile: object, state: object, pod: Any, node_name: str) -> None:
        held.remove(pod.name)

    monkeypatch.setattr(Plan, "binds_directly", False)
    monkeypatch.setattr(core_plugins, "run_reserve", reserve)
    monkeypatch.setattr(core_plugins, "run_unreserve", unreserve)
    return held


MIDDLE = [
    pytest.param(3, "k-0 k-1", id="the gang needs it: nothing is bound, and others have the room"),
    pytest.param(2, "j-0 j-2", id="the gang can do without: the others are bound"),
]


@pytest.mark.parametrize(("minimum", "bound"), MIDDLE)
def test_plugin_rejects_in_the_middle_of_a_gang(minimum: int, bound: str) -> None:
    gangs = [make_gang("j", 3, minimum=minimum, age=9), make_gang("k", 2)]
    nodes = [make_node("n1", cpu=3)]
    stage = Stage("actions: allocate" + REFUSED, nodes=nodes, gangs=gangs, classes=[Ledger, Refusing, Echo]).session()
    assert " ".join(sorted(stage.bound)) == bound
    assert stage.message("j-1") == "not this one"
    for books in (Ledger.books, Echo.books):
        assert {name for name, count in books.items() if count} == set(bound.split())
    stage.check()


@pytest.mark.parametrize(("minimum", "bound"), MIDDLE)
def test_reserve_fails_in_the_middle_of_a_gang(minimum: int, bound: str, reserved: set[str]) -> None:
    gangs = [make_gang("j", 3, minimum=minimum, age=9), make_gang("k", 2)]
    stage = Stage(
        "actions: allocate" + WATCHED, nodes=[make_node("n1", cpu=3)], gangs=gangs, classes=[Ledger, Echo]
    ).session()
    assert " ".join(sorted(stage.bound)) == bound
    assert stage.message("j-1") == "not this one"
    assert {name for name, count in Ledger.books.items() if count} == set(bound.split()) == reserved
    stage.check()


CLASSES = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in (("low", 1), ("high", 9))]


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_nothing_is_evicted_for_a_rejected_pipelined_task(action: str) -> None:
    class Willing(BatchPlugin):
        name = "willing"

        @hookimpl
        def preemptable(self, session: Session, preemptor: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
            return tasks

        @hookimpl
        def reclaimable(self, session: Session, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
            return tasks

    there = make_gang("v", 2, minimum=0, on=["n1", "n1"], queue="default" if action == "preempt" else "q")
    tiers = REFUSED.replace("{name: ledger}", "{name: ledger}, {name: willing}").replace(
        "{name: gang}", "{name: gang, enablePreemptable: false, enableReclaimable: false}"
    )
    stage = Stage(
        f"actions: {action}{tiers}",
        nodes=[make_node("n1", cpu=2)],
        queues=[make_queue("q")],
        gangs=[there, make_gang("j", 2, age=9)],
        classes=[Ledger, Refusing, Echo, Willing],
    ).session()
    assert (stage.evicted, stage.bound) == ({}, {})
    assert not any(Ledger.books.values())
    assert not any(Echo.books.values())
    stage.check()


@pytest.mark.parametrize(
    ("minimum", "unbindable", "gone"),
    [
        pytest.param(3, "j-1", "j-0 j-2", id="of a gang that needs it the others go after the timeout"),
        pytest.param(2, "j-1", "", id="a gang that can do without keeps the others"),
        pytest.param(3, "j-0 j-1 j-2", "", id="where none was bound nobody has to go"),
    ],
)
def test_failed_bindings_are_undone(minimum: int, unbindable: str, gone: str) -> None:
    gangs = [make_gang("j", 3, minimum=minimum)]
    stage = Stage("actions: allocate" + TIERS, nodes=[make_node("n1")], gangs=gangs, gang_timeout=10.0)
    stage.unbindable = dict.fromkeys(unbindable.split(), "no")
    stage.session()
    assert set(stage.bound) == {"j-0", "j-1", "j-2"} - set(unbindable.split())
    stage.check()
    stage.session(12)
    assert " ".join(sorted(stage.evicted)) == gone
    stage.check()


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_victim_that_cannot_be_deleted_stays_and_its_preemptor_waits(action: str) -> None:
    tiers = TIERS.replace("{name: gang}", "{name: priority}, {name: gang}").replace(
        "}]\n", "}, {name: proportion}]\n", 2
    )
    there = make_gang(
        "v", 2, minimum=0, on=["n1", "n1"], queue="default" if action == "preempt" else "q", priority_class="low"
    )
    waits = make_gang("w", 1, priority_class="high")
    stage = Stage(
        f'actions: "allocate, {action}"\n' + tiers,
        nodes=[make_node("n1", cpu=2)],
        queues=[make_queue("q")],
        gangs=[there, waits],
        objects=CLASSES,
    )
    stage.refuses_evictions = True
    stage.session()
    assert (len(stage.evicted), stage.bound) == (1, {}), "one is to go"
    stage.check()
    assert {stage.task(name).status for name in ("v-0", "v-1")} == {TaskStatus.RUNNING}, "but it stays"
    stage.refuses_evictions = False
    stage.session()
    (victim,) = [name for name in stage.evicted if stage.task(name).status is TaskStatus.RELEASING]
    stage.finish_evictions(victim)
    stage.session()
    assert stage.bound == {"w-0": "n1"}
    stage.check()


class Fuse(BatchPlugin):
    """Blows at a hook, for a job or a task of this name."""

    name = "fuse"
    blows: ClassVar[tuple[str, str]] = ("", "")

    def _at(self, hook: str, name: str) -> None:
        if Fuse.blows == (hook, name):
            raise ValueError("blown")

    @hookimpl
    def on_session_open(self, session: Session) -> None:
        self._at("on_session_open", "")

    @hookimpl
    def on_session_close(self, session: Session) -> None:
        self._at("on_session_close", "")

    @hookimpl
    def allocated(self, session: Session, task: TaskInfo) -> None:
        self._at("allocated", task.name)

    @hookimpl
    def deallocated(self, session: Session, task: TaskInfo) -> None:
        self._at("deallocated", task.job.name)

    @hookimpl
    def job_ready(self, session: Session, job: Any) -> bool:
        ready: bool = job.is_ready
        if ready:
            self._at("job_ready", job.name)
        return ready

    @hookimpl
    def job_pipelined(self, session: Session, job: Any) -> Vote:
        self._at("job_pipelined", job.name)
        return Vote.ABSTAIN


class Failing(Action):
    """Raises, in the middle of a statement."""

    name = "failing"

    def run(self, session: Session) -> Iterator[None]:
        job = session.jobs["default/k"]
        with session.statement() as statement:
            for task in list(job.with_status(TaskStatus.PENDING).values())[:1]:
                statement.allocate(task, "n1")
                yield
                if Fuse.blows == ("run", "failing"):
                    raise ValueError("blown")


@pytest.fixture
def fuse() -> Iterator[type[Fuse]]:
    yield Fuse
    Fuse.blows = ("", "")


@pytest.mark.parametrize(
    ("actions", "hook", "of", "kept"),
    [
        pytest.param("allocate", "on_session_open", "", "", id="before the first action"),
        pytest.param("allocate", "allocated", "j-1", "", id="in the middle of the first gang"),
        pytest.param("allocate", "allocated", "k-1", "j-0 j-1", id="in the middle of the second gang"),
        pytest.param("allocate", "deallocated", "l", "j-0 j-1 k-0 k-1", id="while a gang is given up"),
        pytest.param("allocate", "job_ready", "k", "j-0 j-1", id="before the commit of the second gang"),
        pytest.param("allocate", "job_pipelined", "l", "j-0 j-1 k-0 k-1", id="before a gang is given up"),
        pytest.param("failing, allocate", "run", "failing", "", id="an action before the commits"),
        pytest.param("allocate, failing", "on_session_close", "", "j-0 j-1 k-0 k-1", id="after the last action"),
    ],
)
def test_exception_ends_the_session_and_committed_changes_stay(
    actions: str, hook: str, of: str, kept: str, fuse: type[Fuse]
) -> None:
    tiers = TIERS.replace("tiers:\n", "tiers:\n- plugins: [{name: ledger}, {name: fuse}]\n")
    gangs = [make_gang("j", 2, age=9), make_gang("k", 2, age=8), make_gang("l", 2, age=7)]
    stage = Stage(
        f"actions: {actions}{tiers}", nodes=[make_node("n1", cpu=5)], gangs=gangs, classes=[Ledger, Fuse, Failing]
    )
    fuse.blows = (hook, of)
    with pytest.raises(PluginError, match="blown"):
        stage.session()
    assert " ".join(sorted(stage.bound)) == kept
    stage.check()
    fuse.blows = ("", "")
    stage.session()
    assert " ".join(sorted(stage.bound)) == "j-0 j-1 k-0 k-1"
    stage.check()


@pytest.mark.parametrize(("hook", "of"), [("deallocated", "v"), ("allocated", "w-0")])
def test_victims_stay_when_a_notified_plugin_raises(hook: str, of: str, fuse: type[Fuse]) -> None:
    stage = Stage(
        "actions: preempt" + TIERS.replace("{name: gang}", "{name: priority}, {name: gang}, {name: fuse}"),
        nodes=[make_node("n1", cpu=2)],
        gangs=[
            make_gang("v", 2, minimum=0, on=["n1", "n1"], priority_class="low"),
            make_gang("w", 1, priority_class="high"),
        ],
        objects=CLASSES,
        classes=[Fuse],
    )
    fuse.blows = (hook, of)
    with pytest.raises(PluginError, match="blown"):
        stage.session()
    assert stage.evicted == {}
    assert {stage.task(name).status for name in ("v-0", "v-1")} == {TaskStatus.RUNNING}
    stage.check()
    fuse.blows = ("", "")
    assert len(stage.session().evicted) == 1
    stage.check()


class Halves(Action):
    """Commits the gang j, and raises half-way through k."""

    name = "halves"

    def run(self, session: Session) -> Iterator[None]:
        for name, fails in (("j", False), ("k", True)):
            with session.statement() as statement:
                for task in list(session.jobs[f"default/{name}"].with_status(TaskStatus.PENDING).values()):
                    statement.allocate(task, "n1")
                    if fails:
                        raise ValueError("blown")
                statement.commit()
            yield


def test_action_that_raises_between_two_commits_keeps_the_first() -> None:
    gangs = [make_gang("j", 2, age=9), make_gang("k", 2)]
    stage = Stage("actions: halves" + TIERS, nodes=[make_node("n1")], gangs=gangs, classes=[Halves])
    with pytest.raises(PluginError, match="blown"):
        stage.session()
    assert set(stage.bound) == {"j-0", "j-1"}
    assert stage.engine.failure is not None
    assert stage.engine.failure.plugin == "halves"
    stage.check()
