"""The faults of kube-scheduler 1.36.2's allocation of devices, for the answers that were recorded with them.

They make it miss devices that there are, or give some away that there are not (kubernetes/kubernetes#140436); ours does
not have them, and `docs/differences.md` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from kframework.objects import DeviceAttribute, DeviceRequestAllocationResult, ResourceClaim
from kframework.plugins.dynamic_resources.allocator import Allocated, Search
from kframework.plugins.dynamic_resources.constraints import Constraint, DistinctAttribute
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.slices import PoolDevice, PoolId


class FaultySearch(Search):
    """A search that loses counters and values.

    What a device takes of counters stays taken if a taint or a constraint then refuses the device, or if it is shared
    and given back. Counters are kept by the names of pools alone, whose drivers may be different ones.
    """

    def _counters_suffice(self, device: PoolDevice) -> bool:
        if not super()._counters_suffice(device):
            return False
        super()._count(device, 1)
        return True

    def _count(self, device: PoolDevice, sign: int) -> None:
        """Count what is given back; what is taken was counted when there turned out to be enough."""
        if sign < 0 and not device.shared:
            super()._count(device, sign)

    def _taken(self, pool: PoolId) -> dict[tuple[str, str], int]:
        return super()._taken(_by_name(pool))

    def _left(self, id: PoolId) -> dict[tuple[str, str], int]:
        known = self._available.get(_by_name(id))
        if known is None:
            known = self._available[_by_name(id)] = super()._left(id)
        return known

    def _constraints_of(self, claim: ResourceClaim) -> list[Constraint]:
        constraints = super()._constraints_of(claim)
        return [_Forgetful(each) if isinstance(each, DistinctAttribute) else each for each in constraints]


class FaultyDevices(Devices):
    """Devices that are lost, and that the victims of a preemption keep in its dry runs."""

    search_with: ClassVar[type[Search]] = FaultySearch

    def without(self, results: Iterable[DeviceRequestAllocationResult]) -> Allocated:
        return self.allocated


def _by_name(pool: PoolId) -> PoolId:
    return PoolId("", pool.pool)


class _Forgetful(Constraint):
    """Knows only the last value of each request, and none once a device of it has been taken out."""

    def __init__(self, whole: DistinctAttribute) -> None:
        self._whole = whole
        self._last: dict[str, DeviceAttribute] = {}

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        if not self._whole.concerns(request, subrequest):
            return True
        value = device.attribute(self._whole.attribute)
        if value is None or value in self._last.values():
            return False
        self._last[request] = value
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._whole.concerns(request, subrequest):
            self._last.pop(request, None)
