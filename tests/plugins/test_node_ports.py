from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, CycleState, Skip, unschedulable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import Container, ContainerPort, Pod
from kframework.plugins.node_ports import NodePorts, after_pod_deletion
from kframework.testing import check_plugin, make_container, make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, on_node, pending

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


def port(number: int, ip: str = "", protocol: str = "") -> ContainerPort:
    return ContainerPort(container_port=80, host_port=number, host_ip=ip, protocol=protocol)


def holding(*ports: ContainerPort, name: str = "pod", node_name: str = "") -> Pod:
    return make_pod(name, containers=[make_container(ports=ports)], node_name=node_name)


# -- the rule, slow and obvious ----------------------------------------------------------------------------------------


def held(pod: Pod) -> list[ContainerPort]:
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    return [each for container in [*sidecars, *pod.spec.containers] for each in container.ports if each.host_port]


def collide(one: ContainerPort, other: ContainerPort) -> bool:
    if (one.host_port, one.protocol or "TCP") != (other.host_port, other.protocol or "TCP"):
        return False
    ips = {one.host_ip or "0.0.0.0", other.host_ip or "0.0.0.0"}
    return len(ips) == 1 or "0.0.0.0" in ips


PORTS = st.builds(
    port,
    st.sampled_from([0, 80, 443]),
    st.sampled_from(["", "0.0.0.0", "127.0.0.1", "::"]),
    st.sampled_from(["", "TCP", "UDP"]),
)
CONTAINERS = st.lists(PORTS, max_size=2).map(lambda ports: make_container(ports=ports))
INIT_CONTAINERS = st.builds(
    lambda ports, sidecar: make_container(ports=ports, sidecar=sidecar), st.lists(PORTS, max_size=1), st.booleans()
)
SPECS = st.tuples(st.lists(CONTAINERS, min_size=1, max_size=2), st.lists(INIT_CONTAINERS, max_size=2))
Spec = tuple[list[Container], list[Container]]


def build(spec: Spec, name: str = "pod", node_name: str = "") -> Pod:
    return make_pod(name, containers=spec[0], init_containers=spec[1], node_name=node_name)


@given(st.lists(st.lists(SPECS, max_size=3), max_size=5), SPECS)
def test_node_where_a_wanted_port_is_held_is_rejected(specs: list[list[Spec]], wanted: Spec) -> None:
    nodes = {
        f"n{place}": [build(spec, f"n{place}-{number}", f"n{place}") for number, spec in enumerate(each)]
        for place, each in enumerate(specs)
    }
    pod = build(wanted)
    cluster = cluster_of(map(make_node, nodes), (other for others in nodes.values() for other in others))
    expected = {
        name: TAKEN
        for name, others in nodes.items()
        if any(collide(mine, theirs) for mine in held(pod) for other in others for theirs in held(other))
    }
    assert filtered(made(NodePorts), cluster, pod) == expected
    skipped = made(NodePorts).pre_filter(CycleState(), pending(pod, cluster), cluster.nodes) == Skip
    assert skipped is (not held(pod))


def test_port_is_free_when_the_last_pod_that_holds_it_has_left() -> None:
    both = [holding(port(80), name=name, node_name="n") for name in ("one", "other")]
    cluster = cluster_of([make_node("n")], both)
    for pod, rejected in zip(both, (True, False), strict=True):
        cluster.remove_pod(pod.metadata.uid)
        assert filtered(made(NodePorts), cluster, holding(port(80))) == ({"n": TAKEN} if rejected else {})


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (holding(), make_pod(cpu=7), True),
        (holding(port(80), port(81)), holding(port(81), port(80, "0.0.0.0", "TCP")), True),
        (holding(port(80)), holding(port(80, "::")), False),
        (holding(port(80)), holding(port(80, protocol="UDP")), False),
    ],
)
def test_pods_with_the_same_ports_share_their_answers(one: Pod, other: Pod, alike: bool) -> None:
    assert (made(NodePorts).sign(pending(one)) == made(NodePorts).sign(pending(other))) is alike


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    assert made(NodePorts).events_to_register() == [
        ClusterEvent("Pod", ActionType.DELETE, after_pod_deletion),
        ClusterEvent("Node", ActionType.ADD),
    ]


@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        (holding(port(80), node_name="n"), QueueingHint.QUEUE),
        (holding(port(81), node_name="n"), QueueingHint.SKIP),
        (holding(port(80)), QueueingHint.SKIP),
        (make_pod(host_ports=[80], nominated_node_name="n"), QueueingHint.QUEUE),
        (make_pod(node_name="n"), QueueingHint.SKIP),
    ],
)
def test_pod_that_leaves_wakes_those_that_want_its_ports(gone: Pod, hint: QueueingHint) -> None:
    assert after_pod_deletion(pending(holding(port(80))), on_node(gone), None) is hint


def test_contract_is_kept() -> None:
    pods = [holding(port(8080, "10.0.0.1"), port(9090), name="two"), holding(port(9090, "::"), name="one")]
    found = check_plugin(NodePorts, pods=pods, examples=4)
    assert found.reasons.keys() == {TAKEN.message}
    assert found.passes and found.skips["pre_filter"]
