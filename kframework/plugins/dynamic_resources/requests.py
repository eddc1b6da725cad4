"""The requests of claims, one entry for each way to satisfy a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

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
from kframework.plugins.dynamic_resources.slices import AppliedTaint, PoolDevice

#: The maximum number of devices of a claim.
MAX_RESULTS = 32


class Classes(Protocol):
    """Device classes by name: a store of them, or a dict."""

    def get(self, name: str, /) -> DeviceClass | None: ...


class RequestOption:
    """One way to satisfy a request of a claim: the request itself, or one of its alternatives.

    `name` is its name in results, `parent/sub` for an alternative; `count` is unused if it requests `all`.
    """

    def __init__(
        self,
        claim: ResourceClaim,
        request: DeviceRequest,
        spec: ExactDeviceRequest | DeviceSubRequest,
        device_class: DeviceClass,
        index: int,
    ) -> None:
        self.claim: ResourceClaim = claim
        #: The number of ways preferred to this one.
        self.index: int = index
        self.device_class: DeviceClass = device_class
        self.request: str = request.name
        self.subrequest: str = spec.name if isinstance(spec, DeviceSubRequest) else ""
        self.name: str = f"{self.request}/{self.subrequest}" if self.subrequest else self.request
        self.admin: bool = isinstance(spec, ExactDeviceRequest) and bool(spec.admin_access)
        self.selectors: tuple[DeviceSelector, ...] = spec.selectors
        self.tolerations: tuple[DeviceToleration, ...] = spec.tolerations
        self.capacity: Mapping[str, RawQuantity] = spec.capacity.requests if spec.capacity is not None else {}
        self.all: bool = spec.allocation_mode == "All"
        self.count: int = spec.count

    def tolerates(self, device: PoolDevice) -> bool:
        return not (device.taints and self.untolerated(device))

    def untolerated(self, device: PoolDevice) -> list[AppliedTaint]:
        return [each for each in device.taints if not any(_tolerates(one, each.taint) for one in self.tolerations)]

    def error(self, text: str) -> AllocationError:
        return AllocationError(f"claim {claim_key(self.claim)}, request {self.subrequest or self.request}: {text}")


#: The ways to satisfy each request, by claim and request, the preferred one first.
ClaimsOptions = Sequence[Sequence[tuple[RequestOption, ...]]]


def claim_key(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def claims_options(claims: Iterable[ResourceClaim], classes: Classes) -> ClaimsOptions:
    """Return the requests by claim, request and way; AllocationError for an invalid one."""
    return [[request_options(claim, request, classes) for request in claim.spec.devices.requests] for claim in claims]


def request_options(claim: ResourceClaim, request: DeviceRequest, classes: Classes) -> tuple[RequestOption, ...]:
    """Return the ways to satisfy a request, the preferred one first; AllocationError for an invalid one."""
    specs: Sequence[ExactDeviceRequest | DeviceSubRequest] = request.first_available
    if not specs and request.exactly is not None:
        specs = (request.exactly,)
    if not specs:
        raise AllocationError(f"claim {claim_key(claim)}, request {request.name}: unknown request type")
    return tuple(_create_option(claim, request, each, classes, index) for index, each in enumerate(specs))


def _create_option(
    claim: ResourceClaim,
    request: DeviceRequest,
    spec: ExactDeviceRequest | DeviceSubRequest,
    classes: Classes,
    index: int,
) -> RequestOption:
    name = spec.name if isinstance(spec, DeviceSubRequest) else request.name
    where = f"claim {claim_key(claim)}, request {name}"
    for number, selector in enumerate(spec.selectors):
        if selector.cel is None:
            text = f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(text)
    if not spec.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    device_class = classes.get(spec.device_class_name)
    if device_class is None:
        missing = f'deviceclass.resource.k8s.io "{spec.device_class_name}" not found'
        raise AllocationError(f"{where}: could not retrieve device class {spec.device_class_name}: {missing}")
    if spec.allocation_mode not in ("ExactCount", "All"):
        raise AllocationError(f"{where}: unsupported count mode {spec.allocation_mode}")
    return RequestOption(claim, request, spec, device_class, index)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
