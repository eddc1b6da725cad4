"""What an API server fills in and refuses of claims to devices and of slices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kframework.errors import ClusterError
from kframework.in_memory import device_admission
from kframework.objects import (
    AllocatedDeviceStatus,
    AllocationResult,
    ApiObject,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kframework.objects.resource_claims import MAX_RESERVED

NOW = "2026-01-01T00:00:00Z"
EXACT = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
ADMIN = {"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
ALLOWED = {"resource.kubernetes.io/admin-access": "true"}


def claim(*requests: object, **status: Any) -> ResourceClaim:
    spec = {"devices": {"requests": requests}}
    created = msgspec.convert({"metadata": {"name": "c", "namespace": "n"}, "spec": spec}, ResourceClaim)
    return replace(created, status=ResourceClaimStatus(**status))


def template(*requests: object) -> ResourceClaimTemplate:
    spec = {"spec": {"devices": {"requests": requests}}}
    return msgspec.convert({"metadata": {"name": "t"}, "spec": spec}, ResourceClaimTemplate)


def resource_slice(**spec: object) -> ResourceSlice:
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1}, "nodeName": "n1", **spec}
    return msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)


def refusal(old: ApiObject, new: ApiObject) -> str:
    with pytest.raises(ClusterError) as refused:
        device_admission.admit_update(old, new)
    assert refused.value.status == 422
    return str(refused.value).partition("is invalid: ")[2]


@pytest.mark.parametrize(
    ("settings", "mode", "count"),
    [
        ({}, "ExactCount", 1),
        ({"count": 3}, "ExactCount", 3),
        ({"allocationMode": "All"}, "All", 0),
    ],
)
def test_device_count_gets_its_default(settings: dict[str, object], mode: str, count: int) -> None:
    exact = {"name": "r", "exactly": {"deviceClassName": "gpu", **settings}}
    either = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu", **settings}]}
    for spec in (device_admission.set_defaults(claim(exact, either), NOW).spec, _of(template(exact, either))):
        first, second = spec.devices.requests
        assert first.exactly is not None
        for said in (first.exactly, second.first_available[0]):
            assert (said.allocation_mode, said.count) == (mode, count)


def _of(created: ResourceClaimTemplate) -> Any:
    return device_admission.set_defaults(created, NOW).spec.spec


def test_claims_of_a_template_share_its_spec() -> None:
    spec = template(EXACT).spec.spec
    first, second = (device_admission.set_defaults(replace(claim(), spec=spec), NOW) for _ in range(2))
    assert first.spec is second.spec


def test_device_taints_get_their_time() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "None", "timeAdded": "2025-01-01T00:00:00Z"}]
    defaulted = device_admission.set_defaults(
        resource_slice(devices=[{"name": "x"}, {"name": "y", "taints": taints}]), NOW
    )
    assert [taint.time_added for taint in defaulted.spec.devices[1].taints] == [NOW, "2025-01-01T00:00:00Z"]
    without = resource_slice(devices=[{"name": "x"}])
    assert device_admission.set_defaults(without, NOW) is without


LATER, EARLIER = "2026-01-02T00:00:00Z", "2025-01-01T00:00:00Z"


def taint_rule(effect: str, time: str | None = None) -> DeviceTaintRule:
    taint = {"key": "k", "effect": effect, "timeAdded": time}
    return msgspec.convert({"metadata": {"name": "r"}, "spec": {"taint": taint}}, DeviceTaintRule)


@pytest.mark.parametrize(
    ("old", "new", "time"),
    [
        (None, taint_rule("None"), LATER),
        (None, taint_rule("None", EARLIER), EARLIER),
        (taint_rule("None", NOW), taint_rule("None", NOW), NOW),
        (taint_rule("None", NOW), taint_rule("None"), LATER),
        (taint_rule("None", NOW), taint_rule("NoExecute", NOW), LATER),
        (taint_rule("None", NOW), taint_rule("NoExecute", EARLIER), EARLIER),
    ],
)
def test_new_effect_of_a_rule_begins_now_unless_its_author_says(
    old: DeviceTaintRule | None, new: DeviceTaintRule, time: str
) -> None:
    assert device_admission.with_taint_time(old, new, LATER).spec.taint.time_added == time


@pytest.mark.parametrize("subject", [claim(EXACT, ADMIN), template(EXACT, ADMIN)])
def test_admin_access_requires_the_namespace_label(subject: ApiObject) -> None:
    with pytest.raises(ClusterError) as refused:
        device_admission.check_admin_access(subject, {"team": "a"})
    assert str(refused.value).partition("is invalid: ")[2] == (
        "spec.devices.requests[1].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    device_admission.check_admin_access(subject, ALLOWED)


def test_claim_without_admin_access_needs_no_label() -> None:
    device_admission.check_admin_access(claim(EXACT), {})
    device_admission.check_admin_access(resource_slice(), {})


IMMUTABLE = "Invalid value: field is immutable"


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (claim(EXACT), claim(ADMIN), "spec"),
        (template(EXACT), template(ADMIN), "spec"),
        (resource_slice(), resource_slice(driver="e"), "spec.driver"),
        (resource_slice(), resource_slice(pool={"name": "q"}), "spec.pool.name"),
        (resource_slice(), resource_slice(nodeName="n2"), "spec.nodeName"),
    ],
)
def test_immutable_fields_cannot_change(old: ApiObject, new: ApiObject, path: str) -> None:
    assert refusal(old, new) == f"{path}: {IMMUTABLE}"


def test_slice_may_change_its_devices() -> None:
    new = resource_slice(devices=[{"name": "x"}], pool={"name": "p", "generation": 2})
    assert device_admission.admit_update(resource_slice(), new) is new


GOT = DeviceRequestAllocationResult(request="r", driver="d", pool="p", device="x")
ALLOCATED = AllocationResult(devices=DeviceAllocationResult(results=(GOT,)))
OTHER = AllocationResult(devices=DeviceAllocationResult(results=(replace(GOT, device="y"),)))


def users(*uids: object) -> tuple[ResourceClaimConsumerReference, ...]:
    return tuple(ResourceClaimConsumerReference(resource="pods", name="p", uid=str(uid)) for uid in uids)


def deleted(created: ResourceClaim) -> ResourceClaim:
    return replace(created, metadata=replace(created.metadata, deletion_timestamp=NOW))


DELETED = "Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (claim(allocation=ALLOCATED), claim(allocation=OTHER), f"status.allocation: {IMMUTABLE}"),
        (
            claim(),
            claim(reserved_for=users(1)),
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        ),
        (
            claim(allocation=ALLOCATED),
            claim(allocation=ALLOCATED, reserved_for=users(1, 2, 1)),
            'status.reservedFor[2]: Duplicate value: "1"',
        ),
        (
            claim(allocation=ALLOCATED),
            claim(allocation=ALLOCATED, reserved_for=users(*range(MAX_RESERVED + 1))),
            "status.reservedFor: Too many: 257: must have at most 256 items",
        ),
        (
            deleted(claim(allocation=ALLOCATED, reserved_for=users(1))),
            deleted(claim(allocation=ALLOCATED, reserved_for=users(1, 2))),
            f"status.reservedFor: {DELETED}",
        ),
    ],
)
def test_invalid_claim_status_is_rejected(old: ResourceClaim, new: ResourceClaim, why: str) -> None:
    assert refusal(old, new) == why


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (claim(), claim(allocation=ALLOCATED, reserved_for=users(*range(MAX_RESERVED)))),
        (claim(allocation=ALLOCATED, reserved_for=users(1)), claim()),
        (
            deleted(claim(allocation=ALLOCATED, reserved_for=users(1, 2))),
            deleted(claim(allocation=ALLOCATED, reserved_for=users(2))),
        ),
    ],
)
def test_valid_claim_status_is_accepted(old: ResourceClaim, new: ResourceClaim) -> None:
    assert device_admission.admit_update(old, new) == new


def test_device_reports_are_dropped_with_their_devices() -> None:
    result = tuple(AllocatedDeviceStatus(driver="d", pool="p", device=name) for name in "xy")
    assert (
        device_admission.admit_update(claim(), claim(allocation=ALLOCATED, devices=result)).status.devices == result[:1]
    )
    gone = device_admission.admit_update(claim(allocation=ALLOCATED, devices=result[:1]), claim(devices=result[:1]))
    assert gone.status.devices == ()
