"""The holders of devices: the claims, and the pods and PodGroups that these are reserved for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices, results_of
from kframework.plugins.dynamic_resources.requests import claim_key
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.objects import ObjectStore

K = TypeVar("K")


class DeviceHolder(msgspec.Struct, frozen=True):
    """A claim that has a device, and the pods and PodGroups that may use it; none while these are written.

    All are named as `namespace/name`.
    """

    claim: str
    pods: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The pods and groups, or else the claim, that hold the device."""
        return ", ".join((*self.pods, *(f"PodGroup {group}" for group in self.groups))) or f"claim {self.claim}"


class DeviceHolders:
    """The claims with devices, by device and by the pods that use them, kept current from the first use on."""

    def __init__(self, claims: ObjectStore[ResourceClaim]) -> None:
        self._allocated = claims.index(AllocatedDevices)
        self._by_device: dict[DeviceId, dict[str, ResourceClaim]] = {}
        self._by_user: dict[str, dict[str, ResourceClaim]] = {}
        claims.follow(self._on_change)

    def claims_with(self, device: DeviceId) -> Collection[ResourceClaim]:
        """Return the claims that have a device or a share of it in the cluster; without admin access."""
        return self._by_device.get(device, {}).values()

    def holders_of(self, device: DeviceId) -> list[DeviceHolder]:
        """Return the holders of a device, including pending ones."""
        claims = self._by_device.get(device, {})
        holders = [holder_of(claim) for claim in claims.values()]
        return holders + [DeviceHolder(key) for key in self._allocated.pending_claims(device) if key not in claims]

    def without_users(self, removed: Collection[str]) -> list[ResourceClaim]:
        """Return the claims that lose pods with these uids, in their state afterwards: without users, without devices.

        This is what the ResourceClaim controller does to them.
        """
        claims = {claim_key(claim): claim for uid in removed for claim in self._by_user.get(uid, {}).values()}
        return [_without_users(claim, removed) for claim in claims.values()]

    def _on_change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None:
            key = claim_key(old)
            for device in _devices(old):
                _drop(self._by_device, device, key)
            for user in old.status.reserved_for:
                _drop(self._by_user, user.uid, key)
        if new is not None:
            key = claim_key(new)
            for device in _devices(new):
                self._by_device.setdefault(device, {})[key] = new
            for user in new.status.reserved_for:
                self._by_user.setdefault(user.uid, {})[key] = new


def holder_of(claim: ResourceClaim) -> DeviceHolder:
    names: dict[str, list[str]] = {}
    for user in claim.status.reserved_for:
        names.setdefault(user.resource, []).append(f"{claim.metadata.namespace}/{user.name}")
    return DeviceHolder(claim_key(claim), tuple(names.get("pods", ())), tuple(names.get("podgroups", ())))


def _devices(claim: ResourceClaim) -> Iterator[DeviceId]:
    held = (result for result in results_of(claim) if not result.admin_access)
    return (DeviceId(result.driver, result.pool, result.device) for result in held)


def _without_users(claim: ResourceClaim, removed: Collection[str]) -> ResourceClaim:
    users = tuple(user for user in claim.status.reserved_for if user.uid not in removed)
    allocation = claim.status.allocation if users else None
    return replace(claim, status=replace(claim.status, reserved_for=users, allocation=allocation))


def _drop(index: dict[K, dict[str, ResourceClaim]], what: K, key: str) -> None:
    """Remove a claim; it may have had several shares of a device."""
    claims = index.get(what, {})
    claims.pop(key, None)
    if not claims:
        index.pop(what, None)
