"""The holders of devices: the claims, and the pods that these are reserved for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices, results_of
from kframework.plugins.dynamic_resources.requests import key_of
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.objects import ObjectStore

K = TypeVar("K")


class Holder(msgspec.Struct, frozen=True):
    """A claim that has a device, and the pods that may use it, as `namespace/name`; none while these are written."""

    claim: str
    pods: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The pods, or else the claim, that hold the device."""
        return ", ".join(self.pods) or f"claim {self.claim}"


class DeviceHolders:
    """The claims with devices, by device and by the pods that use them, kept current from the first use on."""

    def __init__(self, claims: ObjectStore[ResourceClaim]) -> None:
        self._allocated = claims.index(AllocatedDevices)
        self._of: dict[DeviceId, dict[str, ResourceClaim]] = {}
        self._used_by: dict[str, dict[str, ResourceClaim]] = {}
        claims.follow(self._changed)

    def claims_with(self, device: DeviceId) -> Collection[ResourceClaim]:
        """Return the claims that have a device or a share of it in the cluster; without admin access."""
        return self._of.get(device, {}).values()

    def of(self, device: DeviceId) -> list[Holder]:
        """Return the holders of a device, including pending ones."""
        known = self._of.get(device, {})
        holders = [holder(claim) for claim in known.values()]
        return holders + [Holder(key) for key in self._allocated.about_to_get(device) if key not in known]

    def freed(self, gone: Collection[str]) -> list[ResourceClaim]:
        """Return the claims that lose pods with these uids, in their state afterwards: without users, without devices.

        This is what the ResourceClaim controller does to them.
        """
        concerned = {key_of(claim): claim for uid in gone for claim in self._used_by.get(uid, {}).values()}
        return [_without(claim, gone) for claim in concerned.values()]

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None:
            key = key_of(old)
            for device in _devices(old):
                _drop(self._of, device, key)
            for user in old.status.reserved_for:
                _drop(self._used_by, user.uid, key)
        if new is not None:
            key = key_of(new)
            for device in _devices(new):
                self._of.setdefault(device, {})[key] = new
            for user in new.status.reserved_for:
                self._used_by.setdefault(user.uid, {})[key] = new


def holder(claim: ResourceClaim) -> Holder:
    """Return a claim as the holder of its devices."""
    namespace = claim.metadata.namespace
    return Holder(key_of(claim), tuple(f"{namespace}/{user.name}" for user in claim.status.reserved_for))


def _devices(claim: ResourceClaim) -> Iterator[DeviceId]:
    held = (result for result in results_of(claim) if not result.admin_access)
    return (DeviceId(result.driver, result.pool, result.device) for result in held)


def _without(claim: ResourceClaim, gone: Collection[str]) -> ResourceClaim:
    users = tuple(user for user in claim.status.reserved_for if user.uid not in gone)
    allocation = claim.status.allocation if users else None
    return replace(claim, status=replace(claim.status, reserved_for=users, allocation=allocation))


def _drop(of: dict[K, dict[str, ResourceClaim]], what: K, key: str) -> None:
    """Remove a claim; it may have had several shares of a device."""
    claims = of.get(what, {})
    claims.pop(key, None)
    if not claims:
        of.pop(what, None)
