"""A node's devices are its own, and those of many nodes that its pods have."""

from __future__ import annotations

from msgspec.structs import replace

from kframework.objects import ApiObject
from kframework.objects.claims import group_consumer
from kframework.plugins.dynamic_resources.devices import NodeDevice, node_devices
from kframework.plugins.dynamic_resources.holders import DeviceHolder
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from tests.support.device_objects import DRIVER, resource_slice
from tests.support.groups import basic, members
from tests.support.missing_devices import WORN, give_devices, gpu, slice_of_n1


def shown(*objects: ApiObject) -> list[NodeDevice]:
    cluster = ClusterState()
    for name in ("n1", "n2"):
        cluster.put_node(make_node(name))
    (member,) = members("g", 1)
    for pod in (make_pod("holder"), member):
        cluster.put_pod(replace(pod, spec=replace(pod.spec, node_name="n1")))
    for each in objects:
        cluster.objects(type(each)).put(each.metadata, each)
    node = cluster.nodes.find("n1")
    assert node is not None
    return node_devices(cluster, node)


def test_each_device_is_shown_with_who_has_it() -> None:
    assert shown(slice_of_n1(gpu("a"), gpu("b", taints=[WORN])), give_devices("a")) == [
        NodeDevice(DRIVER, "n1", "a", (DeviceHolder("default/of-holder", ("default/holder",)),)),
        NodeDevice(DRIVER, "n1", "b", (), ("worn:NoSchedule",)),
    ]


def test_devices_of_other_nodes_are_left_out_and_network_devices_without_pods_too() -> None:
    per_device = [gpu("p", nodeName="n1"), gpu("q", nodeName="n2"), gpu("r", allNodes=True)]
    slices = [
        resource_slice("network", {"x": "a", "y": "a", "z": "a"}, allNodes=True),
        resource_slice("n2", {"other": "a"}, nodeName="n2"),
        resource_slice("near", per_device, perDeviceNodeSelection=True),
    ]
    taken = [give_devices("x", pool="network"), give_devices("y", by="elsewhere", pool="network")]
    assert [each.device for each in shown(*slices, *taken)] == ["p", "x"]


def test_network_device_of_a_group_with_a_pod_on_the_node_is_shown() -> None:
    network = resource_slice("network", {"x": "a", "y": "a"}, allNodes=True)
    own, other = give_devices("x", pool="network"), give_devices("y", by="elsewhere", pool="network")
    groups = [replace(group_consumer(basic(name)), uid=name) for name in ("g", "h")]
    claims = [
        replace(each, status=replace(each.status, reserved_for=(group,)))
        for each, group in zip((own, other), groups, strict=True)
    ]
    (device,) = shown(network, *claims)
    assert (device.device, device.held_by[0].groups) == ("x", ("default/g",))


def test_problem_of_a_pool_is_shown() -> None:
    assert {each.wrong for each in shown(slice_of_n1(gpu("a"), gpu("a")))} == {"duplicate device name a"}


def test_node_without_devices_or_with_an_invalid_selector_shows_none() -> None:
    wrong = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}
    assert shown() == shown(resource_slice("n", {"a": "a"}, nodeSelector=wrong)) == []
