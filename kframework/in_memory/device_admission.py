"""Admission of claims to devices, of slices and of taint rules, by the rules of resource.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from msgspec.structs import replace

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.objects import (
    ApiObject,
    DeviceSubRequest,
    DeviceTaintRule,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kframework.objects.identity import cached_by_identity
from kframework.objects.kinds import T
from kframework.objects.resource_claims import ADMIN_ACCESS, MAX_RESERVED

DeviceRequest = TypeVar("DeviceRequest", ExactDeviceRequest, DeviceSubRequest)

_IMMUTABLE = "Invalid value: field is immutable"
_ADMIN_ACCESS_FORBIDDEN = (
    f"Forbidden: admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace"
)


def set_defaults(subject: T, now: str) -> T:
    match subject:
        case ResourceClaim():
            return replace(subject, spec=_default_claim_spec(subject.spec))
        case ResourceClaimTemplate():
            return replace(subject, spec=replace(subject.spec, spec=_default_claim_spec(subject.spec.spec)))
        case ResourceSlice():
            return cast("T", _with_taint_times(subject, now))
        case DeviceTaintRule():
            return with_taint_time(None, subject, now)
    return subject


@cached_by_identity  # the claims of a template share its spec
def _default_claim_spec(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    requests = (
        replace(
            request,
            exactly=None if request.exactly is None else _default_count(request.exactly),
            first_available=tuple(map(_default_count, request.first_available)),
        )
        for request in spec.devices.requests
    )
    return replace(spec, devices=replace(spec.devices, requests=tuple(requests)))


def _default_count(request: DeviceRequest) -> DeviceRequest:
    mode = request.allocation_mode or "ExactCount"
    return replace(request, allocation_mode=mode, count=request.count or (1 if mode == "ExactCount" else 0))


def _with_taint_times(resource_slice: ResourceSlice, now: str) -> ResourceSlice:
    devices = resource_slice.spec.devices
    if not any(device.taints for device in devices):
        return resource_slice
    dated = tuple(
        replace(device, taints=tuple(replace(taint, time_added=taint.time_added or now) for taint in device.taints))
        for device in devices
    )
    return replace(resource_slice, spec=replace(resource_slice.spec, devices=dated))


def with_taint_time(old: DeviceTaintRule | None, rule: T, now: str) -> T:
    """Return a rule whose taint says since when it has its effect: a new effect begins now, unless its author says."""
    assert isinstance(rule, DeviceTaintRule)
    taint, before = rule.spec.taint, old.spec.taint if old is not None else rule.spec.taint
    if taint.time_added and (taint.effect == before.effect or taint.time_added != before.time_added):
        return rule
    return cast("T", replace(rule, spec=replace(rule.spec, taint=replace(taint, time_added=now))))


def check_admin_access(subject: ApiObject, labels: Mapping[str, str]) -> None:
    """Raise ClusterError 422 for admin access in a namespace whose labels do not allow it."""
    match subject:
        case ResourceClaim():
            devices = subject.spec.devices
        case ResourceClaimTemplate():
            devices = subject.spec.spec.devices
        case _:
            return
    if labels.get(ADMIN_ACCESS) == "true":
        return
    for index, request in enumerate(devices.requests):
        if request.exactly is not None and request.exactly.admin_access:
            path = f"spec.devices.requests[{index}].adminAccess"
            raise api_errors.invalid(type(subject), subject.metadata.name, path, _ADMIN_ACCESS_FORBIDDEN)


def admit_update(old: T, new: T) -> T:
    """Return the result of an update; a claim drops driver reports on devices that it no longer has.

    ClusterError 422 for a change of an immutable field, and for an invalid status.
    """
    _check_immutable(old, new)
    if not isinstance(old, ResourceClaim) or not isinstance(new, ResourceClaim) or new.status == old.status:
        return new
    _check_status(old, new)
    status = new.status
    if not status.devices:
        return new
    results = status.allocation.devices.results if status.allocation is not None else ()
    allocated = {(each.driver, each.pool, each.device, each.share_id) for each in results}
    kept = (each for each in status.devices if (each.driver, each.pool, each.device, each.share_id) in allocated)
    return cast("T", replace(new, status=replace(status, devices=tuple(kept))))


def _check_immutable(old: ApiObject, new: ApiObject) -> None:
    fields: Iterable[tuple[str, object, object]] = ()
    match old, new:
        case (ResourceClaim(spec=here), ResourceClaim(spec=there)):
            fields = (("spec", here, there),)
        case (ResourceClaimTemplate(spec=template), ResourceClaimTemplate(spec=other)):
            fields = (("spec", template, other),)
        case ResourceSlice(spec=here), ResourceSlice(spec=there):
            fields = (
                ("spec.pool.name", here.pool.name, there.pool.name),
                ("spec.driver", here.driver, there.driver),
                ("spec.nodeName", here.node_name, there.node_name),
            )
    for path, before, after in fields:
        if before != after:
            raise api_errors.invalid(type(old), old.metadata.name, path, _IMMUTABLE)


def _check_status(old: ResourceClaim, new: ResourceClaim) -> None:
    before, after = old.status, new.status
    uids = [each.uid for each in after.reserved_for]
    if len(uids) > MAX_RESERVED:
        why = f"Too many: {len(uids)}: must have at most {MAX_RESERVED} items"
        raise _invalid(new, "status.reservedFor", why)
    for index, uid in enumerate(uids):
        if uid in uids[:index]:
            raise _invalid(new, f"status.reservedFor[{index}]", f'Duplicate value: "{uid}"')
    if uids and after.allocation is None:
        raise _invalid(new, "status.reservedFor", "Forbidden: may not be specified when `allocated` is not set")
    if old.metadata.deletion_timestamp is not None and not {*after.reserved_for} <= {*before.reserved_for}:
        why = "Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        raise _invalid(new, "status.reservedFor", why)
    if before.allocation is not None and after.allocation is not None and before.allocation != after.allocation:
        raise _invalid(new, "status.allocation", _IMMUTABLE)


def _invalid(claim: ResourceClaim, path: str, why: str) -> ClusterError:
    return api_errors.invalid(ResourceClaim, claim.metadata.name, path, why)
