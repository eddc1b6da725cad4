"""Which rows changed from one pod of a kind to the next: nodes, their pods, and nominations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework.core.cycle.answer_cache import ChangedRows
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod

Happens = Callable[[ClusterState], object]


def pending(cluster: ClusterState, name: str) -> PendingPod:
    return PendingPod(make_pod(name), cluster.interner)


def settled() -> tuple[ClusterState, ChangedRows]:
    """Return three nodes, and what has looked at them once."""
    cluster = ClusterState()
    for name in "abc":
        cluster.put_node(make_node(name))
    changed = ChangedRows(cluster)
    assert changed.since_last(pending(cluster, "first")) is None
    assert changed.since_last(pending(cluster, "first")) == []
    return cluster, changed


@pytest.mark.parametrize(
    ("happens", "names"),
    [
        (lambda cluster: cluster.put_node(make_node("b", labels={"new": "yes"})), "b"),
        (lambda cluster: cluster.put_pod(make_pod("p", node_name="c")), "c"),
        (lambda cluster: cluster.nominator.nominate(pending(cluster, "n"), "a"), "a"),
        (lambda cluster: cluster.nominator.nominate(pending(cluster, "n"), "nowhere"), ""),
        (lambda cluster: None, ""),
    ],
    ids=["node", "pod", "nomination", "unknown node", "nothing"],
)
def test_rows_change_with_their_node_pods_and_nominations(
    happens: Callable[[ClusterState], object], names: str
) -> None:
    cluster, changed = settled()
    happens(cluster)
    rows = changed.since_last(pending(cluster, "next"))
    assert rows is not None and {cluster.nodes[row].name for row in rows} == set(names)
    assert changed.since_last(pending(cluster, "next")) == []


def test_nomination_that_moves_changes_both_nodes() -> None:
    cluster, changed = settled()
    for node_name in "ab":
        cluster.nominator.nominate(pending(cluster, "n"), node_name)
    rows = changed.since_last(pending(cluster, "next"))
    assert rows is not None and {cluster.nodes[row].name for row in rows} == {"a", "b"}


def test_to_its_own_node_a_nominated_pod_is_another_one() -> None:
    cluster, changed = settled()
    nominated = pending(cluster, "n")
    cluster.nominator.nominate(nominated, "b")
    changed.since_last(pending(cluster, "next"))
    row = cluster.nodes.row("b")
    assert changed.since_last(nominated) == [row]
    assert changed.since_last(pending(cluster, "next")) == [row]
    assert changed.since_last(pending(cluster, "next")) == []


def test_late_reader_evaluates_all_rows() -> None:
    cluster, changed = settled()
    for number in range(3000):
        cluster.nominator.nominate(pending(cluster, "n"), "ab"[number % 2])
    assert changed.since_last(pending(cluster, "next")) is None
