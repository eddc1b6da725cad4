"""What each action does in a whole session: Volcano's rules, one a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import pytest
from kframework_batch.job import TaskInfo
from kframework_batch.objects import Queue
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework import NodeInfo
from kframework.objects import Node, ObjectMeta, Pod, PriorityClass

GUARDED = {"volcano.sh/preemptable": "false"}
LATER = "2026-01-01T00:00:00Z"
CLASSES = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in (("low", 1), ("high", 9))]
P_AND_Q = (make_queue("p"), make_queue("q"))

TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: favour}]
"""
#: Minimums may add up to what there is, and no more.
DOOR = TIERS.replace("{name: favour}", "{name: overcommit, arguments: {overcommit-factor: 1.0}}")


class Favour(BatchPlugin):
    """Would rather have the node n2 than the others."""

    name = "favour"

    @hookimpl
    def node_order(self, session: Session, task: TaskInfo, node: NodeInfo) -> float:
        return float(node.name == "n2")


class Rule(NamedTuple):
    """A rule by its name: what there is, and what a session makes of it.

    `bound` lists pods by node, `evicted` victims (`v-?` is any task of v); `phases` those of some groups afterwards.
    """

    name: str
    actions: str
    gangs: Sequence[Gang]
    bound: Mapping[str, str] = {}
    evicted: str = ""
    phases: Mapping[str, str] = {}
    nodes: Sequence[Node] = (make_node("n1", cpu=4),)
    queues: Sequence[Queue] = P_AND_Q
    tiers: str = TIERS


def asking(name: str, cpu: int | None, *, phase: str = "Pending", age: float = 0.0, queue: str = "default") -> Gang:
    """Make a group that needs so much before its pods are made; it has none yet."""
    resources = None if cpu is None else {"cpu": cpu}
    return make_group(name, phase=phase, resources=resources, age=age, queue=queue), []


def low(size: int, *, on: str = "n1", name: str = "v", queue: str = "default", minimum: int = 0) -> Gang:
    """Make a running job that may be pushed out."""
    return make_gang(name, size, minimum=minimum, on=[on] * size, queue=queue, priority_class="low", age=5)


def high(size: int, *, name: str = "w", queue: str = "default", minimum: int | None = None, age: float = 9.0) -> Gang:
    """Make a waiting job that may push others out."""
    return make_gang(name, size, minimum=minimum, queue=queue, priority_class="high", age=age)


def of(name: str, *pods: Pod, minimum: int = 0, phase: str = "Running", queue: str = "default") -> Gang:
    return make_group(name, minimum=minimum, phase=phase, queue=queue, priority_class="low", age=5), list(pods)


def bound_only(pod: Pod) -> Pod:
    """Let a pod be on its node, but not run yet."""
    return replace(pod, status=replace(pod.status, phase="Pending"))


def leaving(group: str) -> Gang:
    return of(group, make_task(f"{group}-0", group, node="n1", deletion_timestamp=LATER))


TWO_NODES = (make_node("n1", cpu=1), make_node("n2", cpu=1))
FULL = make_gang("full", 4, on=["n1"] * 4)
PLAIN = make_gang("j", 1, phase="Pending")
TOO_BIG = make_group("j", phase="Pending", resources={"cpu": 9}), [make_task("j-0", "j")]
OLD_BIG = asking("big", 9, age=9)

ENQUEUE = [
    Rule(
        "a group without a phase asks too", "enqueue", [asking("j", 1, phase="")], phases={"j": "Inqueue"}, tiers=DOOR
    ),
    Rule(
        "one that needs nothing comes in however full it is",
        "enqueue",
        [FULL, asking("j", None)],
        phases={"j": "Inqueue"},
        tiers=DOOR,
    ),
    Rule(
        "one that is refused holds up nobody",
        "enqueue",
        [OLD_BIG, asking("j", 1)],
        phases={"big": "Pending", "j": "Inqueue"},
        tiers=DOOR,
    ),
    Rule(
        "who comes in leaves less for the next",
        "enqueue",
        [asking("j", 3, age=9), asking("k", 3)],
        phases={"j": "Inqueue", "k": "Pending"},
        tiers=DOOR,
    ),
    Rule("what runs leaves less", "enqueue", [FULL, asking("j", 1)], phases={"j": "Pending"}, tiers=DOOR),
    Rule(
        "the first of the first queue comes in first",
        "enqueue",
        [asking("j", 3, queue="p", age=9), asking("k", 3, queue="q")],
        phases={"j": "Pending", "k": "Inqueue"},
        queues=(make_queue("p"), make_queue("q", priority=1)),
        tiers=DOOR,
    ),
    Rule("who comes in gets room in the same session", "enqueue, allocate", [PLAIN], bound={"n1": "j-0"}, tiers=DOOR),
    Rule("but not from actions before it", "allocate, enqueue", [PLAIN], phases={"j": "Inqueue"}, tiers=DOOR),
    Rule(
        "who is not let in gets no room", "enqueue, allocate, backfill", [TOO_BIG], phases={"j": "Pending"}, tiers=DOOR
    ),
    Rule(
        "where nobody asks all are let in",
        "allocate",
        [TOO_BIG],
        bound={"n1": "j-0"},
        phases={"j": "Inqueue"},
        tiers=DOOR,
    ),
]

