"""Counters: columns of a term's pods that stay current."""

from __future__ import annotations

from kframework.state.cluster import ClusterState
from tests.objects_made import node, pod, term


def cluster(*nodes: str) -> ClusterState:
    """Make a cluster of these nodes."""
    state = ClusterState()
    for name in nodes:
        state.put_node(node(name))
    return state


def put(state: ClusterState, uid: str, node_name: str, namespace: str = "default", **labels: str) -> None:
    """Put an assigned pod into the cluster."""
    state.put_pod(pod(uid, namespace=namespace, labels=labels, node_name=node_name))


def test_a_term_counts_the_pods_there_are() -> None:
    state = cluster("a", "b")
    put(state, "p", "a", app="web")
    put(state, "q", "a", app="web", tier="x")
    put(state, "r", "b", app="db")
    put(state, "s", "b", namespace="other", app="web")
    assert state.counters.term("web", term("default", app="web")).cells[:2].tolist() == [2, 0]
    assert state.counters.term("all", term("default")).cells[:2].tolist() == [2, 1]


def test_a_term_stays_current() -> None:
    state = cluster("a", "b")
    column = state.counters.term("web", term("default", app="web"))
    put(state, "p", "a", app="web")
    put(state, "q", "b", app="web", tier="new class")
    assert column.cells[:2].tolist() == [1, 1]
    put(state, "p", "b", app="web")
    assert column.cells[:2].tolist() == [0, 2]
    put(state, "p", "b", app="db")
    state.remove_pod("q")
    assert column.cells[:2].tolist() == [0, 0]


def test_a_term_loses_the_pods_of_a_node_and_gets_them_back() -> None:
    state = cluster("a")
    put(state, "p", "a", app="web")
    column = state.counters.term("web", term("default", app="web"))
    state.remove_node("a")
    assert not column.values.any()
    state.put_node(node("b"))
    state.put_node(node("a"))
    assert column.cells[:2].tolist() == [0, 1]


def test_a_term_grows_with_the_table() -> None:
    state = cluster("a")
    column = state.counters.term("web", term("default", app="web"))
    for n in range(100):
        state.put_node(node(f"n{n}"))
        put(state, f"p{n}", f"n{n}", app="web")
    assert column.values.sum() == 100
    assert len(column.values) == state.nodes.capacity


def test_a_term_is_one_column_until_it_is_dropped() -> None:
    state = cluster("a")
    selects = term("default", app="web")
    column = state.counters.term("web", selects)
    assert state.counters.term("web", selects) is column
    assert len(state.counters) == 1
    state.counters.drop("web")
    put(state, "p", "a", app="web")
    assert len(state.counters) == 0
    assert not column.values.any()
    assert state.counters.term("web", selects).cells[0] == 1


def test_dropping_a_term_leaves_the_others() -> None:
    state = cluster("a")
    state.counters.term("web", term("default", app="web"))
    column = state.counters.term("all", term("default"))
    put(state, "p", "a", app="web")
    state.counters.drop("web")
    put(state, "q", "a", app="web")
    assert column.cells[0] == 2
