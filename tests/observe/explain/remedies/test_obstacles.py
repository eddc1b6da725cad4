"""What stands in the way, told from the live tables."""

from __future__ import annotations

import pytest

from kframework.core.pod_engine import PodEngine
from kframework.objects import (
    Affinity,
    LabelSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from kframework.observe.explain.remedies.obstacles import (
    Shortage,
    enemies,
    port_holders,
    shortages,
    skews,
    taken_ports,
    unmet,
    untolerated,
)
from kframework.state.nodes import NodeInfo
from kframework.testing import make_node, make_pod, make_taint, make_toleration
from tests.support.helping import engine_of, pending

ZONE = "topology.kubernetes.io/zone"
WEB = LabelSelector(match_labels={"app": "web"})


def node_of(engine: PodEngine, name: str = "a") -> NodeInfo:
    node = engine.cluster.nodes.named(name)
    assert node is not None
    return node


def apart(key: str) -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=WEB)
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def web(name: str, node: str, **fields: object) -> Pod:
    return make_pod(name, labels={"app": "web"}, node_name=node, **fields)  # type: ignore[arg-type]  # fields of a pod


def test_only_hard_taints_count_that_are_not_tolerated() -> None:
    taints = [make_taint(text) for text in ("a:NoSchedule", "b=1:NoExecute", "c:PreferNoSchedule", "d:NoSchedule")]
    assert [taint.key for taint in untolerated(taints, [make_toleration("d")])] == ["a", "b"]


@pytest.mark.parametrize(
    ("labels", "name", "keys"),
    [
        ({"disk": "ssd", "gen": "3"}, "n", []),
        ({"disk": "hdd", "gen": "2"}, "n", ["disk", "gen"]),
        ({}, "other", ["disk", "gen", "metadata.name"]),
    ],
)
def test_the_requirements_of_a_term_are_asked_one_by_one(labels: dict[str, str], name: str, keys: list[str]) -> None:
    disk = NodeSelectorRequirement(key="disk", operator="In", values=("ssd",))
    gen = NodeSelectorRequirement(key="gen", operator="Gt", values=("2",))
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=("n",))
    term = NodeSelectorTerm(match_expressions=(disk, gen), match_fields=(field,))
    assert [required.key for required in unmet(term, labels, name)] == keys


def test_shortages_reckon_with_pods_that_are_nominated() -> None:
    engine = engine_of([make_node("a", cpu=4, memory="1Gi", pods=2), make_pod("x", node_name="a", cpu=1)])
    pod = pending(engine, make_pod(cpu=2, memory="2Gi"))
    rival = pending(engine, make_pod("rival", cpu=2, memory=None))
    small = Shortage("memory", (1 << 30) + (128 << 20), 2 << 30, possible=False)
    assert shortages(node_of(engine), pod, []) == [small]
    assert shortages(node_of(engine), pod, [rival]) == [
        Shortage("cpu", 1000, 2000, possible=True),
        small,
        Shortage("pods", 1, 1, possible=True),
    ]


def test_ports_and_who_holds_them() -> None:
    holder, other = make_pod("x", node_name="a", host_ports=[80, 1]), make_pod("y", node_name="a", host_ports=[2])
    engine = engine_of([make_node("a"), holder, other])
    pod = pending(engine, make_pod(host_ports=[80, 443]))
    assert [each.name for each in port_holders(node_of(engine), pod)] == ["x"]
    assert [port.port for port in taken_ports(node_of(engine), pod)] == [80]


def test_enemies_are_those_of_the_pod_and_those_that_it_is_one_of() -> None:
    engine = engine_of(
        [
            *(make_node(name, zone="east" if name < "c" else "west") for name in "abc"),
            web("refused", "b"),
            web("far", "c"),
            make_pod("refusing", node_name="a", affinity=apart("kubernetes.io/hostname")),
            make_pod("refusing-elsewhere", node_name="b", affinity=apart("kubernetes.io/hostname")),
            make_pod("no-matter", node_name="a"),
        ]
    )
    pod = pending(engine, make_pod(labels={"app": "web"}, affinity=apart(ZONE)))
    found = {name: sorted(each.name for each in enemies(engine.cluster, node_of(engine, name), pod)) for name in "abc"}
    assert found == {"a": ["refused", "refusing"], "b": ["refused", "refusing-elsewhere"], "c": ["far"]}


def test_skew_is_told_with_the_pods_that_make_it() -> None:
    def constraint(key: str) -> TopologySpreadConstraint:
        return TopologySpreadConstraint(
            max_skew=1, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=WEB
        )

    engine = engine_of(
        [
            make_node("a", zone="east"),
            make_node("b", zone="west"),
            make_node("c"),
            *(web(f"web-{n}", "a") for n in range(3)),
            web("leaving", "a", deletion_timestamp="2026-01-01T00:00:00Z"),
        ]
    )
    pod = pending(engine, make_pod(labels={"app": "web"}, topology_spread=[constraint(ZONE)]))
    nodes = engine.cluster.nodes
    (skew,) = skews(nodes, node_of(engine, "a"), pod)
    assert (skew.excess, [each.name for each in skew.pods]) == (3, ["web-0", "web-1", "web-2"])
    assert skews(nodes, node_of(engine, "b"), pod) == []
    (unlabelled,) = skews(nodes, node_of(engine, "c"), pod)
    assert (unlabelled.excess, unlabelled.constraint) == (None, constraint(ZONE))
