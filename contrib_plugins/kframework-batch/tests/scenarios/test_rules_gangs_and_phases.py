"""When a gang has enough, what is said of it, and what is left when something fails half-way: rules of whole sessions.

Unlike Volcano's a commit is whole: a gang is bound with its minimum, or nothing of it is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pytest
from kframework_batch import statement as statements
from kframework_batch.action import Action
from kframework_batch.objects import PodGroup
from kframework_batch.plugin import BatchPlugin, Vote, hookimpl
from kframework_batch.session import Session
from kframework_batch.task import TaskInfo, TaskStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.errors import PluginError
from kframework.objects import ObjectMeta, Pod, PriorityClass
from kframework.status import Code, Status, unschedulable

LATER = "2026-01-01T00:00:00Z"

TIERS = """
tiers:
- plugins: [{name: gang}]
- plugins: [{name: predicates}]
"""


def in_phase(pod: Pod, phase: str) -> Pod:
    return replace(pod, status=replace(pod.status, phase=phase))


def on_node(name: str, phase: str = "Running", *, leaving: bool = False, group: str = "j") -> Pod:
    """Make a pod on the node n1 that takes one CPU."""
    pod = make_task(name, group, node="n1", deletion_timestamp=LATER if leaving else None)
    return in_phase(pod, phase)


def gang(*pods: Pod, minimum: int = 2, phase: str = "Inqueue", roles: Mapping[str, int] | None = None) -> Gang:
    return make_group("j", minimum=minimum, phase=phase, roles=roles), list(pods)


def even(stage: Stage) -> None:
    """Check that nothing is half done: statuses, nodes and tables say the same."""
    stage.engine.catch_up()
    cluster, tasks = stage.engine.cluster, list(stage.engine.cache.tasks.values())
    held = [task for task in tasks if task.node_name and task.status not in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)]
    assert (cluster.statements, cluster.assumed) == ([], set())
    assert not {task.status for task in tasks} & {TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING}
    assert all((task.status is TaskStatus.PENDING) == (not task.node_name) for task in tasks)
    for row in cluster.nodes.order.tolist():
        taken = sum(task.request.get("cpu", 0) for task in held if task.node_name == cluster.nodes[row].name)
        assert cluster.nodes[row].requested("cpu") == taken


# -- what a session comes to -------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """A rule by its name: the gangs on a node of so many CPUs, and what some sessions make of them.

    `said` are the type and reason of the last condition of the group of j; `waits` is how a message on a pod ends.
    """

    name: str
    gangs: Sequence[Gang]
    bound: str = ""
    phase: str = "Inqueue"
    said: tuple[str, str] | None = None
    waits: Mapping[str, str] = {}
    cpus: int = 4
    sessions: int = 1


READY = ("Scheduled", "tasks in gang are ready to be scheduled")
SHORT_OF_ROOM = ("Unschedulable", "NotEnoughResources")
SHORT_OF_TASKS = ("Unschedulable", "NotEnoughTasks")
FIRST, SECOND, FREE = make_task("j-0", "j"), make_task("j-1", "j"), make_task("j-1", "j", cpu=None)
MASTER, WORKERS = make_task("j-m", "j", role="m"), [make_task(f"j-w{n}", "j", role="w") for n in range(2)]
NEXT = make_gang("k", 1)

RULES = [
    # who counts for the minimum
    Rule("ready: two that get room", [gang(FIRST, SECOND)], bound="j-0 j-1", said=READY),
    Rule(
        "ready: one that is bound and does not run yet",
        [gang(on_node("j-0", "Pending"), SECOND)],
        bound="j-1",
        said=READY,
    ),
    Rule("ready: one that succeeded", [gang(on_node("j-0", "Succeeded"), SECOND)], bound="j-1", said=READY),
    Rule("ready: a pending one that asks for nothing", [gang(FIRST, FREE)], bound="j-0", said=READY),
    Rule("not ready: one that failed", [gang(on_node("j-0", "Failed"), SECOND)], said=SHORT_OF_TASKS),
    Rule("not ready: one that leaves", [gang(on_node("j-0", leaving=True), SECOND)], said=SHORT_OF_TASKS),
    Rule("not valid: too few tasks", [gang(FIRST)], said=SHORT_OF_TASKS),
    Rule("not ready: too little room", [gang(FIRST, SECOND)], cpus=1, said=SHORT_OF_ROOM),
    # roles
    Rule(
        "roles: they count where the minimum is their sum",
        [gang(*WORKERS, minimum=2, roles={"m": 1, "w": 1})],
        said=("Unschedulable", "NotEnoughPodsOfTask"),
    ),
    Rule(
        "roles: they do not where it is less",
        [gang(*WORKERS, minimum=2, roles={"m": 1, "w": 2})],
        bound="j-w0 j-w1",
        said=READY,
    ),
    Rule(
        "roles: with all of them the job is bound",
        [gang(MASTER, *WORKERS, minimum=2, roles={"m": 1, "w": 1})],
        bound="j-m j-w0 j-w1",
        said=READY,
    ),
    # room now, room to come, and what is promised of it
    Rule(
        "room to come is promised, and nobody is bound to it",
        [(make_group("v", phase="Running"), [on_node("v-0", leaving=True, group="v")]), gang(FIRST, minimum=1)],
        cpus=1,
        said=SHORT_OF_ROOM,
        waits={"j-0": "can possibly be assigned to n1, once resource is released and minAvailable is satisfied"},
    ),
    Rule(
        "what is promised to one is promised to nobody else",
        [(make_group("v", phase="Running"), [on_node("v-0", leaving=True, group="v")]), gang(FIRST, minimum=1), NEXT],
        cpus=1,
        said=SHORT_OF_ROOM,
        waits={"k-0": "0/1 nodes are available: 1 Insufficient cpu."},
    ),
    Rule(
        "what a gang gives back others have, and it says where it could have gone",
        [gang(FIRST, SECOND), NEXT],
        bound="k-0",
        cpus=1,
        said=SHORT_OF_ROOM,
        waits={"j-0": "can possibly be assigned to n1, once minAvailable is satisfied"},
    ),
    # phases
    Rule("phase: what was let in stays so until it runs", [gang(FIRST, SECOND)], cpus=1, said=SHORT_OF_ROOM),
    Rule(
        "phase: Running with the minimum",
        [gang(FIRST, SECOND)],
        bound="j-0 j-1",
        phase="Running",
        said=READY,
        sessions=2,
    ),
    Rule("phase: bound ones count", [gang(on_node("j-0"), on_node("j-1", "Pending"))], phase="Running", said=READY),
    Rule(
        "phase: Completed when all have ended",
        [gang(on_node("j-0", "Succeeded"), on_node("j-1", "Succeeded"))],
        phase="Completed",
        said=READY,
    ),
    Rule(
        "phase: not while one still runs",
        [gang(on_node("j-0", "Succeeded"), on_node("j-1"))],
        phase="Running",
        said=READY,
    ),
    Rule(
        "phase: failed ones have ended too",
        [gang(on_node("j-0", "Succeeded"), on_node("j-1", "Failed"), minimum=1)],
        phase="Completed",
        said=READY,
    ),
    Rule(
        "phase: Unknown when one runs and the gang cannot",
        [gang(on_node("j-0"), SECOND)],
        cpus=1,
        phase="Unknown",
        said=SHORT_OF_ROOM,
    ),
    Rule("phase: those that leave still count", [gang(on_node("j-0"), on_node("j-1", leaving=True))], phase="Running"),
    Rule(
        "phase: Pending when it ran and has lost all",
        [gang(FIRST, SECOND, phase="Running")],
        cpus=1,
        phase="Pending",
        said=SHORT_OF_ROOM,
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_gangs(rule: Rule) -> None:
    nodes = [make_node("n1", cpu=rule.cpus)]
    stage = Stage("actions: allocate" + TIERS, nodes=nodes, gangs=rule.gangs).session(rule.sessions)
    group = stage.objects[PodGroup, "j"]
    assert isinstance(group, PodGroup)
    conditions = [(condition.type, condition.reason) for condition in group.status.conditions]
    assert (" ".join(sorted(stage.bound)), group.status.phase) == (rule.bound, rule.phase)
    assert conditions[-1:] == ([] if rule.said is None else [rule.said])
    assert {pod: stage.message(pod).endswith(end) for pod, end in rule.waits.items()} == dict.fromkeys(rule.waits, True)
    even(stage)


def test_a_pod_with_gates_is_not_told_that_it_waits() -> None:
    gated = make_task("j-1", "j", gates=["later"])
    stage = Stage("actions: allocate" + TIERS, nodes=[make_node("n1")], gangs=[gang(FIRST, gated)]).session()
    assert (set(stage.conditions), stage.bound) == ({"j-0"}, {})


def test_a_gang_runs_again_that_was_unknown() -> None:
    stage = Stage("actions: allocate" + TIERS, nodes=[make_node("n1", cpu=1)], gangs=[gang(on_node("j-0"), SECOND)])
    assert stage.session().phase("j") == "Unknown"
    stage.put(make_node("n2"))
    assert stage.session(2).phase("j") == "Running"


# -- somebody refuses in the middle of a gang --------------------------------------------------------------------------


class Ledger(BatchPlugin):
    """Counts what it is told of each task."""

    name = "ledger"
    books: ClassVar[dict[str, int]] = {}

    @hookimpl
    def on_session_open(self, session: Session) -> None:
        Ledger.books.clear()

    @hookimpl
    def allocated(self, session: Session, task: TaskInfo) -> None:
        Ledger.books[task.name] = Ledger.books.get(task.name, 0) + 1

    @hookimpl
    def deallocated(self, session: Session, task: TaskInfo) -> None:
        Ledger.books[task.name] = Ledger.books.get(task.name, 0) - 1


class Echo(Ledger):
    """Counts the same behind the one that refuses, which it must not hear of."""

    name = "echo"
    books: ClassVar[dict[str, int]] = {}

    @hookimpl
    def on_session_open(self, session: Session) -> None:
        Echo.books.clear()

    @hookimpl
    def allocated(self, session: Session, task: TaskInfo) -> None:
        Echo.books[task.name] = Echo.books.get(task.name, 0) + 1

    @hookimpl
    def deallocated(self, session: Session, task: TaskInfo) -> None:
        Echo.books[task.name] = Echo.books.get(task.name, 0) - 1


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

    monkeypatch.setattr(statements, "run_reserve", reserve)
    monkeypatch.setattr(statements, "run_unreserve", unreserve)
    return held


MIDDLE = [
    pytest.param(3, "k-0 k-1", id="the gang needs it: nothing is bound, and others have the room"),
    pytest.param(2, "j-0 j-2", id="the gang can do without: the others are bound"),
]


@pytest.mark.parametrize(("minimum", "bound"), MIDDLE)
def test_a_plugin_that_refuses_in_the_middle_of_a_gang(minimum: int, bound: str) -> None:
    gangs = [make_gang("j", 3, minimum=minimum, age=9), make_gang("k", 2)]
    nodes = [make_node("n1", cpu=3)]
    stage = Stage("actions: allocate" + REFUSED, nodes=nodes, gangs=gangs, classes=[Ledger, Refusing, Echo]).session()
    assert " ".join(sorted(stage.bound)) == bound
    assert stage.message("j-1") == "not this one"
    for books in (Ledger.books, Echo.books):
        assert {name for name, count in books.items() if count} == set(bound.split())
    even(stage)


@pytest.mark.parametrize(("minimum", "bound"), MIDDLE)
def test_a_reserve_that_fails_in_the_middle_of_a_gang(minimum: int, bound: str, reserved: set[str]) -> None:
    gangs = [make_gang("j", 3, minimum=minimum, age=9), make_gang("k", 2)]
    stage = Stage(
        "actions: allocate" + WATCHED, nodes=[make_node("n1", cpu=3)], gangs=gangs, classes=[Ledger, Echo]
    ).session()
    assert " ".join(sorted(stage.bound)) == bound
    assert stage.message("j-1") == "not this one"
    assert {name for name, count in Ledger.books.items() if count} == set(bound.split()) == reserved
    even(stage)


CLASSES = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in (("low", 1), ("high", 9))]


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_for_a_promise_that_is_refused_nobody_goes(action: str) -> None:
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
    even(stage)


# -- what was begun fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minimum", "unbindable", "gone"),
    [
        pytest.param(3, "j-1", "j-0 j-2", id="of a gang that needs it the others go after the timeout"),
        pytest.param(2, "j-1", "", id="a gang that can do without keeps the others"),
        pytest.param(3, "j-0 j-1 j-2", "", id="where none was bound nobody has to go"),
    ],
)
def test_binds_that_fail(minimum: int, unbindable: str, gone: str) -> None:
    gangs = [make_gang("j", 3, minimum=minimum)]
    stage = Stage("actions: allocate" + TIERS, nodes=[make_node("n1")], gangs=gangs, gang_timeout=10.0)
    stage.unbindable = dict.fromkeys(unbindable.split(), "no")
    stage.session()
    assert set(stage.bound) == {"j-0", "j-1", "j-2"} - set(unbindable.split())
    even(stage)
    stage.session(12)
    assert " ".join(sorted(stage.evicted)) == gone
    even(stage)


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_a_victim_that_cannot_be_deleted_stays_and_whoever_waits_for_it_waits(action: str) -> None:
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
    stage.refusing = True
    stage.session()
    assert (len(stage.evicted), stage.bound) == (1, {}), "one is to go"
    even(stage)
    assert {stage.task(name).status for name in ("v-0", "v-1")} == {TaskStatus.RUNNING}, "but it stays"
    stage.refusing = False
    stage.session()
    (victim,) = [name for name in stage.evicted if stage.task(name).status is TaskStatus.RELEASING]
    stage.let_go(victim)
    stage.session()
    assert stage.bound == {"w-0": "n1"}
    even(stage)


# -- somebody raises ---------------------------------------------------------------------------------------------------


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
def test_what_raises_ends_the_session_and_what_was_committed_stays(
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
    even(stage)
    fuse.blows = ("", "")
    stage.session()
    assert " ".join(sorted(stage.bound)) == "j-0 j-1 k-0 k-1"
    even(stage)


@pytest.mark.parametrize(("hook", "of"), [("deallocated", "v"), ("allocated", "w-0")])
def test_victims_stay_where_a_plugin_raises_that_is_told_of_them(hook: str, of: str, fuse: type[Fuse]) -> None:
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
    even(stage)
    fuse.blows = ("", "")
    assert len(stage.session().evicted) == 1
    even(stage)


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


def test_an_action_that_raises_between_two_commits_keeps_the_first() -> None:
    gangs = [make_gang("j", 2, age=9), make_gang("k", 2)]
    stage = Stage("actions: halves" + TIERS, nodes=[make_node("n1")], gangs=gangs, classes=[Halves])
    with pytest.raises(PluginError, match="blown"):
        stage.session()
    assert set(stage.bound) == {"j-0", "j-1"}
    assert stage.engine.failure is not None
    assert stage.engine.failure.plugin == "halves"
    even(stage)
