"""Nodes as columns of numbers, and one of them with its pods."""

from __future__ import annotations

from kframework.observe.web.nodes import (
    MAX_DEVICES,
    MAX_PODS,
    MAX_RESOURCES,
    NodeColumns,
    NodeDetails,
    NodePod,
    Utilisation,
    describe_node,
    list_nodes,
)
from kframework.plugins.dynamic_resources.devices import NodeDevice
from kframework.plugins.dynamic_resources.holders import DeviceHolder
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from tests.support.device_objects import DRIVER, claim_with_devices, resource_slice


def cluster() -> ClusterState:
    made = ClusterState()
    made.put_node(make_node("a", zone="east", cpu=4, memory="1Gi"))
    made.put_node(make_node("b", zone="west", cpu=8, memory="2Gi", taints=["spot:NoSchedule"], unschedulable=True))
    made.put_node(make_node("c", zone="west", cpu=2, memory="1Gi", allocatable={"example.com/gpu": 2}))
    made.put_pod(make_pod("small", cpu="500m", memory=None, node_name="b"))
    made.put_pod(make_pod("large", cpu=2, memory="1Gi", priority=7, node_name="b"))
    return made


GIB = 1 << 30


def test_node_columns_are_aligned() -> None:
    assert list_nodes(cluster().nodes) == NodeColumns(
        names=["a", "b", "c"],
        zones=["east", "west"],
        zone=[0, 1, 1],
        cordoned=[1],
        tainted=[1],
        utilisation=[
            Utilisation("cpu", [4000, 8000, 2000], [0, 2500, 0]),
            Utilisation("memory", [GIB, 2 * GIB, GIB], [0, GIB, 0]),
            Utilisation("pods", [110, 110, 110], [0, 2, 0]),
            Utilisation("example.com/gpu", [0, 0, 2], [0, 0, 0]),
        ],
    )


def test_deleted_nodes_are_not_listed() -> None:
    state = cluster()
    state.remove_node("a")
    shown = list_nodes(state.nodes)
    assert shown.names == ["b", "c"]
    assert all(len(fill.allocatable) == 2 == len(fill.requested) for fill in shown.utilisation)


def test_zone_includes_the_region() -> None:
    state = ClusterState()
    state.put_node(make_node("a", zone="a", labels={"topology.kubernetes.io/region": "north"}))
    state.put_node(make_node("b"))
    assert list_nodes(state.nodes).zones == ["north/a", ""]


def test_shown_resources_are_limited() -> None:
    state = ClusterState()
    state.put_node(make_node("a", allocatable={f"example.com/{number:02}": 1 for number in range(20)}))
    shown = [fill.resource for fill in list_nodes(state.nodes).utilisation]
    assert len(shown) == MAX_RESOURCES
    assert shown[:4] == ["cpu", "memory", "pods", "example.com/00"]


def test_node_columns_are_empty_without_nodes() -> None:
    assert list_nodes(ClusterState().nodes) == NodeColumns([], [], [], [], [], [])


def test_node_details_list_the_largest_pods_first() -> None:
    assert describe_node(cluster(), "b") == NodeDetails(
        "b",
        {"kubernetes.io/hostname": "b", "topology.kubernetes.io/zone": "west"},
        ("spot:NoSchedule",),
        2,
        (
            NodePod("default/large", 7, False, (("cpu", 2000), ("memory", GIB))),
            NodePod("default/small", 0, False, (("cpu", 500),)),
        ),
    )


def test_taints_are_formatted_as_in_kubectl() -> None:
    state = ClusterState()
    state.put_node(make_node("a", taints=["gpu=yes:NoExecute", "spot:NoSchedule"]))
    shown = describe_node(state, "a")
    assert shown is not None and shown.taints == ("gpu=yes:NoExecute", "spot:NoSchedule")


def test_shown_pods_of_a_node_are_limited() -> None:
    state = ClusterState()
    state.put_node(make_node("a"))
    for number in range(MAX_PODS + 5):
        state.put_pod(make_pod(f"pod-{number}", node_name="a"))
    shown = describe_node(state, "a")
    assert shown is not None and (shown.total, len(shown.pods)) == (MAX_PODS + 5, MAX_PODS)


def test_unknown_node_has_no_details() -> None:
    assert describe_node(cluster(), "d") is None


def test_node_details_list_devices_with_their_users() -> None:
    state = cluster()
    for each in (
        resource_slice("b", {f"gpu-{n}": "a" for n in range(MAX_DEVICES + 1)}, nodeName="b"),
        claim_with_devices("c", "b/gpu-0"),
    ):
        state.objects(type(each)).put(each.metadata, each)
    shown, other = describe_node(state, "b"), describe_node(state, "a")
    assert shown is not None and other is not None
    assert (shown.devices_total, len(shown.devices)) == (MAX_DEVICES + 1, MAX_DEVICES)
    assert shown.devices[0] == NodeDevice(DRIVER, "b", "gpu-0", (DeviceHolder("default/c"),))
    assert (other.devices_total, other.devices) == (0, ())
