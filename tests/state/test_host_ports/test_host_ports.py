from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.state.cluster import ClusterState
from kframework.state.host_ports import HostPort, HostPorts, conflicts
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod

PORTS = st.builds(
    HostPort,
    st.sampled_from(["0.0.0.0", "127.0.0.1", "::"]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from([80, 443]),
)


def rows(held: HostPorts, wanted: HostPort) -> set[int]:
    return {row for found in held.conflicting_rows(wanted) for row in found}


@given(st.lists(st.tuples(PORTS, st.integers(0, 3), st.booleans()), max_size=30))
def test_port_is_taken_while_a_pod_holds_it(history: list[tuple[HostPort, int, bool]]) -> None:
    held, truth = HostPorts(), Counter[tuple[HostPort, int]]()
    for port, row, comes in history:
        if comes or truth[port, row]:
            held.count(port, row, 1 if comes else -1)
            truth[port, row] += 1 if comes else -1
        for wanted, _, _ in history:
            assert rows(held, wanted) == {row for (used, row), n in truth.items() if n and conflicts(wanted, used)}
    assert len(held) == len(+truth)


def test_free_ports_leave_no_memory() -> None:
    held = HostPorts()
    for more in (1, 1, -1, -1):
        held.count(HostPort("0.0.0.0", "TCP", 80), 0, more)
    assert held._rows_by_port == {}


@pytest.mark.parametrize("keep", [True, False])
def test_what_if_takes_and_frees_ports(keep: bool) -> None:
    cluster, wanted = ClusterState(), HostPort("10.0.0.1", "TCP", 80)
    for name in ("a", "b"):
        cluster.put_node(make_node(name))
    cluster.put_pod(make_pod("there", host_ports=[80], node_name="a"))
    here, there = cluster.nodes.row("a"), cluster.nodes.row("b")
    victim, statement = cluster.pods[make_pod("there").metadata.uid], cluster.statement()
    statement.evict(victim)
    statement.assume(PendingPod(make_pod("new", host_ports=[80]), cluster.interner), "b")
    assert rows(cluster.nodes.host_ports, wanted) == {there}
    (statement.commit if keep else statement.rollback)()
    # A victim holds its port until the cluster says that it is gone.
    assert rows(cluster.nodes.host_ports, wanted) == ({here, there} if keep else {here})


def test_node_that_leaves_holds_no_ports_and_has_them_again_when_it_is_back() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    cluster.put_pod(make_pod(host_ports=[80], node_name="a"))
    cluster.remove_node("a")
    assert len(cluster.nodes.host_ports) == 0
    cluster.put_node(make_node("a"))
    assert len(cluster.nodes.host_ports) == 1


def test_what_if_frees_a_port_with_the_first_of_its_holders() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    for name in ("one", "other"):
        cluster.put_pod(make_pod(name, host_ports=[80], node_name="a"))
    one, other = sorted(cluster.pods.values(), key=lambda pod: pod.name)
    held, wanted = cluster.nodes.host_ports, HostPort("0.0.0.0", "TCP", 80)
    with cluster.statement() as statement:
        statement.remove(one)
        assert not rows(held, wanted)
        statement.add(one, "a")
        assert rows(held, wanted) == {0}
        statement.remove(other)
        with statement.statement() as inner:
            inner.add(other, "a")
            assert rows(held, wanted) == {0}
        assert not rows(held, wanted)
    assert rows(held, wanted) == {0}
    with cluster.statement() as statement:
        statement.evict(one)
        statement.commit()
    assert rows(held, wanted) == {0}
