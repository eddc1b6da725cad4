"""What pods' claims get, and what is written into claims, as it is compared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.objects import DeviceRequestAllocationResult, ResourceClaim
from kframework.plugins.dynamic_resources.reservation import ClaimReservation
from kframework.state.pods import PendingPod
from kframework.testing.conformance.cases import Fact
from kframework.testing.conformance.claims import (
    AllocationDetails,
    ClaimRecorder,
    compare_allocations,
    compare_details,
    compare_writes,
    reserve_claims,
    store_allocations,
)
from kframework.testing.conformance.single import SingleInput
from kframework.testing.conformance.whole_cycle import WholeCycle
from tests.testing.conformance.planted import PLUGINS, Part, node, pod, with_plugins

ON_A = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}


def claim(name: str = "c", **status: Any) -> Part:
    """Write a claim to one device."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": "r", "exactly": exactly}]
    metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}, "status": status}


def devices(shared: bool) -> Part:
    """Write the slice of the node a: two devices."""
    named = [{"name": name, "allowMultipleAllocations": shared} for name in "xy"]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "a", "pool": pool, "devices": named}}


class Case:
    """A cluster of one node with devices, and a pod that wants one."""

    def __init__(self, wanting: Part, *claims: Part, shared: bool = False, extended: str | None = None) -> None:
        given = msgspec.convert(
            {
                "nodes": [node("a")],
                "pods": [],
                "pod": wanting,
                "profile": with_plugins(*PLUGINS, "DynamicResources"),
                "resourceClaims": claims,
                "resourceSlices": [devices(shared)],
                "deviceClasses": [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": extended}}],
            },
            SingleInput,
        )
        self.engine: PodEngine = given.engine(Registry.from_installed())
        self.pod = PendingPod(given.pod, self.engine.cluster.interner)

    def reserved(self) -> ClaimReservation | None:
        return reserve_claims(self.engine, self.pod, WholeCycle(self.engine, self.pod).search.state, "a")


def using(*claims: str) -> Part:
    return pod("web", resourceClaims=[{"name": name, "resourceClaimName": name} for name in claims])


def result(**said: Any) -> DeviceRequestAllocationResult:
    return msgspec.convert(
        {"request": "r", "driver": "d", "pool": "a", "device": "x", **said}, DeviceRequestAllocationResult
    )


def differing(facts: Any) -> Mapping[object, Fact]:
    return {fact.path: fact for fact in facts if fact.differs}


@pytest.mark.parametrize(
    ("shared", "expected", "differs"),
    [
        (False, {"c": [result()], "d": [result(device="y")]}, set()),
        (False, {"c": [result(device="y")], "d": [result(device="y")]}, {("on", "c")}),
        (False, {"c": [result()]}, {("on", "d")}),
        (False, {"c": [result()], "d": [result(device="y")], "e": [result()]}, {("on", "e")}),
        # One that gets nothing is not told of.
        (False, {"c": [result()], "d": [result(device="y")], "e": []}, set()),
        (True, {"c": [result(shareID="*")], "d": [result(shareID="*")]}, set()),
    ],
)
def test_allocations_are_compared_by_device(shared: bool, expected: Part, differs: set[object]) -> None:
    reservation = Case(using("c", "d"), claim("c"), claim("d"), shared=shared).reserved()
    told = {name: tuple(results) for name, results in expected.items()}
    assert differing(compare_allocations(told, reservation, "on")).keys() == differs


def test_computed_reservation_is_not_kept() -> None:
    case = Case(using("c"), claim())
    first, second = case.reserved(), case.reserved()
    assert first is not None and second is not None
    assert [each.allocation for each in first.allocations] == [each.allocation for each in second.allocations]


def test_pod_without_claims_reserves_nothing() -> None:
    reservation = Case(pod("plain")).reserved()
    assert reservation is None
    assert list(compare_allocations({}, reservation)) == []
    assert differing(compare_allocations({"c": [result()]}, reservation)).keys() == {("c",)}


def test_allocation_details_are_compared() -> None:
    reservation = Case(using("c"), claim()).reserved()
    right = msgspec.convert({"nodeSelector": ON_A}, AllocationDetails)
    assert differing(compare_details({"c": right}, reservation)) == {}
    assert differing(compare_details({"c": AllocationDetails()}, reservation)).keys() == {("c",)}
    assert differing(compare_details({}, reservation)).keys() == {("c",)}


def test_extended_resource_claim_maps_requests_to_containers() -> None:
    requests = {"resources": {"requests": {"example.com/gpu": 1}}}
    asking = pod("web", containers=[{"name": "main", **requests}])
    reservation = Case(asking, extended="example.com/gpu").reserved()
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    told = {
        "nodeSelector": ON_A,
        "requests": [{"name": "container-0-request-0", "exactly": exactly}],
        "requestMappings": [mapping],
    }
    name = "<extended-resources>"
    assert differing(compare_details({name: msgspec.convert(told, AllocationDetails)}, reservation)) == {}
    got = {name: (result(request="container-0-request-0"),)}
    assert differing(compare_allocations(got, reservation)) == {}


def test_assigned_pod_has_its_claims() -> None:
    case = Case(using("c"), claim())
    store_allocations(case.engine, case.pod, case.reserved())
    stored = case.engine.cluster.objects(ResourceClaim).get("c", "default")
    assert stored is not None and stored.status.allocation is not None
    assert [each.device for each in stored.status.allocation.devices.results] == ["x"]
    assert [(each.resource, each.name, each.uid) for each in stored.status.reserved_for] == [("pods", "web", "pod-web")]


@pytest.mark.parametrize(
    ("deallocated", "deleted", "deallocates", "deletes", "differs"),
    [
        ([], [], [], "", set()),
        (["c"], [], ["c"], "", set()),
        # One of several, whichever it is; the whole step asks again.
        (["d", "d"], [], ["c", "d"], "", set()),
        (["e"], [], ["c", "d"], "", {("postFilter", "deallocates")}),
        ([], [], ["c"], "", {("postFilter", "deallocates")}),
        (["c"], [], [], "", {("postFilter", "deallocates")}),
        ([], ["m"], [], "m", set()),
        ([], ["m"], [], "", {("postFilter", "deletes")}),
    ],
)
def test_claim_writes_are_compared(
    deallocated: list[str], deleted: list[str], deallocates: list[str], deletes: str, differs: set[object]
) -> None:
    case = Case(pod("plain"))
    effects = case.engine.host
    assert isinstance(effects, ClaimRecorder)
    effects.deallocated += deallocated
    effects.deleted += deleted
    assert differing(compare_writes(case.engine, deallocates, deletes)).keys() == differs


def test_awaiting_plugin_raises_an_error() -> None:
    with pytest.raises(AssertionError, match="mine awaits something"):
        ClaimRecorder().spawn(asyncio.sleep(0), "mine")
