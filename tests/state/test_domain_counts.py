from __future__ import annotations

from functools import partial

import pytest

from kframework.objects import Pod
from kframework.objects.label_selectors import exact_selector
from kframework.state.cluster import ClusterState
from kframework.state.domain_counts import CountsSnapshot, DomainCounts
from kframework.state.node_sets import NodeSets
from kframework.state.pod_counts import Selection
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
WEB = Selection(frozenset({"default"}), exact_selector({"app": "web"}))


@pytest.fixture
def cluster() -> ClusterState:
    """Zone a with two pods on one of its two nodes, b with one pod; c is empty, and node `nowhere` in no zone."""
    cluster = ClusterState()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b", "b"), ("c", "c"), ("nowhere", "")):
        cluster.put_node(make_node(name, zone=zone, labels={} if name == "c" else {"disk": "ssd"}))
    for number, name in enumerate(("a1", "a1", "b", "nowhere")):
        cluster.put_pod(web(f"p{number}", name))
    return cluster


def web(name: str, node_name: str) -> Pod:
    return make_pod(name, labels={"app": "web"}, node_name=node_name)


def counted(cluster: ClusterState, disk: str = "", min_domains: int = 1) -> DomainCounts:
    """Count by zone, on all nodes or on those with such a disk."""
    nodes = cluster.nodes
    pod = PendingPod(make_pod(node_selector={"disk": disk} if disk else {}), cluster.interner)
    among = partial(NodeSets(nodes).for_pod, pod, (ZONE,), affinity=True, taints=False)
    return DomainCounts(nodes, nodes.label(ZONE), nodes.counters.count(WEB), among, min_domains)


def seen(counts: DomainCounts | CountsSnapshot) -> tuple[dict[str | None, int], int]:
    tally, fewest = counts.read()
    meanings = counts.topology.meanings
    return {meanings[code]: pods for code, pods in enumerate(tally.values.tolist()) if pods}, fewest


def row(cluster: ClusterState, name: str) -> int:
    found = cluster.nodes.row(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("disk", "min_domains", "expected"),
    [
        ("", 1, ({"a": 2, "b": 1}, 0)),
        ("ssd", 1, ({"a": 2, "b": 1}, 1)),
        ("ssd", 2, ({"a": 2, "b": 1}, 1)),
        ("ssd", 3, ({"a": 2, "b": 1}, 0)),
        ("hdd", 1, ({}, 0)),
        ("hdd", 0, ({}, 2**31 - 1)),
    ],
)
def test_fewest_are_sought_where_nodes_count(
    cluster: ClusterState, disk: str, min_domains: int, expected: object
) -> None:
    counts = counted(cluster, disk, min_domains)
    assert seen(counts) == expected
    assert seen(CountsSnapshot(counts)) == expected


def test_live_counts_see_every_change(cluster: ClusterState) -> None:
    counts = counted(cluster)
    cluster.put_pod(web("new", "c"))
    assert seen(counts) == ({"a": 2, "b": 1, "c": 1}, 1)
    with cluster.statement() as statement:
        statement.remove(cluster.pods[web("p2", "b").metadata.uid])
        assert seen(counts) == ({"a": 2, "c": 1}, 0)
    assert seen(counts) == ({"a": 2, "b": 1, "c": 1}, 1)
    cluster.put_node(make_node("c", zone="b"))
    assert seen(counts) == ({"a": 2, "b": 2}, 2)


def test_what_if_that_follows_on_another_is_seen(cluster: ClusterState) -> None:
    counts = counted(cluster)
    for name, expected in (("b", 2), ("c", 1)):
        with cluster.statement() as statement:
            statement.add(PodInfo(web("new", ""), cluster.interner), name)
            assert seen(counts)[0].get(name) == expected


def test_frozen_counts_do_not_count_on_other_nodes(cluster: ClusterState) -> None:
    frozen = CountsSnapshot(counted(cluster, "ssd"))
    frozen.add(row(cluster, "c"), 1)
    assert seen(frozen) == ({"a": 2, "b": 1}, 1)


def test_live_counts_include_every_change(cluster: ClusterState) -> None:
    counts = counted(cluster)
    counts.add(row(cluster, "c"), 1)
    assert seen(counts) == ({"a": 2, "b": 1}, 0)


def test_snapshot_changes_only_by_its_own_calls(cluster: ClusterState) -> None:
    frozen = CountsSnapshot(counted(cluster))
    cluster.put_pod(web("new", "c"))
    assert seen(frozen) == ({"a": 2, "b": 1}, 0)
    frozen.add(row(cluster, "c"), 1)
    assert seen(frozen) == ({"a": 2, "b": 1, "c": 1}, 1)


def test_fewest_follow_the_domain_that_changes(cluster: ClusterState) -> None:
    frozen = CountsSnapshot(counted(cluster, "ssd"))
    steps = [("a1", -1, 1), ("a2", -1, 0), ("a1", -1, -1), ("a1", 4, 1), ("b", 5, 3), ("b", -6, 0), ("a1", -4, -1)]
    for name, more, fewest in steps:
        frozen.add(row(cluster, name), more)
        assert seen(frozen)[1] == fewest, (name, more)


def test_snapshot_is_independent_of_live_counts(cluster: ClusterState) -> None:
    frozen = CountsSnapshot(counted(cluster, "ssd"))
    frozen.add(row(cluster, "b"), -1)
    copy = CountsSnapshot(frozen)
    copy.add(row(cluster, "b"), 3)
    assert seen(frozen) == ({"a": 2}, 0)
    assert seen(copy) == ({"a": 2, "b": 3}, 2)
