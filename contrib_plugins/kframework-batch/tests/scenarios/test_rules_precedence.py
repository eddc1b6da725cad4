"""Who goes before whom, who stays, and who is let in: what the stock plugins for that make whole sessions do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from kframework_batch.objects import Queue
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.objects import Node, ObjectMeta, Pod, PriorityClass

CLASSES = [
    PriorityClass(metadata=ObjectMeta(name="low"), value=1),
    PriorityClass(metadata=ObjectMeta(name="usual"), value=5, global_default=True),
    PriorityClass(metadata=ObjectMeta(name="high"), value=9),
]


class Rule(NamedTuple):
    """A rule by its name: tiers of plugins, what there is, and what a session makes of it.

    `bound` and `evicted` count the tasks of each job, but where nodes are named: there `bound` says which pods are on
    them. `phases` are those of some groups afterwards.
    """

    name: str
    tiers: str
    gangs: Sequence[Gang]
    bound: Mapping[str, int | str] = {}
    evicted: Mapping[str, int] = {}
    phases: Mapping[str, str] = {}
    nodes: Sequence[Node] = (make_node("n1", cpu=4),)
    queues: Sequence[Queue] = ()
    actions: str = "allocate"


def many(name: str, size: int, *, queue: str = "default", on: int = 0, **more: Any) -> Gang:
    """Make a job without a minimum, some of its pods running."""
    return make_gang(name, size, minimum=0, queue=queue, on=["n1"] * on, **more)


def asking(name: str, cpu: int, *, queue: str = "default", phase: str = "Pending", age: float = 0.0) -> Gang:
    """Make a group that needs so much before its pods are made; it has none yet."""
    return make_group(name, phase=phase, resources={"cpu": cpu}, queue=queue, age=age), []


def of(name: str, *pods: Pod, queue: str = "default", minimum: int = 0, **more: Any) -> Gang:
    return make_group(name, minimum=minimum, queue=queue, phase="Running", **more), list(pods)


def closed(queue: Queue) -> Queue:
    return replace(queue, status=replace(queue.status, state="Closed"))


def critical(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, priority_class_name="system-node-critical"))


def node(name: str = "n1", cpu: int = 4, **more: Any) -> list[Node]:
    return [make_node(name, cpu=cpu, **more)]


CRITICAL = of("v", critical(make_task("v-0", "v", node="n1")), make_task("v-1", "v", node="n1", cpu=1))
W = many("w", 1, priority_class="high", age=9)
IMPORTANT_TASK = of(
    "j",
    make_task("j-0", "j", priority=9),
    make_task("j-1", "j", priority=1, annotations={"volcano.sh/task-priority": "10"}),
)

IMPORTANCE = [
    Rule(
        "priority: the PriorityClass of the group decides",
        "[{name: priority}]",
        [many("j", 4, age=9), many("k", 4, priority_class="high")],
        bound={"k": 4},
    ),
    Rule(
        "priority: without one the default class counts",
        "[{name: priority}]",
        [many("j", 4), many("k", 4, priority_class="low", age=9)],
        bound={"j": 4},
    ),
    Rule(
        "priority: the annotation of a task stands before its priority",
        "[{name: priority}]",
        [IMPORTANT_TASK],
        nodes=node(cpu=1),
        bound={"n1": "j-1"},
    ),
    Rule(
        "priority: has no say in reclaiming",
        "[{name: priority}, {name: proportion}]",
        [many("v", 4, on=4, queue="q", priority_class="high"), many("w", 1, priority_class="low")],
        actions="reclaim",
        queues=[make_queue("q")],
        evicted={"v": 1},
    ),
    Rule(
        "gang: who lacks its minimum goes before who has it",
        "[{name: gang}]",
        [many("j", 4, age=9), make_gang("k", 3)],
        bound={"j": 1, "k": 3},
    ),
    Rule("gang: without it nobody has to wait for others", "[{name: drf}]", [make_gang("j", 9)], bound={"j": 4}),
    Rule(
        "conformance: critical pods stay",
        "[{name: priority, enablePreemptable: false}, {name: conformance}]",
        [CRITICAL, W],
        actions="preempt",
        nodes=node(cpu=2),
        evicted={"v": 1},
    ),
    Rule(
        "conformance: without it they go",
        "[{name: priority}]",
        [of("v", CRITICAL[1][0]), W],
        actions="preempt",
        nodes=node(cpu=1),
        evicted={"v": 1},
    ),
    Rule(
        "conformance: with it they do not",
        "[{name: priority}, {name: conformance}]",
        [of("v", CRITICAL[1][0]), W],
        actions="preempt",
        nodes=node(cpu=1),
    ),
]


def over(factor: float | None, there: int, asked: int, *, let_in: bool) -> Rule:
    arguments = "" if factor is None else f", arguments: {{overcommit-factor: {factor}}}"
    name = f"overcommit: of 10 CPUs {there} are taken and {asked} asked for, {'default' if factor is None else factor}"
    phase = {"j": "Inqueue" if let_in else "Pending"}
    gangs = [many("r", there, on=there), asking("j", asked)]
    return Rule(name, f"[{{name: overcommit{arguments}}}]", gangs, phases=phase, actions="enqueue", nodes=node(cpu=10))


TEN = node(cpu=10)
OVERDUE, DUE = {"volcano.sh/sla-waiting-time": "5s"}, {"volcano.sh/sla-waiting-time": "1h"}
CAPPED = [make_queue("p", capability={"cpu": 4})]


def entering(name: str, gangs: Sequence[Gang], phase: str, queues: Sequence[Queue] = CAPPED) -> Rule:
    """Let a job ask to come into a queue, by the plugin that the name begins with."""
    tiers = f"[{{name: {name.partition(':')[0]}}}]"
    return Rule(name, tiers, gangs, actions="enqueue", nodes=TEN, queues=queues, phases={"j": phase})


ENTRANCE = [
    over(None, 0, 12, let_in=True),
    over(None, 0, 13, let_in=False),
    over(None, 4, 8, let_in=True),
    over(None, 4, 9, let_in=False),
    over(2, 0, 20, let_in=True),
    over(2, 0, 21, let_in=False),
    over(0.5, 0, 12, let_in=True),
    Rule(
        "overcommit: who was let in before counts",
        "[{name: overcommit}]",
        [asking("k", 10, phase="Inqueue"), asking("j", 3)],
        actions="enqueue",
        nodes=TEN,
        phases={"j": "Pending"},
    ),
    *(
        rule
        for name in ("proportion", "capacity")
        for rule in (
            entering(f"{name}: as much as the queue may hold is let in", [asking("j", 4, queue="p")], "Inqueue"),
            entering(f"{name}: no more than that", [asking("j", 5, queue="p")], "Pending"),
            entering(
                f"{name}: what runs counts",
                [make_gang("r", 2, queue="p", on=["n1", "n1"], resources={"cpu": 2}), asking("j", 3, queue="p")],
                "Pending",
            ),
            entering(
                f"{name}: but not what it holds beyond its minimum",
                [
                    make_gang("r", 2, minimum=1, queue="p", on=["n1", "n1"], resources={"cpu": 1}),
                    asking("j", 3, queue="p"),
                ],
                "Inqueue",
            ),
            entering(
                f"{name}: who was let in before counts",
                [asking("k", 2, queue="p", phase="Inqueue"), asking("j", 3, queue="p")],
                "Pending",
            ),
            entering(
                f"{name}: a closed queue lets nobody in",
                [asking("j", 1, queue="p")],
                "Pending",
                queues=[closed(make_queue("p"))],
            ),
            Rule(
                f"{name}: nor has it room",
                f"[{{name: {name}}}]",
                [many("j", 1, queue="p")],
                queues=[closed(make_queue("p"))],
            ),
        )
    ),
    Rule(
        "sla: who is overdue is let in however full it is",
        "[{name: sla}]\n- plugins: [{name: overcommit}]",
        [(make_group("j", phase="Pending", resources={"cpu": 99}, age=10, annotations=OVERDUE), [])],
        actions="enqueue",
        phases={"j": "Inqueue"},
    ),
    Rule(
        "sla: who is not has no advantage",
        "[{name: sla}]\n- plugins: [{name: overcommit}]",
        [(make_group("j", phase="Pending", resources={"cpu": 99}, age=10, annotations=DUE), [])],
        actions="enqueue",
        phases={"j": "Pending"},
    ),
    Rule(
        "sla: the earliest deadline goes first, and none last",
        "[{name: sla}]",
        [many("j", 4, age=99), many("k", 4, age=5, annotations=DUE)],
        bound={"k": 4},
    ),
    Rule(
        "sla: what an overdue gang finds is kept for it",
        "[{name: sla}]\n- plugins: [{name: gang}]",
        [make_gang("j", 5, age=9, annotations=OVERDUE), many("k", 4)],
    ),
    Rule(
        "sla: what another one finds is not",
        "[{name: sla}]\n- plugins: [{name: gang}]",
        [make_gang("j", 5, age=9, annotations=DUE), many("k", 4)],
        bound={"k": 4},
    ),
]

RULES = [*IMPORTANCE, *ENTRANCE]


def outcome(bound: Mapping[str, str], expected: Mapping[str, int | str]) -> dict[str, int | str]:
    """Count what was bound by job, or list it by node where nodes are expected."""
    if any(isinstance(said, str) for said in expected.values()):
        return {node: " ".join(sorted(pod for pod in bound if bound[pod] == node)) for node in bound.values()}
    return {**counts(bound)}


def counts(pods: Mapping[str, str]) -> dict[str, int]:
    jobs = [pod.rpartition("-")[0] for pod in pods]
    return {job: jobs.count(job) for job in sorted({*jobs})}


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_rules_of_precedence_hold(rule: Rule) -> None:
    stage = Stage(
        f'actions: "{rule.actions}"\ntiers:\n- plugins: {rule.tiers}\n',
        nodes=rule.nodes,
        queues=rule.queues,
        gangs=rule.gangs,
        objects=CLASSES,
    ).session()
    assert (outcome(stage.bound, rule.bound), counts(stage.evicted)) == (rule.bound, rule.evicted)
    assert {name: stage.phase(name) for name in rule.phases} == rule.phases
