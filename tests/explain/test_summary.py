"""Reasons are counted as a condition counts them, and beyond; the best nodes are compared plugin by plugin."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from kframework import CycleState, NodeInfo, NodeTable, PendingPod, Plugin, Rows, Status, hookimpl, unresolvable
from kframework.explain import summary
from kframework.explain.explanation import NodeScore, NominatedRoom, Rejection, RejectionDetails
from kframework.framework.suggestions import ChangeEstimates
from kframework.objects import Affinity, PersistentVolumeClaimSource, Volume
from kframework.scheduler.cooperative import run_to_end
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene
from tests.support.evaluations import evaluate
from tests.support.remedies import make_engine, pending

CPU, TAINT = "Insufficient cpu", "node(s) had untolerated taint(s)"
MISSING = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="missing"))


def test_rejections_of_every_plugin_are_counted() -> None:
    now = (
        Scene(
            make_node("full", cpu="500m"),
            make_node("tainted", cpu=8, taints=["a=b:NoSchedule"]),
            make_node("both-1", cpu="500m", taints=["a=b:NoSchedule"]),
            make_node("both-2", cpu="500m", taints=["a=b:NoSchedule"]),
            make_pod("pod", cpu=1),
        )
        .settle()
        .explain("pod")
        .assessment
    )
    assert (now.nodes, now.feasible) == (4, 0)
    assert now.reasons == {TAINT: 3, CPU: 1}
    assert now.message == f"0/4 nodes are available: 1 {CPU}, 3 {TAINT}."
    assert now.rejections == (
        Rejection("TaintToleration", TAINT, 3, 3, 1, ("tainted", "both-1", "both-2"), False),
        Rejection("NodeResourcesFit", CPU, 3, 1, 1, ("full", "both-1", "both-2"), False),
    )


def test_no_reason_is_alone_on_a_node_with_two_reasons() -> None:
    pod = make_pod("pod", cpu=2, memory="2Gi")
    now = Scene(make_node("n1", cpu=1, memory="1Gi"), make_node("n2", cpu=1), pod).settle().explain("pod").assessment
    found = {(each.reason, each.nodes, each.first, each.alone) for each in now.rejections}
    assert found == {(CPU, 2, 2, 1), ("Insufficient memory", 1, 1, 0)}


def test_example_nodes_start_with_those_rejected_for_this_reason_alone() -> None:
    nodes = [make_node(f"n{n}", cpu="500m", taints=["a=b:NoSchedule"] if n < 8 else ()) for n in range(16)]
    now = Scene(*nodes, make_pod("pod", cpu=1)).settle().explain("pod").assessment
    cpu = next(each for each in now.rejections if each.reason == CPU)
    assert (cpu.nodes, cpu.first, cpu.alone) == (16, 8, 8)
    assert cpu.examples == ("n8", "n9", "n10", "n11", "n12")


def test_rejection_by_lower_priority_pods_is_preemptible() -> None:
    low = make_pod("low", cpu=1, node_name="n1", priority=0)
    now = Scene(make_node("n1", cpu=1), low, make_pod("pod", cpu=1, priority=0)).settle().explain("pod").assessment
    assert [each.preemptible for each in now.rejections] == [True]


def pinned(name: str) -> dict[str, object]:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def test_nodes_excluded_by_pre_filter_are_counted() -> None:
    affinity = msgspec.convert({"nodeAffinity": pinned("n1")}, Affinity)
    nodes = [make_node(f"n{n}", cpu="500m") for n in range(4)]
    now = Scene(*nodes, make_pod("pod", cpu=1, affinity=affinity)).settle().explain("pod").assessment
    absent = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert now.reasons == {absent: 3, CPU: 1}
    assert now.rejections[0] == Rejection("NodeAffinity", absent, 3, 3, 3, ("n0", "n2", "n3"), False)


def test_pre_filter_rejection_counts_on_all_nodes() -> None:
    now = Scene(make_node("n1"), make_node("n2"), make_pod("pod", volumes=[MISSING])).settle().explain("pod").assessment
    assert now.message == '0/2 nodes are available: persistentvolumeclaim "missing" not found.'
    found = [(each.plugin, each.nodes, each.first, each.alone, each.examples) for each in now.rejections]
    assert found == [("VolumeRestrictions", 2, 2, 2, ("n1", "n2"))]


def test_best_nodes_are_compared_with_margin_and_decider() -> None:
    now = Scene(make_node("n1", cpu=2), make_node("n2", cpu=4), make_node("n3", cpu=2)).pending(cpu=1)
    best, second, third = now.top
    assert (best.node, best.rank, second.rank, third.rank) == ("n2", 1, 2, 2)
    assert now.margin == best.total - second.total
    assert (now.ties, now.enough) == (1, 3)
    assert all(sum(score.weighted for score in node.scores) == node.total for node in now.top)
    assert all(score.weighted == score.weight * score.normalized for node in now.top for score in node.scores)
    ahead = {a.plugin: a.weighted - b.weighted for a, b in zip(best.scores, second.scores, strict=True)}
    assert ahead[now.decided_by] == max(ahead.values())


def test_nodes_with_equal_scores_share_a_rank() -> None:
    now = Scene(*(make_node(f"n{n}") for n in range(7))).pending()
    assert (now.ties, now.margin, now.decided_by) == (7, 0, "")
    assert [each.rank for each in now.top] == [1] * len(now.top)


def test_own_node_of_the_pod_is_shown_at_any_rank() -> None:
    nodes = [make_node(f"n{n}", cpu=8) for n in range(8)]
    taken = make_pod("taken", cpu=7, node_name="n7")
    now = Scene(*nodes, taken, make_pod("pod", cpu="500m", node_name="n7")).settle().explain("pod").assessment
    assert len(now.top) == 6
    assert (now.top[-1].node, now.top[-1].rank) == ("n7", 8)


def test_one_feasible_node_is_not_scored() -> None:
    now = Scene(make_node("n1", cpu=2), make_node("n2", cpu="100m")).pending(cpu=1)
    assert (now.feasible, now.top, now.ties, now.message) == (1, (NodeScore("n1", 1, 0, ()),), 1, "")
    assert [each.reason for each in now.rejections] == [CPU]


def test_rooms_of_nominated_pods_are_listed() -> None:
    scene = Scene(make_node("n1", cpu=1), make_pod("rival", cpu=1, priority=5, nominated_node_name="n1"))
    scene.engine.apply_messages()
    now = scene.pending("pod", cpu=1)
    assert now.feasible == 0
    assert now.kept_room == (NominatedRoom("n1", ("default/rival",)),)


def test_attempt_stops_at_a_sample_of_a_large_cluster() -> None:
    now = Scene(*(make_node(f"n{n}") for n in range(200))).pending()
    assert (now.feasible, now.enough) == (200, 100)


def test_sample_size_counts_only_nodes_that_pre_filter_allows() -> None:
    affinity = msgspec.convert({"nodeAffinity": pinned("n1")}, Affinity)
    scene = Scene(*(make_node(f"n{n}") for n in range(200)), make_pod("pod", affinity=affinity))
    now = scene.settle().explain("pod").assessment
    assert (now.feasible, now.enough) == (1, 1)


def test_reasons_are_limited_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MAX_REASONS", 1)
    nodes = [make_node("n1", cpu=1), make_node("n2", taints=["a=b:NoSchedule"]), make_node("n3", cpu=1)]
    now = Scene(*nodes).pending(cpu=2)
    assert [each.reason for each in now.rejections] == [CPU]
    assert now.reasons_left_out == 1
    assert now.reasons == {CPU: 2, TAINT: 1}


def test_nominated_pod_affects_only_its_own_node() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    scene = Scene(
        *(make_node(name, labels={"zone": "a"}) for name in ("n1", "n2", "n3")),
        make_pod("rival", priority=5, labels={"app": "web"}, nominated_node_name="n1"),
        make_pod("another", priority=5, nominated_node_name="n2"),
        make_pod("pod", affinity=msgspec.convert(apart, Affinity)),
    )
    scene.engine.apply_messages()
    now = scene.explain("pod").assessment
    assert now.feasible == 2
    assert [each.examples for each in now.rejections] == [("n1",)]


class Sized(Plugin):
    """Reject all nodes, the larger ones for less."""

    name = "Sized"
    reads = "node"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status:
        return unresolvable("too small" if node.name != "odd" else "odd")

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        if node.name == "n0":
            return []
        return [f"{node.name} is {status.message}", "  by far"]

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        return np.array([1 / int(node.name[1:] or 1) if node.name[1:].isdigit() else 9.0 for node in _at(nodes, rows)])


def _at(nodes: NodeTable, rows: Rows) -> list[NodeInfo]:
    return [nodes[row] for row in np.arange(nodes.capacity)[rows].tolist()]


def told(*names: str, plugin: type[Plugin] = Sized) -> tuple[RejectionDetails, ...]:
    engine = make_engine([make_node(name) for name in names], plugin)
    evaluation = run_to_end(evaluate(engine, pending(engine, make_pod())))
    return run_to_end(summary.summarise(evaluation, "")).details


def test_details_cover_the_nodes_with_the_fewest_changes_per_reason() -> None:
    said = told("n1", "odd", "n2", "n3", "n4")
    assert [(each.plugin, each.node) for each in said] == [("Sized", name) for name in ("n4", "n3", "n2", "odd")]
    assert said[0].lines == ("n4 is too small", "  by far")
    assert said[-1].lines == ("odd is odd", "  by far")


class Silent(Sized):
    """Say nothing."""

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        return []


class Failing(Sized):
    """Fail."""

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        raise RuntimeError("out of order")


@pytest.mark.parametrize("plugin", [Silent, Failing])
def test_plugin_without_details_is_omitted(plugin: type[Plugin]) -> None:
    assert told("n1", plugin=plugin) == ()
