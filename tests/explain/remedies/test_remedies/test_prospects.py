"""Estimates put the nodes that need the fewest changes first."""

from __future__ import annotations

from kframework.explain.remedies.remedies import NodeRanking
from kframework.explain.remedies.suggestions import SuggestHooks
from kframework.framework.suggestions import UNFIXABLE
from kframework.objects import Affinity, ApiObject, LabelSelector, Pod, PodAffinityTerm, PodAntiAffinity
from kframework.scheduler.cooperative import run_to_end
from kframework.testing import make_node, make_pod
from tests.support.evaluations import evaluate
from tests.support.remedies import make_engine, pending


def prospects(pod: Pod, *objects: ApiObject) -> NodeRanking:
    engine = make_engine(objects)
    evaluation = run_to_end(evaluate(engine, pending(engine, pod)))
    made = NodeRanking(evaluation, SuggestHooks(evaluation.profile))
    for _ in made.work():
        pass
    return made


def names(made: NodeRanking, rows: list[int]) -> list[str]:
    return [made.evaluation.nodes[row].name for row in rows]


def counted(made: NodeRanking) -> dict[str, float]:
    return {
        made.evaluation.nodes[row].name: count
        for row, count in zip(made.rows.tolist(), made.changes.tolist(), strict=True)
    }


CORDON = "node.kubernetes.io/unschedulable:NoSchedule"


def test_node_ranking_counts_changes_per_node() -> None:
    made = prospects(
        make_pod(cpu=2, node_selector={"disk": "ssd", "gen": "2"}),
        make_node("labels"),
        make_node("label", labels={"disk": "ssd"}),
        make_node("taints", labels={"disk": "ssd", "gen": "2"}, taints=["a:NoSchedule", "b:NoExecute"]),
        make_node("cordon", labels={"disk": "ssd", "gen": "2"}, unschedulable=True, taints=[CORDON]),
        make_node("small", labels={"disk": "ssd", "gen": "2"}, cpu=1),
        make_node("full", labels={"disk": "ssd", "gen": "2"}),
        make_pod("x", node_name="full", cpu=4),
    )
    assert counted(made) == {"labels": 2, "label": 1, "taints": 2, "cordon": 1, "small": UNFIXABLE + 1, "full": 1}
    assert names(made, made.most_promising(1)) == ["full", "cordon", "label", "taints"]
    assert names(made, made.most_promising(2)) == ["full", "cordon", "label", "taints", "labels"]


def test_node_ranking_finds_the_node_that_one_plugin_alone_rejects() -> None:
    made = prospects(
        make_pod(cpu=2),
        make_node("small", cpu=1),
        make_node("smaller", cpu="500m"),
        make_node("closed-and-small", cpu=1, taints=["a:NoSchedule"]),
    )
    assert list(made.changes_by_plugin) == ["TaintToleration", "NodeResourcesFit"]
    assert made.only_rejected_by("TaintToleration") is None
    row = made.only_rejected_by("NodeResourcesFit")
    assert row is not None and names(made, [row]) == ["small"]
    assert names(made, made.fewest_changes(1)) == ["small", "closed-and-small"]
    assert made.most_promising(9) == []


def test_nodes_with_the_fewest_blocking_pods_rank_first() -> None:
    term = PodAffinityTerm(
        topology_key="topology.kubernetes.io/zone", label_selector=LabelSelector(match_labels={"app": "web"})
    )
    apart = Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))
    web = [make_pod(f"web-{n}", labels={"app": "web"}, node_name="a" if n < 3 else "b") for n in range(5)]
    made = prospects(make_pod(affinity=apart), make_node("a", zone="east"), make_node("b", zone="west"), *web)
    assert counted(made) == {"a": 3, "b": 2}
    assert names(made, made.most_promising(2)) == ["b", "a"]


def test_deleting_the_pod_that_holds_a_port_can_suffice() -> None:
    holder = make_pod("holder", node_name="a", cpu=4, host_ports=[80])
    made = prospects(make_pod(cpu=1, host_ports=[80]), make_node("a"), holder)
    assert counted(made) == {"a": 1}