MIXED = of("j", make_task("j-0", "j", cpu=3), make_task("j-1", "j", cpu=1), minimum=1, queue="p")
EMPTY = of("j", make_task("j-0", "j", cpu=None), minimum=1)
NEEDY = make_group("j", minimum=2), [make_task("j-0", "j", cpu=None), make_task("j-1", "j", cpu=9)]
THRIFTY = (make_queue("p", capability={"cpu": 2}), make_queue("q"))

ALLOCATE = [
    Rule("the favoured node is taken", "allocate", [make_gang("j", 1)], bound={"n2": "j-0"}, nodes=TWO_NODES),
    Rule(
        "room now comes before a better node with room to come",
        "allocate",
        [of("v", make_task("v-0", "v", node="n2", deletion_timestamp=LATER)), make_gang("j", 1)],
        bound={"n1": "j-0"},
        nodes=TWO_NODES,
    ),
    Rule(
        "a task that its queue may not have is passed over for a smaller one",
        "allocate",
        [MIXED],
        bound={"n1": "j-1"},
        queues=THRIFTY,
    ),
    Rule(
        "each job has its minimum before one has more",
        "allocate",
        [make_gang("j", 4, minimum=1, age=9), make_gang("k", 3, minimum=3)],
        bound={"n1": "j-? k-0 k-1 k-2"},
    ),
    Rule(
        "what is left goes to those who want more",
        "allocate",
        [make_gang("j", 4, minimum=1, age=9), make_gang("k", 1)],
        bound={"n1": "j-? j-? j-? k-0"},
    ),
    Rule("who asks for nothing is left alone", "allocate", [EMPTY]),
    Rule("backfill sees to it", "backfill", [EMPTY], bound={"n1": "j-0"}),
    Rule("backfill binds nobody whose gang cannot run", "allocate, backfill", [NEEDY]),
    Rule("backfill is for those alone who ask for nothing", "backfill", [make_gang("j", 1)]),
    Rule("backfill places them though nothing is idle", "backfill", [FULL, EMPTY], bound={"n1": "j-0"}),
]

SMALL = (make_node("n1", cpu=2),)
NOT_RUNNING = of("v", bound_only(make_task("v-0", "v", node="n1")), bound_only(make_task("v-1", "v", node="n1")))
RANKED = of("v", make_task("v-0", "v", node="n1", priority=1), make_task("v-1", "v", node="n1", priority=5))
# The one that would go if neither minded.
ONE_GUARDED = of("v", make_task("v-0", "v", node="n1"), make_task("v-1", "v", node="n1", annotations=GUARDED))
EACH_ON_ONE = of("v", make_task("v-0", "v", node="n1"), make_task("v-1", "v", node="n2"))
OWN = (
    make_group("w", minimum=1, priority_class="high"),
    [
        make_task("w-0", "w", node="n1", priority=1),
        make_task("w-1", "w", node="n1", priority=1),
        make_task("w-2", "w", priority=5),
    ],
)
GATED = make_group("w", minimum=0, priority_class="high"), [make_task("w-0", "w", gates=["later"])]
ANY = TIERS.replace("{name: gang}", "{name: gang, enableJobStarving: false}")

