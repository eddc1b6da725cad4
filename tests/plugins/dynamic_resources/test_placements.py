"""What plugins learn of the devices that claims would get."""

from __future__ import annotations

from msgspec.structs import replace

from kframework import CycleState, Handle, NodeTable
from kframework.objects import Pod, PodResourceClaim, ResourceClaim
from kframework.plugins.dynamic_resources.placements import DevicePlacement, measure_rows, requests_devices
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.testing import make_node, make_pod, pending_pod, stub_handle
from tests.plugins.asking import made
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting

HAS_ONE = {"devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "b", "device": "x"}]}}


def using(pod: Pod, name: str) -> Pod:
    claims = (PodResourceClaim(name=name, resource_claim_name=name),)
    return replace(pod, spec=replace(pod.spec, resource_claims=claims))


def asked(pod: Pod, *claims: ResourceClaim) -> tuple[CycleState, NodeTable]:
    """Let DynamicResources look at a pod that may have devices of the nodes a and b."""
    nodes = [make_node("a", allocatable={"example.com/gpu": 1}), make_node("b"), make_node("c")]
    handle: Handle = stub_handle(nodes=nodes, objects=[GPUS, gpus("a", "x", "y"), gpus("b", "x", "y", "z"), *claims])
    state = CycleState()
    made(DynamicResources, handle=handle).pre_filter(state, pending_pod(pod), handle.nodes)
    return state, handle.nodes


def free(placement: DevicePlacement) -> int:
    """Count the devices that would be left."""
    every = [device for pool in placement.pools for device in pool.devices]
    return len(every) - sum(placement.allocated.is_in_use(device.id) for device in every) - len(placement.chosen)


def test_devices_that_claims_would_get_are_measured() -> None:
    state, nodes = asked(using(make_pod(), "c"), wanting("c"))
    assert requests_devices(state)
    assert measure_rows(free, state, nodes, nodes.order).tolist() == [1, 2, 0]


def test_so_is_what_stands_for_extended_resources() -> None:
    state, nodes = asked(make_pod(requests={"example.com/gpu": 1}), wanting("had", allocation=HAS_ONE))
    assert requests_devices(state)
    # A device plugin offers some on the node a.
    assert measure_rows(free, state, nodes, nodes.order).tolist() == [0, 1, 0]


def test_pod_without_claims_requests_no_devices() -> None:
    assert not requests_devices(CycleState())
    assert not requests_devices(asked(make_pod())[0])
    assert not requests_devices(asked(using(make_pod(), "had"), wanting("had", allocation=HAS_ONE))[0])
