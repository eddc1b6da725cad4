"""Topologies: domains, their sizes, and tallies that move with the nodes."""

from __future__ import annotations

from kframework.state.cluster import ClusterState
from kframework.state.topology import Tally, Topology
from tests.support.objects import node, pod, selection


def zone(state: ClusterState) -> Topology:
    """Ask for the topology of a label."""
    return state.nodes.label("zone")


def tallied(topology: Topology, tally: Tally) -> dict[str | None, int]:
    """Read a tally by value."""
    return {topology.meanings[code]: int(tally.values[code]) for code in topology.occupied.tolist()}


def test_domains_are_the_values_that_nodes_have() -> None:
    state = ClusterState()
    for name, labels in (("a", {"zone": "x"}), ("b", {"zone": "y"}), ("c", {}), ("d", {"zone": "x"})):
        state.put_node(node(name, labels=labels))
    topology = zone(state)
    assert tallied(topology, topology.sizes) == {"x": 2, "y": 1}
    assert (topology.sizes.total, topology.sizes.values[0]) == (3, 0)
    state.put_node(node("b", labels={"zone": "z"}))
    state.remove_node("a")
    assert tallied(topology, topology.sizes) == {"x": 1, "z": 1}


def test_positions_of_a_domain_follow_labels_and_the_node_order() -> None:
    state = ClusterState()

    def nodes_in(value: str | None) -> list[str]:
        topology, nodes = zone(state), state.nodes
        positions = topology.positions(topology.code(value), nodes.order)
        return [nodes[row].name for row in nodes.order[positions].tolist()]

    for name, labels in (("a", {"zone": "x"}), ("b", {"zone": "y"}), ("c", {}), ("d", {"zone": "x"})):
        state.put_node(node(name, labels=labels))
    assert [nodes_in(value) for value in ("x", "y", None, "of no node")] == [["a", "d"], ["b"], ["c"], []]
    state.put_node(node("b", labels={"zone": "x"}))
    assert nodes_in("x") == ["a", "b", "d"]
    state.remove_node("a")
    assert nodes_in("x") == ["b", "d"]
    for number in range(200):
        zone(state).code(str(number))
    assert nodes_in("199") == []


def test_pods_move_to_another_domain_with_their_node() -> None:
    state = ClusterState()
    state.put_node(node("a", labels={"zone": "x"}))
    state.put_node(node("b", labels={"zone": "y"}))
    for uid, node_name in (("p", "a"), ("q", "a"), ("r", "b")):
        state.put_pod(pod(uid, node_name=node_name))
    tally = state.nodes.counters.count(selection("default")).domains(zone(state))
    assert tallied(zone(state), tally) == {"x": 2, "y": 1}
    state.put_node(node("a", labels={"zone": "y"}))
    assert tallied(zone(state), tally) == {"y": 3}
    state.put_node(node("b"))
    assert (tallied(zone(state), tally), tally.total) == ({"y": 2}, 2)


def test_number_of_domains_is_unlimited() -> None:
    state = ClusterState()
    state.put_node(node("first", labels={"zone": "first"}))
    tally = state.nodes.counters.count(selection("default")).domains(zone(state))
    for n in range(300):
        state.put_node(node(f"n{n}", labels={"zone": f"z{n}"}))
        state.put_pod(pod(f"p{n}", node_name=f"n{n}"))
    assert tally.total == tally.values.sum() == 300
    assert len(tally.values) == len(zone(state).sizes.values) == zone(state).code_capacity


def test_values_that_no_node_has_any_more_are_forgotten() -> None:
    state = ClusterState()
    state.put_node(node("stays", labels={"zone": "stays"}))
    state.put_pod(pod("p", node_name="stays"))
    tally = state.nodes.counters.count(selection("default")).domains(zone(state))
    for n in range(3000):
        state.put_node(node(f"n{n}", labels={"zone": f"z{n}"}))
        state.put_pod(pod("q", node_name=f"n{n}"))
        state.remove_node(f"n{n - 1}")
    topology = zone(state)
    assert len(topology.meanings) < 1100
    assert tallied(topology, tally) == {"stays": 1, "z2999": 1}
    assert (topology.sizes.total, tally.total, tally.values.sum()) == (2, 2, 2)
    state.remove_node("stays")
    assert tallied(topology, tally) == {"z2999": 1}


def test_label_keys_are_those_of_the_nodes_there_are() -> None:
    state = ClusterState()
    keys, versions = state.nodes.label_keys, [0]
    for labels in ({"zone": "x"}, {"zone": "y"}, {"zone": "y", "disk": "1"}, {"disk": "1"}):
        state.put_node(node("a", labels=labels))
        versions.append(keys.version)
    assert (dict(keys), versions) == ({"disk": 1}, [0, 1, 1, 2, 3])
    state.put_node(node("b", labels={"disk": "1"}))
    state.remove_node("a")
    assert (dict(keys), keys.version) == ({"disk": 1}, 3)


def test_topologies_that_no_node_has_share_a_column_and_live_as_long_as_they_are_used() -> None:
    state = ClusterState()
    state.put_node(node("a", labels={"zone": "x"}))
    absent = [state.nodes.label(f"key-{n}") for n in range(100)]
    assert len({id(topology.values) for topology in absent}) == 1
    for n in range(100):
        state.put_node(node(f"n{n}"))
    assert {len(topology.values) for topology in absent} == {state.nodes.capacity}
    state.put_node(node("a", labels={"key-7": "x"}))
    assert absent[7] is state.nodes.label("key-7")
    assert (absent[7].occupied.tolist(), absent[8].occupied.tolist()) == ([1], [])
    state.put_node(node("a"))
    assert (absent[7].occupied.tolist(), len(state.nodes._labels)) == ([], 0)
    del absent
    assert len(state.nodes._absent) == 0
