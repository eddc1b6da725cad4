"""Which devices claims have, as the cluster says and as is assumed."""

from __future__ import annotations

from collections.abc import Mapping, Set

from kframework.objects import DeviceRequestAllocationResult, ResourceClaim
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.allocator import Allocated
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.objects import ObjectStore


class AllocatedDevices(Allocated):
    """The devices of all claims, kept current; whoever only administers a device does not have it."""

    def __init__(self, claims: ObjectStore[ResourceClaim]) -> None:
        #: How often each device is allocated as a whole, and how often in shares: more than once only by mistake of
        #: others, but each must be given back.
        self._whole: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self._capacity: dict[DeviceId, dict[str, int]] = {}
        claims.follow(self._changed)

    @property
    def dedicated(self) -> Set[DeviceId]:
        return self._whole.keys()

    @property
    def capacity(self) -> Mapping[DeviceId, Mapping[str, int]]:
        return self._capacity

    def is_in_use(self, device: DeviceId) -> bool:
        return device in self._whole or device in self._shares

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before, after = _results(old), _results(new)
        if before is not after:
            for result in before:
                self._count(result, -1)
            for result in after:
                self._count(result, 1)

    def _count(self, result: DeviceRequestAllocationResult, sign: int) -> None:
        if result.admin_access:
            return
        device = DeviceId(result.driver, result.pool, result.device)
        if result.share_id is None:
            _add(self._whole, device, sign)
            return
        _add(self._shares, device, sign)
        amounts = self._capacity.setdefault(device, {})
        for name, amount in result.consumed_capacity.items():
            _add(amounts, name, sign * nano(amount))
        if not amounts:
            del self._capacity[device]

    def __repr__(self) -> str:
        return f"<AllocatedDevices {len(self._whole)} whole, {len(self._shares)} in shares>"


def _add(counts: dict[DeviceId, int] | dict[str, int], key: object, amount: int) -> None:
    """Add to a count; one of nothing is not kept."""
    known: dict[object, int] = counts  # type: ignore[assignment]  # whatever the keys are
    left = known.get(key, 0) + amount
    if left:
        known[key] = left
    else:
        known.pop(key, None)


def _results(claim: ResourceClaim | None) -> tuple[DeviceRequestAllocationResult, ...]:
    return () if claim is None or claim.status.allocation is None else claim.status.allocation.devices.results
