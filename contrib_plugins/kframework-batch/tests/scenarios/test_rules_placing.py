"""Where a task is put: what the stock plugins that judge nodes make whole sessions do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from kframework_batch.testing import Stage, make_group, make_node, make_task
from msgspec.structs import replace

from kframework.objects import Affinity, Node, Pod, TopologySpreadConstraint


class Rule(NamedTuple):
    """A rule by its name: what judges nodes, one task, and the node it is bound to, if any; `there` is another job."""

    name: str
    tiers: str
    pod: Pod
    bound: str
    nodes: Sequence[Node]
    there: Sequence[Pod] = ()


def where(name: str, tiers: str, pod: Pod, bound: str, *nodes: Node, there: Sequence[Pod] = ()) -> Rule:
    return Rule(name, tiers, pod, bound, nodes, there)


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

RULES = [
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


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_rules_of_placement_hold(rule: Rule) -> None:
    groups = {name: make_group(name, minimum=0, phase="Running") for name in ("t", "j")}
    stage = Stage(
        f"actions: allocate\ntiers:\n- plugins: {rule.tiers}\n",
        nodes=rule.nodes,
        gangs=[(groups["t"], list(rule.there)), (groups["j"], [rule.pod])],
    ).session()
    expected = {rule.pod.metadata.name: rule.bound} if rule.bound else {}
    assert (stage.bound, stage.evicted) == (expected, {})
