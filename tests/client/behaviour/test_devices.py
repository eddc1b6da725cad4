"""Claims to devices on any way to a cluster."""

from __future__ import annotations

from msgspec.structs import replace

from kframework.objects import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    Namespace,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
)
from kframework.objects.resource_claims import ADMIN_ACCESS
from tests.client.behaviour.ways import Stage, refusal

ASKED = ExactDeviceRequest(device_class_name="gpu")


def claim(asked: ExactDeviceRequest = ASKED, namespace: str = "default") -> ResourceClaim:
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="r", exactly=asked),)))
    return ResourceClaim(metadata=ObjectMeta(name="c", namespace=namespace), spec=spec)


ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
USER = {"resource": "pods", "name": "web", "uid": "1"}


async def test_claim_is_allocated_used_and_given_back(stage: Stage) -> None:
    made = await stage.client.create(claim())
    exactly = made.spec.devices.requests[0].exactly
    assert exactly is not None and (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)
    patch = {"allocation": ALLOCATION, "reservedFor": [USER]}
    used = await stage.client.patch_status(ResourceClaim, "c", patch, "default")
    assert [each.uid for each in used.status.reserved_for] == ["1"]
    status, reason, why = await refusal(
        stage.client.patch_status(ResourceClaim, "c", {"allocation": {"devices": {"results": []}}}, "default")
    )
    assert (status, reason) == (422, "Invalid") and why.endswith("status.allocation: Invalid value: field is immutable")
    given_back = {"allocation": None, "reservedFor": None}
    free = await stage.client.patch_status(ResourceClaim, "c", given_back, "default")
    assert (free.status.allocation, free.status.reserved_for) == (None, ())


async def test_requests_of_a_claim_are_immutable(stage: Stage) -> None:
    made = await stage.client.create(claim())
    other = claim(replace(ASKED, count=2))
    status, _, why = await refusal(stage.client.update(replace(made, spec=other.spec)))
    assert status == 422 and why.endswith("spec: Invalid value: field is immutable")


async def test_devices_of_others_are_for_namespaces_of_admins(stage: Stage) -> None:
    wanted = replace(ASKED, admin_access=True)
    status, _, why = await refusal(stage.client.create(claim(wanted)))
    assert status == 422 and ADMIN_ACCESS in why
    stage.store.add(Namespace(metadata=ObjectMeta(name="admins", labels={ADMIN_ACCESS: "true"})))
    assert (await stage.client.create(claim(wanted, "admins"))).metadata.namespace == "admins"
