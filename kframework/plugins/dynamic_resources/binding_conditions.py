"""Binding conditions: the readiness of a claim's devices, as drivers report it in the claim's status (KEP-5007)."""

from __future__ import annotations

import json

from kframework.clock import seconds_of
from kframework.objects import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from kframework.plugins.dynamic_resources.allocated import results_of

FAILED = "device binding failed: claim={}, reason={}, message={}"
TIMED_OUT = "device binding timeout: claim={}"
WAITED_TOO_LONG = "device binding timeout: context deadline exceeded"


def devices_with_conditions(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    return [result for result in results_of(claim) if result.binding_conditions]


def is_ready(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None and all(
        _is_ready(claim, result) for result in devices_with_conditions(claim)
    )


def find_failure(claim: ResourceClaim) -> str:
    """Return the failure of the first device that reports one, up to the first unready one; "" if none."""
    for result in devices_with_conditions(claim):
        status = _device_status(claim, result)
        for condition in status.conditions if status is not None else ():
            if condition.type in result.binding_failure_conditions and condition.status == "True":
                message = json.dumps(condition.message, ensure_ascii=False)
                return FAILED.format(claim.metadata.name, condition.reason, message)
        if not _is_ready(claim, result):
            return ""
    return ""


def has_timed_out(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Return whether the devices of a claim are not ready this many seconds after allocation."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not devices_with_conditions(claim):
        return False
    return seconds_of(allocation.allocation_timestamp) + timeout < now


def _is_ready(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> bool:
    status = _device_status(claim, result)
    if status is None:
        return False
    true = {condition.type for condition in status.conditions if condition.status == "True"}
    return true.issuperset(result.binding_conditions)


def _device_status(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    """Return the status that the driver reports for a device; of two shares of one, of either."""
    device = (result.driver, result.pool, result.device)
    return next((each for each in claim.status.devices if (each.driver, each.pool, each.device) == device), None)
