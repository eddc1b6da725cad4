"""What each stock plugin makes whole sessions do: Volcano's rules, and where this distribution departs from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from kframework_batch.objects import Queue
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.objects import Affinity, Node, ObjectMeta, Pod, PriorityClass, TopologySpreadConstraint

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
    """Make a job without a minimum, of which some run."""
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


# -- who is important --------------------------------------------------------------------------------------------------

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

# -- who is let in -----------------------------------------------------------------------------------------------------


def over(factor: float | None, there: int, asked: int, *, let_in: bool) -> Rule:
    arguments = "" if factor is None else f", arguments: {{overcommit-factor: {factor}}}"
    name = f"overcommit: of 10 CPUs {there} are taken and {asked} asked for, {'default' if factor is None else factor}"
    phase = {"j": "Inqueue" if let_in else "Pending"}
    gangs = [many("r", there, on=there), asking("j", asked)]
    return Rule(name, f"[{{name: overcommit{arguments}}}]", gangs, phases=phase, actions="enqueue", nodes=node(cpu=10))


TEN = node(cpu=10)
OVERDUE, DUE = {"volcano.sh/sla-waiting-time": "5s"}, {"volcano.sh/sla-waiting-time": "1h"}
CAPPED = [make_queue("p", capability={"cpu": 4})]
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
            Rule(
                f"{name}: as much as the queue may hold is let in",
                f"[{{name: {name}}}]",
                [asking("j", 4, queue="p")],
                actions="enqueue",
                nodes=TEN,
                queues=CAPPED,
                phases={"j": "Inqueue"},
            ),
            Rule(
                f"{name}: no more than that",
                f"[{{name: {name}}}]",
                [asking("j", 5, queue="p")],
                actions="enqueue",
                nodes=TEN,
                queues=CAPPED,
                phases={"j": "Pending"},
            ),
            Rule(
                f"{name}: what runs counts",
                f"[{{name: {name}}}]",
                [make_gang("r", 2, queue="p", on=["n1", "n1"], resources={"cpu": 2}), asking("j", 3, queue="p")],
                actions="enqueue",
                nodes=TEN,
                queues=CAPPED,
                phases={"j": "Pending"},
            ),
            Rule(
                f"{name}: but not what it holds beyond its minimum",
                f"[{{name: {name}}}]",
                [
                    make_gang("r", 2, minimum=1, queue="p", on=["n1", "n1"], resources={"cpu": 1}),
                    asking("j", 3, queue="p"),
                ],
                actions="enqueue",
                nodes=TEN,
                queues=CAPPED,
                phases={"j": "Inqueue"},
            ),
            Rule(
                f"{name}: who was let in before counts",
                f"[{{name: {name}}}]",
                [asking("k", 2, queue="p", phase="Inqueue"), asking("j", 3, queue="p")],
                actions="enqueue",
                nodes=TEN,
                queues=CAPPED,
                phases={"j": "Pending"},
            ),
            Rule(
                f"{name}: a closed queue lets nobody in",
                f"[{{name: {name}}}]",
                [asking("j", 1, queue="p")],
                actions="enqueue",
                nodes=TEN,
                queues=[closed(make_queue("p"))],
                phases={"j": "Pending"},
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

# -- what is due -------------------------------------------------------------------------------------------------------

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

DUE_TO_QUEUES = [
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

# -- where to ----------------------------------------------------------------------------------------------------------


def where(name: str, tiers: str, pod: Pod, bound: str, *nodes: Node, there: Sequence[Pod] = ()) -> Rule:
    """Let one task find its node; there may be pods of another job."""
    expected = {bound: pod.metadata.name} if bound else {}
    return Rule(name, tiers, [of("t", *there), of("j", pod)], bound=expected, nodes=nodes)


def switched(switch: str, pod: Pod, there: Sequence[Pod] = (), **nodes: Any) -> list[Rule]:
    """Let a predicate keep a task from the only node, and not, where it is switched off."""
    off = f"[{{name: predicates, arguments: {{predicate.{switch}Enable: false}}}}]"
    only = make_node("n1", labels={"zone": "a"}, **nodes)
    return [
        where(f"predicates: {switch}", "[{name: predicates}]", pod, "", only, there=there),
        where(f"predicates: {switch} switched off", off, pod, "n1", only, there=there),
    ]


SCORERS = (
    *("leastrequested", "mostrequested", "nodeaffinity", "podaffinity"),
    *("balancedresource", "tainttoleration", "imagelocality", "podtopologyspread"),
)


def ordering(argument: str, pod: Pod, bound: str, *nodes: Node, there: Sequence[Pod] = ()) -> Rule:
    """Let one scorer alone decide, with the weight 1."""
    weights = ", ".join(f"{name}.weight: {int(name == argument)}" for name in SCORERS)
    return where(
        f"nodeorder: {argument}", f"[{{name: nodeorder, arguments: {{{weights}}}}}]", pod, bound, *nodes, there=there
    )


def terms(**said: Any) -> Affinity:
    return msgspec.convert(said, Affinity)


def preferring(key: str) -> dict[str, Any]:
    return {"weight": 1, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}


NEXT_TO_T = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "t"}}}]
T = make_task("t-0", "t", node="n1", labels={"app": "t"})
SPREAD = msgspec.convert(
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": 2,
        "labelSelector": {"matchLabels": {"app": "t"}},
    },
    TopologySpreadConstraint,
)
ANYWAY = replace(SPREAD, when_unsatisfiable="ScheduleAnyway", min_domains=None, topology_key="kubernetes.io/hostname")
J = make_task("j-0", "j")
ONE, OTHER = make_node("n1"), make_node("n2")
LABELLED = make_node("n2", labels={"gpu": "yes"})
PORT: dict[str, Any] = {"host_ports": [80]}

PLACES = [
    where("predicates: a node that is closed", "[{name: predicates}]", J, "", make_node("n1", unschedulable=True)),
    where("predicates: without them nobody minds", "[{name: gang}]", J, "n1", make_node("n1", unschedulable=True)),
    *switched("TaintToleration", J, taints=["gpu=yes:NoSchedule"]),
    *switched("NodeAffinity", make_task("j-0", "j", node_selector={"gpu": "yes"})),
    *switched("NodePorts", make_task("j-0", "j", **PORT), [make_task("t-0", "t", node="n1", **PORT)]),
    *switched(
        "PodAffinity",
        make_task(
            "j-0", "j", affinity=terms(podAntiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": NEXT_TO_T})
        ),
        [T],
    ),
    *switched("PodTopologySpread", make_task("j-0", "j", topology_spread=[SPREAD], labels={"app": "t"}), [T]),
    ordering("leastrequested", J, "n2", ONE, OTHER, there=[T]),
    ordering("mostrequested", J, "n1", ONE, OTHER, there=[T]),
    ordering(
        "nodeaffinity",
        make_task(
            "j-0",
            "j",
            affinity=terms(nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [preferring("gpu")]}),
        ),
        "n2",
        ONE,
        LABELLED,
    ),
    ordering(
        "podaffinity",
        make_task(
            "j-0",
            "j",
            affinity=terms(
                podAffinity={
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": NEXT_TO_T[0]}]
                }
            ),
        ),
        "n1",
        ONE,
        OTHER,
        there=[T],
    ),
    ordering("balancedresource", make_task("j-0", "j", memory="4Gi"), "n2", make_node("n1", memory="64Gi"), OTHER),
    ordering("tainttoleration", J, "n2", make_node("n1", taints=["gpu=yes:PreferNoSchedule"]), OTHER),
    ordering(
        "imagelocality", make_task("j-0", "j", image="app:1"), "n2", ONE, make_node("n2", images={"app:1": 900_000_000})
    ),
    ordering(
        "podtopologyspread",
        make_task("j-0", "j", topology_spread=[ANYWAY], labels={"app": "t"}),
        "n2",
        ONE,
        OTHER,
        there=[T],
    ),
    where("binpack: the fuller node is better", "[{name: binpack}]", J, "n1", ONE, OTHER, there=[T]),
    where(
        "binpack: a resource of weight 0 does not count",
        "[{name: binpack, arguments: {binpack.cpu: 0}}]",
        make_task("j-0", "j", memory="1Gi"),
        "n2",
        ONE,
        make_node("n2", memory="2Gi"),
        there=[T],
    ),
    where(
        "binpack: other resources count as far as they are listed",
        "[{name: binpack, arguments: {binpack.resources: example.com/gpu, binpack.resources.example.com/gpu: 9}}]",
        make_task("j-0", "j", requests={"example.com/gpu": 1}),
        "n2",
        make_node("n1", allocatable={"example.com/gpu": 8}),
        make_node("n2", allocatable={"example.com/gpu": 2}),
        there=[T],
    ),
    where(
        "binpack: against nodeorder its weight decides",
        "[{name: nodeorder}, {name: binpack, arguments: {binpack.weight: 10}}]",
        J,
        "n1",
        ONE,
        OTHER,
        there=[T],
    ),
]

RULES = [*IMPORTANCE, *ENTRANCE, *DUE_TO_QUEUES, *PLACES]


def outcome(bound: Mapping[str, str], expected: Mapping[str, int | str]) -> dict[str, int | str]:
    """Count what was bound by job, or list it by node where nodes are expected."""
    if any(isinstance(said, str) for said in expected.values()):
        return {node: " ".join(sorted(pod for pod in bound if bound[pod] == node)) for node in bound.values()}
    return {**counts(bound)}


def counts(pods: Mapping[str, str]) -> dict[str, int]:
    jobs = [pod.rpartition("-")[0] for pod in pods]
    return {job: jobs.count(job) for job in sorted({*jobs})}


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_plugins(rule: Rule) -> None:
    stage = Stage(
        f'actions: "{rule.actions}"\ntiers:\n- plugins: {rule.tiers}\n',
        nodes=rule.nodes,
        queues=rule.queues,
        gangs=rule.gangs,
        objects=CLASSES,
    ).session()
    assert (outcome(stage.bound, rule.bound), counts(stage.evicted)) == (rule.bound, rule.evicted)
    assert {name: stage.phase(name) for name in rule.phases} == rule.phases