PREEMPT = [
    Rule("who is bound may go as well as who runs", "preempt", [NOT_RUNNING, high(2)], evicted="v-0 v-1", nodes=SMALL),
    Rule("of a job the least important task goes", "preempt", [RANKED, high(1)], evicted="v-0", nodes=SMALL),
    Rule(
        "of jobs the least important goes",
        "preempt",
        [make_gang("u", 1, minimum=0, on=["n1"], age=9), low(1), high(1)],
        evicted="u-0",
        nodes=SMALL,
    ),
    Rule("who says so stays", "preempt", [ONE_GUARDED, high(1)], evicted="v-0", nodes=SMALL),
    Rule("on the best node somebody goes", "preempt", [EACH_ON_ONE, high(1)], evicted="v-1", nodes=TWO_NODES),
    Rule("two nodes are cleared for a gang", "preempt", [EACH_ON_ONE, high(2)], evicted="v-0 v-1", nodes=TWO_NODES),
    Rule("a gang that cannot have all takes nothing", "preempt", [EACH_ON_ONE, high(3)], nodes=TWO_NODES),
    Rule("no more go than the minimum needs", "preempt", [low(2), high(2, minimum=1)], evicted="v-?", nodes=SMALL),
    Rule(
        "unless more starve than the minimum",
        "preempt",
        [low(2), high(2, minimum=1)],
        evicted="v-0 v-1",
        nodes=SMALL,
        tiers=ANY,
    ),
    Rule("gates keep a task from pushing out", "preempt", [low(2), GATED], nodes=SMALL, tiers=ANY),
    Rule(
        "nobody is bound to room in the session in which it is made",
        "preempt, allocate",
        [low(2), high(2)],
        evicted="v-0 v-1",
        nodes=SMALL,
    ),
    Rule("a job gives up a less important task of its own", "preempt", [OWN], evicted="w-?", nodes=SMALL, tiers=ANY),
    Rule("another queue is left alone", "preempt", [low(2, queue="p"), high(1, queue="q")], nodes=SMALL),
    Rule("without it nobody goes", "enqueue, allocate, backfill", [low(2), high(1)], nodes=SMALL),
]

RECLAIM = [
    Rule("one who runs goes", "reclaim", [low(2, queue="p"), high(1, queue="q")], evicted="v-?", nodes=SMALL),
    Rule("who is bound and does not run stays", "reclaim", [NOT_RUNNING, high(1, queue="q")], nodes=SMALL),
    Rule("who says so stays", "reclaim", [ONE_GUARDED, high(1, queue="q")], evicted="v-0", nodes=SMALL),
    Rule(
        "on the best node somebody goes", "reclaim", [EACH_ON_ONE, high(1, queue="q")], evicted="v-1", nodes=TWO_NODES
    ),
    Rule("the own queue is left alone", "reclaim", [low(2), high(1)], nodes=SMALL),
    Rule("a gang that cannot have all takes nothing", "reclaim", [low(2, queue="p"), high(2, queue="q")], nodes=SMALL),
    Rule(
        "nobody is bound to room in the session in which it is made",
        "reclaim, allocate",
        [low(2, queue="p"), high(1, queue="q")],
        evicted="v-?",
        nodes=SMALL,
    ),
    Rule(
        "each queue in need has a turn",
        "reclaim",
        [make_gang("v", 3, minimum=0, on=["n1"] * 3), high(1, name="w", queue="p"), high(1, name="x", queue="q")],
        evicted="v-? v-?",
        nodes=(make_node("n1", cpu=3),),
    ),
    Rule(
        "one that is not let in takes nothing",
        "enqueue, reclaim",
        [
            low(2, queue="p"),
            (make_group("w", queue="q", phase="Pending", resources={"cpu": 9}), [make_task("w-0", "w")]),
        ],
        nodes=SMALL,
        tiers=DOOR,
    ),
]

SHUFFLE = [Rule("no stock plugin wants anybody elsewhere", "shuffle", [low(2)], nodes=SMALL)]

AREAS = {"enqueue": ENQUEUE, "allocate": ALLOCATE, "preempt": PREEMPT, "reclaim": RECLAIM, "shuffle": SHUFFLE}
RULES = {f"{area}: {rule.name}": rule for area, rules in AREAS.items() for rule in rules}


def listed(pods: Iterable[str], expected: str) -> str:
    """List pods as they are expected: where tasks are equal it does not matter which of them it is."""
    patterns = expected.split()
    names = sorted(pods)
    if len(names) != len(patterns):
        return " ".join(names)
    return " ".join(
        pattern if fnmatchcase(name, pattern) else name for name, pattern in zip(names, patterns, strict=True)
    )


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_rules_of_actions(rule: Rule) -> None:
    stage = Stage(
        f'actions: "{rule.actions}"{rule.tiers}',
        nodes=rule.nodes,
        queues=rule.queues,
        gangs=rule.gangs,
        objects=CLASSES,
        classes=[Favour],
    ).session()
    nodes = sorted({*stage.bound.values()})
    bound = {node: [pod for pod, on in stage.bound.items() if on == node] for node in nodes}
    assert {node: listed(pods, rule.bound.get(node, "")) for node, pods in bound.items()} == rule.bound
    assert listed(stage.evicted, rule.evicted) == rule.evicted
    assert {name: stage.phase(name) for name in rule.phases} == rule.phases
