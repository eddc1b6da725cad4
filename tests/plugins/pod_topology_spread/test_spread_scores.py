from __future__ import annotations

import math

import numpy as np
import pytest

from kframework.objects import TopologySpreadConstraint
from kframework.plugins.pod_topology_spread.spread_constraints import SCHEDULE_ANYWAY, own_constraints
from kframework.plugins.pod_topology_spread.spread_scores import HOSTNAME, SoftConstraints, SpreadScores
from kframework.state.cluster import ClusterState
from kframework.state.node_sets import NodeSets
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from tests.plugins.spread_worlds import ZONE, constraint

WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
#: Pods of the kind per node: zone a has 3 on two nodes, b has 1; the last two nodes are in no zone.
PODS = {"a1": 3, "a2": 0, "b": 1, "n1": 5, "n2": 0}
ZONES = {"a1": "a", "a2": "a", "b": "b"}


@pytest.fixture
def cluster() -> ClusterState:
    """The nodes with their pods."""
    cluster = ClusterState()
    for name, number in PODS.items():
        cluster.put_node(make_node(name, zone=ZONES.get(name, "")))
        for place in range(number):
            cluster.put_pod(make_pod(f"{name}-{place}", labels={"app": "web"}, node_name=name))
    return cluster


def wish(key: str, skew: int = 1) -> TopologySpreadConstraint:
    return constraint(key, SCHEDULE_ANYWAY, skew, **WEB)


def scored(
    cluster: ClusterState, *wishes: TopologySpreadConstraint, needs_labels: bool = True, among: str = "a1 a2 b n1 n2"
) -> tuple[dict[str, int], list[str]]:
    """Score these nodes; name those that are ignored."""
    nodes = cluster.nodes
    rows = np.array([nodes.row(name) for name in among.split()])
    pod = PendingPod(make_pod(topology_spread=wishes), cluster.interner)
    constraints = own_constraints(pod, SCHEDULE_ANYWAY)
    found = SpreadScores(SoftConstraints(pod, nodes, constraints, NodeSets(nodes), needs_labels=needs_labels), rows)
    scores = {nodes[row].name: found.score(row) for row in rows.tolist()}
    assert found.score_rows(rows).tolist() == list(scores.values())
    assert found.score_rows(slice(0, nodes.size)).tolist() == [found.score(row) for row in range(nodes.size)]
    ignored = found.ignored if found.ignored is not None else np.zeros(len(rows), dtype=np.bool_)
    return scores, [nodes[row].name for row in rows[ignored].tolist()]


def rounded(score: float) -> int:
    return math.floor(score + 0.5)


def test_empty_value_names_the_domain_of_the_nodes_without_the_label(cluster: ClusterState) -> None:
    cluster.put_node(make_node("nameless", labels={ZONE: ""}))
    among = "a1 b n1 nameless"
    scores, _ = scored(cluster, wish(ZONE), needs_labels=False, among=among)
    assert scores == {
        "a1": rounded(3 * math.log(5)),
        "b": rounded(math.log(5)),
        "n1": 0,
        "nameless": rounded(5 * math.log(5)),
    }
    scores, _ = scored(cluster, wish(ZONE), among=among)
    assert scores == {"a1": rounded(3 * math.log(5)), "b": rounded(math.log(5)), "n1": 0, "nameless": 0}


def test_slices_are_rows_too(cluster: ClusterState) -> None:
    nodes = cluster.nodes
    pod = PendingPod(make_pod(topology_spread=[wish(ZONE), wish(HOSTNAME)]), cluster.interner)
    constraints = own_constraints(pod, SCHEDULE_ANYWAY)
    soft = SoftConstraints(pod, nodes, constraints, NodeSets(nodes), needs_labels=True)
    one, other = (SpreadScores(soft, rows) for rows in (slice(0, nodes.size), np.arange(nodes.size)))
    assert one.score_rows(nodes.order).tolist() == other.score_rows(nodes.order).tolist()
