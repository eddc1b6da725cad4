"""What is due to queues and jobs, and what is given back beyond it, by the stock plugins that share things out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from kframework_batch.objects import Queue
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task

from kframework.objects import Node, Pod


class Rule(NamedTuple):
    """A rule by its name: tiers of plugins, what there is, and how many tasks of each job a session binds or evicts."""

    name: str
    tiers: str
    gangs: Sequence[Gang]
    bound: Mapping[str, int] = {}
    evicted: Mapping[str, int] = {}
    nodes: Sequence[Node] = (make_node("n1", cpu=4),)
    queues: Sequence[Queue] = ()
    actions: str = "allocate"


def many(name: str, size: int, *, queue: str = "default", on: int = 0, **more: Any) -> Gang:
    """Make a job without a minimum, some of its pods running."""
    return make_gang(name, size, minimum=0, queue=queue, on=["n1"] * on, **more)


def of(name: str, *pods: Pod, queue: str = "default", minimum: int = 0, **more: Any) -> Gang:
    return make_group(name, minimum=minimum, queue=queue, phase="Running", **more), list(pods)


def node(cpu: int, **more: Any) -> list[Node]:
    return [make_node("n1", cpu=cpu, **more)]


def counts(pods: Mapping[str, str]) -> dict[str, int]:
    jobs = [pod.rpartition("-")[0] for pod in pods]
    return {job: jobs.count(job) for job in sorted({*jobs})}


EIGHT = node(cpu=8)
BOTH = [many("j", 8, queue="p"), many("k", 8, queue="q")]
BORROWED = [many("v", 8, on=8, queue="p"), many("w", 8, queue="q", age=9)]


def shared(name: str, p: Queue, q: Queue, bound: Mapping[str, int], gangs: Sequence[Gang] = BOTH) -> Rule:
    """Let two queues that want all of eight CPUs share them by proportion."""
    return Rule(f"proportion: {name}", "[{name: proportion}]", gangs, queues=[p, q], nodes=EIGHT, bound=bound)


def lent(name: str, p: Queue, q: Queue, evicted: Mapping[str, int], gangs: Sequence[Gang] = BORROWED) -> Rule:
    """Let a queue take back by capacity what another holds: all eight CPUs."""
    tiers = "[{name: priority}, {name: gang, enableJobStarving: false}, {name: capacity}]"
    return Rule(f"capacity: {name}", tiers, gangs, queues=[p, q], nodes=EIGHT, evicted=evicted, actions="reclaim")


def at(name: str, path: str, weights: str) -> Queue:
    return make_queue(name, annotations={"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights})


P, Q = make_queue("p"), make_queue("q")
TREE = [
    make_queue("root"),
    make_queue("top", parent="root", capability={"cpu": 3}),
    make_queue("p", parent="top"),
    make_queue("q", parent="top"),
]
CYCLE = [make_queue("root"), make_queue("p", parent="q"), make_queue("q", parent="p")]
RELATIVES = [
    make_queue("root"),
    *(make_queue(name, parent="root") for name in ("a", "b")),
    make_queue("mine", parent="a", deserved={"cpu": 2}),
    make_queue("near", parent="a"),
    make_queue("far", parent="b"),
]
DEPARTMENTS = [at("dev", "root/eng/dev", "1/1/1"), at("prod", "root/eng/prod", "1/1/1"), at("sci", "root/sci", "1/1")]
HIERARCHICAL = "[{name: capacity, enableHierarchy: true}]"
DRF_TREE = "[{name: drf, enableHierarchy: true}]"

RULES = [
    shared("by weight", make_queue("p", weight=3), Q, {"j": 6, "k": 2}),
    shared("no more than a queue may hold", make_queue("p", capability={"cpu": 1}), Q, {"j": 1, "k": 7}),
    shared("no more than its jobs ask for", P, Q, {"j": 1, "k": 7}, [many("j", 1, queue="p"), BOTH[1]]),
    shared(
        "what is guaranteed to one is kept from others", P, make_queue("q", guarantee={"cpu": 3}), {"j": 5}, [BOTH[0]]
    ),
    shared(
        "no less than is guaranteed", make_queue("p", weight=9), make_queue("q", guarantee={"cpu": 3}), {"j": 5, "k": 3}
    ),
    shared("`deserved` is worked out and not read", make_queue("p", deserved={"cpu": 8}), Q, {"j": 4, "k": 4}),
    Rule(
        "proportion: the queue of higher priority goes first",
        "[{name: proportion, enabledOverused: false, enabledAllocatable: false}]",
        BOTH,
        queues=[P, make_queue("q", priority=1)],
        nodes=EIGHT,
        bound={"k": 8},
    ),
    Rule(
        "proportion: else the one with the smaller share of its due",
        "[{name: proportion}]",
        [many("j", 8, on=3, queue="p"), many("k", 8, queue="q")],
        queues=[P, Q],
        nodes=node(cpu=6),
        bound={"k": 3},
    ),
    Rule(
        "proportion: what is beyond its due is taken back, up to the due of the other",
        "[{name: gang, enableJobStarving: false}, {name: priority}, {name: proportion}]",
        BORROWED,
        queues=[P, Q],
        nodes=EIGHT,
        actions="reclaim",
        evicted={"v": 4},
    ),
    lent(
        "what is due is what the owner says",
        make_queue("p", deserved={"cpu": 6}),
        make_queue("q", deserved={"cpu": 2}),
        {"v": 2},
    ),
    lent("to whom nothing is due nothing is given back", P, Q, {}),
    lent("who is due nothing gives all that is due to others", P, make_queue("q", deserved={"cpu": 5}), {"v": 5}),
    lent(
        "what is guaranteed is not taken",
        make_queue("p", guarantee={"cpu": 7}),
        make_queue("q", deserved={"cpu": 5}),
        {"v": 1},
    ),
    lent(
        "no more is due than a queue may hold", P, make_queue("q", deserved={"cpu": 5}, capability={"cpu": 2}), {"v": 2}
    ),
    lent(
        "a queue may say that nothing is taken back from it",
        make_queue("p", reclaimable=False),
        make_queue("q", deserved={"cpu": 5}),
        {},
    ),
    Rule(
        "capacity: a queue may hold more than its due",
        "[{name: capacity}]",
        BOTH[:1],
        queues=[make_queue("p", deserved={"cpu": 1}), Q],
        nodes=EIGHT,
        bound={"j": 8},
    ),
    Rule(
        "capacity: but no more than its capability",
        "[{name: capacity}]",
        BOTH[:1],
        queues=[make_queue("p", capability={"cpu": 3}), Q],
        nodes=EIGHT,
        bound={"j": 3},
    ),
    Rule(
        "capacity: nor than the guarantees of others leave",
        "[{name: capacity}]",
        BOTH[:1],
        queues=[P, make_queue("q", guarantee={"cpu": 3})],
        nodes=EIGHT,
        bound={"j": 5},
    ),
    Rule(
        "capacity: queues with something due go before those without",
        "[{name: capacity}]",
        [many("j", 8, queue="p", age=9), BOTH[1]],
        queues=[P, make_queue("q", deserved={"cpu": 8})],
        nodes=EIGHT,
        bound={"k": 8},
    ),
    Rule(
        "capacity: queues side by side share what the one above may hold",
        HIERARCHICAL,
        BOTH[:1],
        queues=TREE,
        nodes=EIGHT,
        bound={"j": 3},
    ),
    Rule(
        "capacity: and none holds more, whatever each may",
        HIERARCHICAL,
        [many("j", 2, queue="p", on=2), BOTH[1]],
        queues=TREE,
        nodes=EIGHT,
        bound={"k": 1},
    ),
    Rule("capacity: only leaves have jobs", HIERARCHICAL, [many("j", 1, queue="top")], queues=TREE),
    Rule("capacity: in a circle of queues nothing is scheduled", HIERARCHICAL, BOTH, queues=CYCLE),
    Rule(
        "capacity: near relatives give way first",
        f"[{{name: gang, enableJobStarving: false}}, {{name: priority}}, {HIERARCHICAL[1:-1]}]",
        [many("f", 2, on=2, queue="far"), many("n", 2, on=2, queue="near"), many("w", 2, queue="mine", age=9)],
        queues=RELATIVES,
        actions="reclaim",
        evicted={"n": 2},
    ),
    Rule(
        "drf: the job with the smaller share goes first",
        "[{name: drf}]",
        [many("j", 4, on=2, age=9), many("k", 4)],
        nodes=node(cpu=4),
        bound={"k": 2},
    ),
    Rule(
        "drf: the share is that of the scarcest resource",
        "[{name: drf}]",
        [
            of("j", make_task("j-0", "j", memory="8Gi", node="n1", cpu=None), make_task("j-1", "j"), age=9),
            many("k", 3, on=2),
        ],
        nodes=node(cpu=3, memory="10Gi"),
        bound={"k": 1},
    ),
    Rule(
        "drf: a task is pushed out while its job has more than the other then",
        "[{name: gang, enableJobStarving: false}, {name: priority, enablePreemptable: false}, {name: drf}]",
        [many("v", 4, on=4), many("w", 4, age=9)],
        actions="preempt",
        evicted={"v": 2},
    ),
    Rule(
        "drf: in a tree the shares of those above count",
        DRF_TREE,
        [many("d", 2, on=2, queue="dev"), many("j", 1, queue="prod", age=9), many("k", 1, queue="sci")],
        queues=DEPARTMENTS,
        nodes=node(cpu=3),
        bound={"k": 1},
    ),
    Rule(
        "drf: without the tree they do not",
        "[{name: drf}]",
        [many("d", 2, on=2, queue="dev"), many("j", 1, queue="prod", age=9), many("k", 1, queue="sci")],
        queues=DEPARTMENTS,
        nodes=node(cpu=3),
        bound={"j": 1},
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_rules_of_fairness(rule: Rule) -> None:
    stage = Stage(
        f'actions: "{rule.actions}"\ntiers:\n- plugins: {rule.tiers}\n',
        nodes=rule.nodes,
        queues=rule.queues,
        gangs=rule.gangs,
    ).session()
    assert (counts(stage.bound), counts(stage.evicted)) == (rule.bound, rule.evicted)
