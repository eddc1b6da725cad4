"""How the answers of plugins in tiers become one answer, seen in what whole sessions do: Volcano's rules, one a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from kframework_batch.job import TaskInfo
from kframework_batch.objects import Queue
from kframework_batch.plugin import BatchPlugin, Vote, hookimpl
from kframework_batch.session import Session
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.objects import Pod
from tests.support.batch_rules import Entry, Rule, Voice, configured, make_plugin, outcome, rule


def one(name: str, *, queue: str = "default", age: float = 0.0) -> Gang:
    """Make a job of one task; jobs are let in from the start, and Running so that they are not listed as let in."""
    return make_gang(name, 1, queue=queue, age=age, phase="Running")


def born(pod: Pod, second: int) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=f"2026-01-01T00:00:{second:02}Z"))


def queue_born(name: str, second: int) -> Queue:
    queue = make_queue(name)
    return replace(queue, metadata=replace(queue.metadata, creation_timestamp=f"2026-01-01T00:00:{second:02}Z"))


def tasks(*pods: Pod) -> Gang:
    return make_group("j", minimum=0, phase="Running"), list(pods)


P_AND_Q = [make_queue("p"), make_queue("q")]
#: A job that looks for victims, and is older than they are: nobody pushes out who would be served before.
WAITING = one("w", age=9)
TWO_QUEUES = (one("p", queue="p"), one("q", queue="q"))


X_FIRST, Y_FIRST, EQUAL = {"x": 0, "y": 1}, {"x": 1, "y": 0}, {"x": 1, "y": 1}
TASK_0, TASK_1 = {"j-0": 0, "j-1": 1}, {"j-0": 1, "j-1": 0}
Q_FIRST, P_FIRST = {"p": 1, "q": 0}, {"p": 0, "q": 1}
PAIR = tasks(make_task("j-0", "j"), make_task("j-1", "j"))


def ordered(hook: str, *keys: Mapping[str, int]) -> list[Voice]:
    """Make plugins that order things like this, one after the other."""
    return [make_plugin(f"v{number}", **{hook: key}) for number, key in enumerate(keys)]


ORDERS = [
    rule(
        "jobs: of two tiers the first decides",
        [[plugin] for plugin in ordered("job_order", Y_FIRST, X_FIRST)],
        one("x"),
        one("y"),
        bound={"n1": "y-0"},
    ),
    rule(
        "jobs: of two plugins of a tier the first decides",
        [ordered("job_order", Y_FIRST, X_FIRST)],
        one("x"),
        one("y"),
        bound={"n1": "y-0"},
    ),
    rule(
        "jobs: where the first sees no difference the next decides",
        [ordered("job_order", EQUAL, Y_FIRST)],
        one("x"),
        one("y"),
        bound={"n1": "y-0"},
    ),
    rule(
        "jobs: where nobody sees one the older goes first",
        [ordered("job_order", EQUAL)],
        one("x"),
        one("y", age=9),
        bound={"n1": "y-0"},
    ),
    rule("jobs: of the same age the uid decides", [[]], one("y"), one("x"), bound={"n1": "x-0"}),
    rule(
        "tasks: of two tiers the first decides",
        [[plugin] for plugin in ordered("task_order", TASK_1, TASK_0)],
        PAIR,
        bound={"n1": "j-1"},
    ),
    rule(
        "tasks: where the first sees no difference the next decides",
        [ordered("task_order", {}, TASK_1)],
        PAIR,
        bound={"n1": "j-1"},
    ),
    rule(
        "tasks: else by their index as a number",
        [[]],
        tasks(
            make_task("j-0", "j", labels={"volcano.sh/task-index": "10"}),
            make_task("j-1", "j", labels={"volcano.sh/task-index": "9"}),
        ),
        bound={"n1": "j-1"},
    ),
    rule(
        "tasks: the index counts before the age",
        [[]],
        tasks(
            born(make_task("j-0", "j", labels={"volcano.sh/task-index": "1"}), 0),
            born(make_task("j-1", "j", labels={"volcano.sh/task-index": "0"}), 1),
        ),
        bound={"n1": "j-1"},
    ),
    rule(
        "tasks: of the same index the older goes first",
        [[]],
        tasks(born(make_task("j-0", "j"), 1), born(make_task("j-1", "j"), 0)),
        bound={"n1": "j-1"},
    ),
    rule("tasks: of the same age the uid decides", [[]], tasks(*PAIR[1][::-1]), bound={"n1": "j-0"}),
    rule(
        "queues: of two tiers the first decides",
        [[plugin] for plugin in ordered("queue_order", Q_FIRST, P_FIRST)],
        *TWO_QUEUES,
        queues=P_AND_Q,
        bound={"n1": "q-0"},
    ),
    rule(
        "queues: where the first sees no difference the next decides",
        [ordered("queue_order", {}, Q_FIRST)],
        *TWO_QUEUES,
        queues=P_AND_Q,
        bound={"n1": "q-0"},
    ),
    rule(
        "queues: else the older goes first",
        [[]],
        *TWO_QUEUES,
        queues=[queue_born("p", 1), queue_born("q", 0)],
        bound={"n1": "q-0"},
    ),
    rule("queues: of the same age the uid decides", [[]], *TWO_QUEUES, queues=P_AND_Q[::-1], bound={"n1": "p-0"}),
]


THREE = [make_node("n1", cpu=1), make_node("n2", cpu=1), make_node("n3", cpu=1)]
NOT_N1, NOT_N2 = make_plugin("a", predicate={"n1": "a minds"}), make_plugin("b", predicate={"n2": "b minds"})

NODES = [
    rule("predicates: all must agree", [[NOT_N1], [NOT_N2]], one("x"), nodes=THREE, bound={"n3": "x-0"}),
    rule(
        "predicates: where none agrees the first rejection of each node counts",
        [[NOT_N1, make_plugin("b", predicate={"n1": "b minds", "n2": "b minds", "n3": "b minds"})]],
        one("x"),
        nodes=THREE,
        says={"x-0": "0/3 nodes are available: 1 a minds, 2 b minds."},
    ),
    rule(
        "pre-predicates: one rejection is enough",
        [[make_plugin("a", pre_predicate={})], [make_plugin("b", pre_predicate={"x-0": "never"})]],
        one("x"),
        nodes=THREE,
        says={"x-0": "0/3 nodes are available: 3 never."},
    ),
    rule(
        "pre-predicates: of two rejections the first counts",
        [[make_plugin("a", pre_predicate={"x-0": "first"}), make_plugin("b", pre_predicate={"x-0": "second"})]],
        one("x"),
        nodes=THREE,
        says={"x-0": "0/3 nodes are available: 3 first."},
    ),
    rule(
        "scores are added up",
        [
            [make_plugin("a", node_order={"n1": 5.0, "n2": 4.0, "n3": 0.0})],
            [make_plugin("b", node_order={"n1": 0.0, "n2": 4.0, "n3": 5.0})],
        ],
        one("x"),
        nodes=THREE,
        bound={"n2": "x-0"},
    ),
    rule(
        "the first plugin that chooses a node decides, whatever the scores",
        [
            [make_plugin("a", node_order={"n1": 9.0}), make_plugin("b", best_node=None)],
            [make_plugin("c", best_node="n3"), make_plugin("d", best_node="n2")],
        ],
        one("x"),
        nodes=THREE,
        bound={"n3": "x-0"},
    ),
]


def victims(action: str, name: str, tiers: Sequence[Sequence[str | None]], evicted: str) -> Rule:
    """Let a starving job look for victims; plugins name them, "" is none of them and None abstains."""
    hook = "preemptable" if action == "preempt" else "reclaimable"
    voices = [[make_plugin(f"v{i}{j}", **{hook: said}) for j, said in enumerate(tier)] for i, tier in enumerate(tiers)]
    hungry = make_plugin("hungry", job_starving={"w": True})
    queue = "default" if action == "preempt" else "q"
    there = make_gang("v", 3, on=["n1"] * 3, queue=queue)
    nodes = [make_node("n1", cpu=3)]
    return rule(
        f"{action}: {name}",
        [[hungry], *voices],
        there,
        WAITING,
        actions=action,
        nodes=nodes,
        queues=P_AND_Q,
        evicted=evicted,
    )


NAMED: list[tuple[str, list[list[str | None]], str]] = [
    ("whom all plugins of a tier name", [["v-0 v-1", "v-1 v-2"]], "v-1"),
    ("of two tiers the first decides", [["v-1"], ["v-0"]], "v-1"),
    ("who abstains does not count", [["v-1 v-2", None, "v-1"]], "v-1"),
    ("where all abstain the next tier is asked", [[None, None], ["v-2"]], "v-2"),
    ("where one names nobody the next tier is asked", [["v-0", ""], ["v-2"]], "v-2"),
    ("where they agree on nobody the next tier is asked", [["v-0", "v-1"], ["v-2"]], "v-2"),
    ("who comes after a disagreement does not begin afresh", [["v-0", "v-1", "v-1"], ["v-2"]], "v-2"),
    ("where no tier names anybody nobody goes", [["v-0", "v-1", "v-1"], [""]], ""),
    ("where nobody is asked nobody goes", [], ""),
]
VICTIMS = [victims(action, *named) for action in ("preempt", "reclaim") for named in NAMED]

TAKEN_FROM = (
    make_gang("vp", 1, on=["n1"], queue="p"),
    make_gang("vq", 1, on=["n1"], queue="q"),
    WAITING,
)


def way_out(name: str, *voices: Voice, evicted: str) -> Rule:
    """Let a job reclaim the room of one of two queues."""
    willing = make_plugin("willing", reclaimable="vp-0 vq-0", job_starving={"w": True})
    nodes = [make_node("n1", cpu=2)]
    return rule(name, [[willing], voices], *TAKEN_FROM, actions="reclaim", nodes=nodes, queues=P_AND_Q, evicted=evicted)


VICTIM_QUEUES = [
    way_out("victims: the queue goes first that is served last", make_plugin("a", queue_order=P_FIRST), evicted="vq-0"),
    way_out(
        "victims: unless plugins say otherwise",
        make_plugin("a", queue_order=P_FIRST, victim_queue_order=P_FIRST),
        evicted="vp-0",
    ),
    way_out(
        "victims: the first that tells queues apart decides",
        make_plugin("a", victim_queue_order={}),
        make_plugin("b", victim_queue_order=P_FIRST),
        make_plugin("c", victim_queue_order=Q_FIRST),
        evicted="vp-0",
    ),
]


ALL, NONE_BOUND = {"n1": "x-0"}, None


def said(name: str, tiers: Sequence[Sequence[Entry]], *, bound: Mapping[str, str] | None) -> Rule:
    """Let one job be allocated."""
    return rule(name, tiers, one("x"), bound=bound)


def pushing(name: str, tiers: Sequence[Sequence[Entry]], *, evicted: str, action: str = "preempt") -> Rule:
    """Let a job look for a victim; the plugins of these tiers say whether."""
    willing = make_plugin("willing", preemptable="v-0", reclaimable="v-0")
    there = make_gang("v", 1, on=["n1"], queue="default" if action == "preempt" else "q")
    return rule(name, [*tiers, [willing]], there, WAITING, actions=action, queues=P_AND_Q, evicted=evicted)


def letting_in(name: str, tiers: Sequence[Sequence[object]], *, let_in: str) -> Rule:
    """Let a job ask to be let in; the plugins vote like this."""
    voices = [[make_plugin(f"v{i}{j}", job_enqueueable=v) for j, v in enumerate(tier)] for i, tier in enumerate(tiers)]
    waiting = make_group("x", phase="Pending", resources={"cpu": 1}), list[Pod]()
    return rule(name, voices, waiting, actions="enqueue", let_in=let_in)


def promised(name: str, tiers: Sequence[Sequence[object]], *, evicted: str) -> Rule:
    """Let a job find a victim; the plugins vote like this on whether it has enough then."""
    hungry = [make_plugin("hungry", job_starving={"w": True})]
    voices = [[make_plugin(f"v{i}{j}", job_pipelined=v) for j, v in enumerate(tier)] for i, tier in enumerate(tiers)]
    return pushing(name, [hungry, *voices], evicted=evicted)


YES, NO, ABSTAIN = Vote.PERMIT, Vote.REJECT, Vote.ABSTAIN
VOTES: list[tuple[str, list[list[object]], bool]] = [
    ("nobody is asked", [], True),
    ("all abstain", [[ABSTAIN], [ABSTAIN]], True),
    ("one permits", [[YES]], True),
    ("one rejects", [[NO]], False),
    ("in a tier a rejection outweighs a permission before it", [[YES, NO]], False),
    ("in a tier a rejection outweighs a permission behind it", [[NO, YES]], False),
    ("a permission is final for the tiers behind", [[ABSTAIN, YES], [NO]], True),
    ("where a tier abstains the next is asked", [[ABSTAIN], [NO]], False),
]
HUNGRY, CONTENT = make_plugin("hungry", job_starving={"w": True}), make_plugin("content", job_starving=False)
YES_TO, NO_TO = make_plugin("a", job_starving={"w": True}), make_plugin("b", job_starving=False)

VERDICTS = [
    said(
        "overused: one is enough",
        [[make_plugin("a", overused=False)], [make_plugin("b", overused=True)]],
        bound=NONE_BOUND,
    ),
    said(
        "overused: else the queue is served",
        [[make_plugin("a", overused=False), make_plugin("b", overused=False)]],
        bound=ALL,
    ),
    said(
        "allocatable: all must agree",
        [[make_plugin("a", allocatable=True)], [make_plugin("b", allocatable=False)]],
        bound=NONE_BOUND,
    ),
    said(
        "allocatable: if they do there is room",
        [[make_plugin("a", allocatable=True), make_plugin("b", allocatable=True)]],
        bound=ALL,
    ),
    said(
        "ready: all must agree",
        [[make_plugin("a", job_ready=True)], [make_plugin("b", job_ready=False)]],
        bound=NONE_BOUND,
    ),
    said(
        "ready: if they do the job is bound",
        [[make_plugin("a", job_ready=True), make_plugin("b", job_ready=True)]],
        bound=ALL,
    ),
    rule(
        "valid: the first rejection counts",
        [
            [make_plugin("a", job_valid={}), make_plugin("b", job_valid={"x": "b minds"})],
            [make_plugin("c", job_valid={"x": "c minds"})],
        ],
        one("x"),
        says={"x-0": "b minds"},
    ),
    pushing(
        "preempt: allocatable: all must agree",
        [[HUNGRY], [make_plugin("a", allocatable=True), make_plugin("b", allocatable=False)]],
        evicted="",
    ),
    pushing(
        "reclaim: preemptive: all must agree",
        [[HUNGRY], [make_plugin("a", preemptive=True), make_plugin("b", preemptive=False)]],
        evicted="",
        action="reclaim",
    ),
    pushing(
        "reclaim: preemptive: if they do room is made",
        [[HUNGRY], [make_plugin("a", preemptive=True)]],
        evicted="v-0",
        action="reclaim",
    ),
    pushing(
        "reclaim: an overused queue takes nothing back",
        [[HUNGRY], [make_plugin("a", overused={"default": True})]],
        evicted="",
        action="reclaim",
    ),
    pushing("starving: nobody knows of it", [], evicted=""),
    pushing("starving: all plugins of the tier say so", [[HUNGRY, YES_TO]], evicted="v-0"),
    pushing("starving: one plugin of the tier does not", [[HUNGRY, NO_TO]], evicted=""),
    pushing(
        "starving: the first tier that knows of it decides for it",
        [[make_plugin("c")], [HUNGRY], [NO_TO]],
        evicted="v-0",
    ),
    pushing("starving: the first tier that knows of it decides against it", [[NO_TO], [HUNGRY]], evicted=""),
    *(letting_in(f"enqueueable: {name}", votes, let_in="x" if yes else "") for name, votes, yes in VOTES),
    *(promised(f"pipelined: {name}", votes, evicted="v-0" if yes else "") for name, votes, yes in VOTES),
]

RUNNING = make_gang("r", 3, on=["n1"] * 3)
TWO_NAME = [[make_plugin("a", victim_tasks="r-0"), make_plugin("b", victim_tasks="r-2")]]
LAST_NAMES = [
    [make_plugin("a", victim_tasks="")],
    [make_plugin("b", victim_tasks="r-1")],
    [make_plugin("c", victim_tasks="r-2")],
]
SHUFFLED = [
    rule(name, tiers, RUNNING, actions="shuffle", nodes=[make_node("n1")], evicted=evicted)
    for name, tiers, evicted in [
        ("shuffle: all whom plugins of a tier name", TWO_NAME, "r-0 r-2"),
        ("shuffle: the first tier that names anybody decides", LAST_NAMES, "r-1"),
    ]
]


RULES = [*ORDERS, *NODES, *VICTIMS, *VICTIM_QUEUES, *VERDICTS, *SHUFFLED]


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_rules_of_combining_plugins(rule: Rule) -> None:
    configuration, classes = configured(rule.actions, rule.tiers)
    stage = Stage(configuration, **rule.given, classes=classes).session()
    assert outcome(stage, rule.expected["says"]) == rule.expected


#: What a plugin would say that keeps everything as it is, and the flag that silences it.
SILENCED: list[tuple[str, str, dict[str, object]]] = [
    ("allocate", "enablePredicate", {"predicate": {"n1": "no"}, "pre_predicate": {"w-0": "no"}}),
    ("allocate", "enabledOverused", {"overused": True}),
    ("allocate", "enabledAllocatable", {"allocatable": False}),
    ("allocate", "enableJobReady", {"job_ready": False}),
    ("preempt", "enableJobPipelined", {"job_pipelined": NO}),
    ("preempt", "enablePreemptable", {"preemptable": ""}),
    ("preempt", "enableJobStarving", {"job_starving": False}),
    ("reclaim", "enableReclaimable", {"reclaimable": ""}),
    ("reclaim", "enablePreemptive", {"preemptive": False}),
]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(("action", "flag", "answers"), [pytest.param(*row, id=row[1]) for row in SILENCED])
def test_disabled_flag_turns_off_the_hook_of_a_plugin(
    action: str, flag: str, answers: dict[str, object], *, enabled: bool
) -> None:
    there = (
        [] if action == "allocate" else [make_gang("v", 1, on=["n1"], queue="q" if action == "reclaim" else "default")]
    )
    objecting = make_plugin("objecting", **answers)
    willing = make_plugin("willing", job_starving={"w": True}, preemptable="v-0", reclaimable="v-0")
    configuration, classes = configured(action, [[(objecting, {flag: enabled}), willing]])
    stage = Stage(
        configuration, nodes=[make_node("n1", cpu=1)], queues=P_AND_Q, gangs=[*there, WAITING], classes=classes
    ).session()
    assert bool(stage.bound or stage.evicted) is not enabled


def telling(name: str, told: list[str]) -> Voice:
    """Make a plugin that records the events it gets."""

    class Telling(BatchPlugin):
        @hookimpl
        def job_enqueued(self, session: Session, job: object) -> None:
            told.append(f"{name} enqueued")

        @hookimpl
        def allocated(self, session: Session, task: TaskInfo) -> None:
            told.append(f"{name} allocated {task.name}")

        @hookimpl
        def deallocated(self, session: Session, task: TaskInfo) -> None:
            told.append(f"{name} deallocated {task.name}")

    Telling.name = name
    return Telling


@pytest.fixture
def told() -> Iterator[list[str]]:
    yield []


def test_all_plugins_are_notified_of_enqueued_jobs_and_of_tasks(told: list[str]) -> None:
    configuration, classes = configured("enqueue, allocate", [[telling("a", told)], [telling("b", told), "gang"]])
    waiting = make_gang("x", 2, phase="Pending")
    Stage(configuration, nodes=[make_node("n1", cpu=1)], gangs=[waiting], classes=classes).session()
    assert told == [
        *("a enqueued", "b enqueued"),
        *("a allocated x-0", "b allocated x-0"),
        *("a deallocated x-0", "b deallocated x-0"),
    ], "the gang lacks room for its second task"
