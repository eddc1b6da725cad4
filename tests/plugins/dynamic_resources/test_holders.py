"""Who has a device is known from the first question on, and what would be free once pods go."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from kframework.objects import ResourceClaim, ResourceClaimConsumerReference
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.holders import DeviceHolder, DeviceHolders
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.objects import ObjectStore
from tests.support.device_objects import DRIVER, claim_with_devices

GPU = DeviceId(DRIVER, "p", "gpu-0")


def claim(name: str, *users: str, **result: Any) -> ResourceClaim:
    results = [{"request": "r", **dict(zip(("driver", "pool", "device"), GPU, strict=True)), **result}]
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "status": status}, ResourceClaim)


def store(*claims: ResourceClaim) -> ObjectStore[ResourceClaim]:
    made = ObjectStore[ResourceClaim]()
    for each in claims:
        made.put(each.metadata, each)
    return made


def test_holders_are_kept_current() -> None:
    claims = store(claim("a", "x", "y"))
    holders = claims.index(DeviceHolders)
    assert holders.holders_of(GPU) == [DeviceHolder("default/a", ("default/x", "default/y"))]
    shares = claim("b", "z", shareID="1")
    claims.put(shares.metadata, shares)
    assert [each.text for each in holders.holders_of(GPU)] == ["default/x, default/y", "default/z"]
    for gone in (claim("a"), shares):
        claims.remove(gone.metadata)
    assert holders.holders_of(GPU) == []
    assert list(holders.claims_with(GPU)) == []
    assert holders.without_users({"x", "z"}) == []


def test_group_that_a_claim_is_reserved_for_holds_its_devices() -> None:
    held = claim("a", "x")
    group = ResourceClaimConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="g")
    held = replace(held, status=replace(held.status, reserved_for=(*held.status.reserved_for, group)))
    assert [each.text for each in store(held).index(DeviceHolders).holders_of(GPU)] == ["default/x, PodGroup default/g"]


def test_admin_access_does_not_hold_the_device() -> None:
    assert store(claim("a", "x", adminAccess=True)).index(DeviceHolders).holders_of(GPU) == []


def test_claim_that_is_about_to_get_a_device_has_it() -> None:
    claims = store(claim_with_devices("soon"))
    holders = claims.index(DeviceHolders)
    claims.index(AllocatedDevices).reserve(claim_with_devices("soon", "p/gpu-0"))
    assert [each.text for each in holders.holders_of(GPU)] == ["claim default/soon"]
    written = replace(claim("soon", "x"))
    claims.put(written.metadata, written)
    assert [each.text for each in holders.holders_of(GPU)] == ["default/x"]


def test_claim_gives_its_devices_back_once_nobody_uses_it() -> None:
    holders = store(claim("a", "x", "y"), claim("b", "x")).index(DeviceHolders)
    shared, own = holders.without_users({"x"})
    assert ([user.name for user in shared.status.reserved_for], shared.status.allocation is None) == (["y"], False)
    assert (own.status.reserved_for, own.status.allocation) == ((), None)
    assert [each.status.allocation for each in holders.without_users({"x", "y"})] == [None, None]
    assert holders.without_users({"other"}) == []
