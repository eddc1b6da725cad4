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
from kframework.plugins.dynamic_resources.slices import PoolDevice

#: The maximum number of devices of a claim.
MAX_RESULTS = 32


class Classes(Protocol):
    """Device classes by name: a store of them, or a dict."""

    def get(self, name: str, /) -> DeviceClass | None:
        """Return the class of this name, or None."""
        ...


class Asked:
    """One way to satisfy a request of a claim: the request itself, or one of its alternatives.

    `name` is its name in results, `parent/sub` for an alternative; `count` is unused if it requests `all`.
    """

    def __init__(
        self,
        claim: ResourceClaim,
        request: DeviceRequest,
        said: ExactDeviceRequest | DeviceSubRequest,
        within: DeviceClass,
        place: int,
    ) -> None:
        self.claim: ResourceClaim = claim
        #: The number of ways preferred to this one.
        self.place: int = place
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

    def tolerates(self, device: PoolDevice) -> bool:
        """Return whether it tolerates all taints of the device."""
        return all(any(_tolerates(each, taint) for each in self.tolerations) for taint in device.taints)

    def untolerated(self, device: PoolDevice) -> list[DeviceTaint]:
        """Return the device's taints that it does not tolerate."""
        return [taint for taint in device.taints if not any(_tolerates(each, taint) for each in self.tolerations)]

    def problem(self, text: str) -> AllocationError:
        """Return an error about the request."""
        return AllocationError(f"claim {key_of(self.claim)}, request {self.subrequest or self.request}: {text}")


#: The ways to satisfy each request, by claim and request, the preferred one first.
AskedOfAll = Sequence[Sequence[tuple[Asked, ...]]]


def key_of(claim: ResourceClaim) -> str:
    """Name a claim."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def asked_of_all(claims: Iterable[ResourceClaim], classes: Classes) -> AskedOfAll:
    """Return the requests by claim, request and way; AllocationError for an invalid one."""
    return [[asked_of(claim, request, classes) for request in claim.spec.devices.requests] for claim in claims]


def asked_of(claim: ResourceClaim, request: DeviceRequest, classes: Classes) -> tuple[Asked, ...]:
    """Return the ways to satisfy a request, the preferred one first; AllocationError for an invalid one."""
    said: Sequence[ExactDeviceRequest | DeviceSubRequest] = request.first_available
    if not said and request.exactly is not None:
        said = (request.exactly,)
    if not said:
        raise AllocationError(f"claim {key_of(claim)}, request {request.name}: unknown request type")
    return tuple(_asked(claim, request, each, classes, place) for place, each in enumerate(said))


def _asked(
    claim: ResourceClaim,
    request: DeviceRequest,
    said: ExactDeviceRequest | DeviceSubRequest,
    classes: Classes,
    place: int,
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
    return Asked(claim, request, said, within, place)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
