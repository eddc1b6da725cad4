from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import Pod
from kframework.objects.label_selectors import exact_selector
from kframework.objects.node_selectors import required_node_affinity
from kframework.objects.taints import first_untolerated
from kframework.state import node_sets
from kframework.state.cluster import ClusterState
from kframework.state.node_sets import NodeSet, NodeSets
from kframework.state.pod_counts import Selection
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from tests.plugins.spread_worlds import RACK, ZONE, World, affinity

#: Labels, and whether node affinity and taints are looked at.
ASKED = [((), True, False), ((ZONE,), True, True), ((ZONE, RACK), False, False), ((RACK,), False, True)]
WEB = Selection(None, exact_selector({"app": "web"}))


def suited(cluster: ClusterState, pod: Pod, keys: tuple[str, ...], by_affinity: bool, by_taints: bool) -> set[str]:
    """Work out slowly which nodes suit a pod."""
    required = required_node_affinity(pod.spec)
    return {
        node.name
        for node in cluster.nodes
        if all(key in node.labels for key in keys)
        and not (by_affinity and required is not None and not required(node.labels, node.name))
        and not (by_taints and first_untolerated(node.taints, pod.spec.tolerations, ("NoSchedule", "NoExecute")))
    }


@given(st.integers(0, 2**32))
def test_nodes_that_suit_a_pod(seed: int) -> None:
    world = World(Random(seed), 6)
    cluster, sets = world.cluster, NodeSets(world.cluster.nodes)
    pods = [world.pod() for _ in range(3)]
    for _ in range(10):
        world.change()
        for pod in pods:
            for keys, by_affinity, by_taints in ASKED:
                found = sets.for_pod(PendingPod(pod, cluster.interner), keys, affinity=by_affinity, taints=by_taints)
                expected = suited(cluster, pod, keys, by_affinity, by_taints)
                if found is None:
                    assert len(expected) == sum(
                        not keys or any(key in node.labels for key in keys) for node in cluster.nodes
                    )
                else:
                    compare(found, cluster, expected)


def compare(found: NodeSet, cluster: ClusterState, expected: set[str]) -> None:
    nodes = cluster.nodes
    assert {nodes[row].name for row in found.rows().tolist()} == expected
    assert {node.name for node in nodes if found.contains(node.row)} == expected
    zones, pods = nodes.label(ZONE), nodes.counters.count(WEB)
    domains: dict[str | None, int] = {}
    for node in nodes:
        if node.name in expected and ZONE in node.labels:
            here = sum(WEB.matches(pod.label_class) for pod in node.pods)
            domains[node.labels[ZONE]] = domains.get(node.labels[ZONE], 0) + here
    assert {zones.meanings[code] for code in found.domains(zones).tolist()} == domains.keys()
    tally = found.tally(pods, zones)
    assert {zones.meanings[code]: tally.cells[code] for code in found.domains(zones).tolist()} == domains
    assert tally.total == sum(domains.values())


@pytest.fixture
def cluster() -> ClusterState:
    """Two nodes, one of them with an SSD."""
    cluster = ClusterState()
    cluster.put_node(make_node("a", zone="z", labels={"disk": "ssd"}))
    cluster.put_node(make_node("b", zone="z"))
    return cluster


def pending(cluster: ClusterState, pod: Pod) -> PendingPod:
    return PendingPod(pod, cluster.interner)


def test_pods_with_the_same_requirements_share_a_set(cluster: ClusterState) -> None:
    sets, wants = NodeSets(cluster.nodes), {"disk": "ssd"}
    one, other = (pending(cluster, make_pod(cpu=cpu, node_selector=wants)) for cpu in (1, 2))
    first = sets.for_pod(one, (ZONE,), affinity=True, taints=False)
    assert first is not None
    assert sets.for_pod(other, (ZONE,), affinity=True, taints=True) is first  # no node has a taint
    assert sets.for_pod(one, (), affinity=True, taints=False) is not first


def test_pods_that_name_nodes_share_none(cluster: ClusterState) -> None:
    sets = NodeSets(cluster.nodes)
    named = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in "ab"]
    pods = [pending(cluster, make_pod(affinity=affinity(term))) for term in named]
    assert pods[0].template is pods[1].template
    found = [sets.for_pod(pod, (ZONE,), affinity=True, taints=False) for pod in pods]
    assert [each.rows().tolist() for each in found if each is not None] == [[0], [1]]


def test_no_set_is_needed_where_no_node_is_left_out(cluster: ClusterState) -> None:
    sets = NodeSets(cluster.nodes)
    tolerant, needs_scoring = pending(cluster, make_pod()), pending(cluster, make_pod(node_selector={"disk": "ssd"}))
    assert sets.for_pod(tolerant, (ZONE, "kubernetes.io/hostname"), affinity=True, taints=True) is None
    assert sets.for_pod(needs_scoring, ("disk",), affinity=False, taints=True) is None
    assert sets.for_pod(needs_scoring, (ZONE, "disk"), affinity=False, taints=True) is not None


def test_set_unused_for_a_while_is_dropped(cluster: ClusterState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_sets, "_MAX_SETS", 2)
    sets = NodeSets(cluster.nodes)
    a, b, c = (pending(cluster, make_pod(node_selector={"disk": disk})) for disk in "abc")

    def found(pod: PendingPod) -> NodeSet | None:
        return sets.for_pod(pod, (ZONE,), affinity=True, taints=False)

    kept, dropped = found(a), found(b)
    assert found(a) is kept
    found(c)
    assert found(a) is kept
    assert found(b) is not dropped
