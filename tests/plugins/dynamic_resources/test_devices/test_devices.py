"""What a plugin sees of devices is one view of slices, claims and nodes."""

from __future__ import annotations

from kframework.objects import DeviceClass, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.requests import claims_options
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.cluster import ClusterState
from kframework.testing import make_node
from tests.plugins.dynamic_resources.changing import devices_in
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting


def test_search_sees_what_is_in_reach_and_in_use() -> None:
    state, wanted = ClusterState(), wanting()
    state.put_node(make_node("a"))
    state.put_node(make_node("b"))
    state.objects(DeviceClass).put(GPUS.metadata, GPUS)
    devices = devices_in(state)
    for each in (gpus("a", "x", "y"), gpus("b", "z")):
        state.objects(ResourceSlice).put(each.metadata, each)
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "x"}]
    taken = wanting("taken", allocation={"devices": {"results": results}})
    state.objects(ResourceClaim).put(taken.metadata, taken)
    asked = claims_options([wanted], devices.classes)
    node, other = state.nodes[0], state.nodes[1]

    def got(*without: ResourceClaim) -> list[str]:
        freed = devices.as_if_released(result for claim in without for result in results_of(claim))
        found = devices.search([wanted], asked, node, devices.pools_of(node), freed).run(None)
        assert found is not None
        return [each.device.id.device for each in found[0]]

    assert (got(), got(taken)) == (["y"], ["x"])
    assert devices.allocated.is_dedicated(DeviceId("gpu.example.com", "a", "x"))
    (pool,) = devices.pools_of(other)
    assert devices.selection.matches(asked[0][0][0], pool.devices[0], other)


def test_readers_of_a_cluster_share_one_state() -> None:
    """What one profile reserves another does not give away."""
    state = ClusterState()
    one, other = devices_in(state), devices_in(state)
    assert one.allocated is other.allocated
    assert one.inventory is other.inventory
