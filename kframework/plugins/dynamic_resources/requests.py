"""What claims ask for, one entry for each way to satisfy a request."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.objects import (
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    RawQuantity,
    ResourceClaim,
)
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.slices import PoolDevice

#: How many devices one claim can have.
MAX_RESULTS = 32


class Asked:
    """One way to satisfy a request of a claim: the request itself, or one of several that it lists.

    `name` is what results call it, `parent/sub` for one of several. `devices` are all that a request for all gets.
    """

    def __init__(
        self,
        claim: ResourceClaim,
        request: DeviceRequest,
        said: ExactDeviceRequest | DeviceSubRequest,
        within: DeviceClass,
    ) -> None:
        self.claim: ResourceClaim = claim
        self.device_class: DeviceClass = within
        self.request: str = request.name
        self.subrequest: str = said.name if isinstance(said, DeviceSubRequest) else ""
        self.name: str = f"{self.request}/{self.subrequest}" if self.subrequest else self.request
        self.admin: bool = isinstance(said, ExactDeviceRequest) and bool(said.admin_access)
        self.selectors: tuple[DeviceSelector, ...] = said.selectors
        self.tolerations: tuple[DeviceToleration, ...] = said.tolerations
        self.capacity: Mapping[str, RawQuantity] = said.capacity.requests if said.capacity is not None else {}
        self.all: bool = said.allocation_mode == "All"
        self.count: int = said.count
        self.devices: tuple[PoolDevice, ...] = ()

    def tolerates(self, device: PoolDevice) -> bool:
        """Return whether it puts up with all taints that keep claims from the device."""
        return all(any(_tolerates(each, taint) for each in self.tolerations) for taint in device.taints)

    def problem(self, text: str) -> AllocationError:
        """Say what is wrong with the request."""
        return AllocationError(f"claim {key_of(self.claim)}, request {self.subrequest or self.request}: {text}")


def key_of(claim: ResourceClaim) -> str:
    """Name a claim."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def asked_of(claim: ResourceClaim, request: DeviceRequest, classes: Mapping[str, DeviceClass]) -> tuple[Asked, ...]:
    """Return the ways to satisfy a request, the preferred one first; AllocationError where one makes no sense."""
    said = request.first_available or ((request.exactly,) if request.exactly is not None else ())
    if not said:
        raise AllocationError(f"claim {key_of(claim)}, request {request.name}: unknown request type")
    return tuple(_asked(claim, request, each, classes) for each in said)


def _asked(
    claim: ResourceClaim,
    request: DeviceRequest,
    said: ExactDeviceRequest | DeviceSubRequest,
    classes: Mapping[str, DeviceClass],
) -> Asked:
    name = said.name if isinstance(said, DeviceSubRequest) else request.name
    where = f"claim {key_of(claim)}, request {name}"
    for index, selector in enumerate(said.selectors):
        if selector.cel is None:
            text = f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(text)
    if not said.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    within = classes.get(said.device_class_name)
    if within is None:
        missing = f'deviceclass.resource.k8s.io "{said.device_class_name}" not found'
        raise AllocationError(f"{where}: could not retrieve device class {said.device_class_name}: {missing}")
    if said.allocation_mode not in ("ExactCount", "All"):
        raise AllocationError(f"{where}: unsupported count mode {said.allocation_mode}")
    return Asked(claim, request, said, within)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
