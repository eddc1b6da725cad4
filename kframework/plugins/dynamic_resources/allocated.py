"""The devices allocated to claims, in the cluster and in pending writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kframework.objects import DeviceRequestAllocationResult, ResourceClaim
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.allocator import Allocated
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.log import Log
from kframework.state.objects import ObjectStore

Results = tuple[DeviceRequestAllocationResult, ...]

#: Namespace, name and uid of a claim.
ClaimId = tuple[str, str, str]

#: The uid of a claim that is not created yet, identified by its name.
_NOT_MADE_YET = ""

#: The number of logged changes.
_CHANGES = 4096


class AllocatedDevices(Allocated):
    """The devices of all claims, kept current; admin access does not count.

    Allocations that the watch has not shown yet are pending (kube-scheduler's allocations in flight). They end only by
    messages to the engine, because a replay has nothing else. `log` lists the devices allocated or released.
    """

    def __init__(self, claims: ObjectStore[ResourceClaim]) -> None:
        self.log: Log[DeviceId] = Log(_CHANGES)
        self._pending: dict[ClaimId, Results] = {}
        #: The counted devices of the claims.
        self._held: dict[ClaimId, Results] = {}
        self._counts = _Counts()
        claims.follow(self._changed)

    def is_dedicated(self, device: DeviceId) -> bool:
        return self._counts.whole.get(device, 0) > 0

    def is_in_use(self, device: DeviceId) -> bool:
        return device in self._counts.whole or device in self._counts.shares

    def taken(self, device: DeviceId) -> Mapping[str, int]:
        return self._counts.capacity.get(device, _NOTHING)

    def without(self, results: Iterable[DeviceRequestAllocationResult]) -> Allocated:
        """Return the allocations as if these devices were released."""
        freed = _Counts()
        for result in results:
            freed.add(result, 1)
        return _Without(self._counts, freed)

    def is_pending(self, claim: ResourceClaim) -> bool:
        """Return whether a claim has a pending allocation."""
        return _id(claim) in self._pending

    def about_to_get(self, device: DeviceId) -> Iterator[str]:
        """Yield the claims, as `namespace/name`, that are about to get a device."""
        for (namespace, name, _), results in self._pending.items():
            if any(DeviceId(each.driver, each.pool, each.device) == device for each in results):
                yield f"{namespace}/{name}"

    def reserve(self, claim: ResourceClaim) -> None:
        """Record a claim's devices until the watch shows them; a claim without a uid is not created yet."""
        self._pending[_id(claim)] = results_of(claim)
        self._hold(_id(claim), results_of(claim))

    def awaits(self, claim: ResourceClaim) -> bool:
        """Return whether the watch has not shown this reservation yet."""
        return self._pending.get(_id(claim)) is results_of(claim)

    def release(self, claim: ResourceClaim) -> None:
        """Undo this reservation; no effect if the watch has shown it, or another one replaced it."""
        if self.awaits(claim):
            self._forget(_id(claim))

    def _forget(self, claim: ClaimId) -> None:
        if self._pending.pop(claim, None) is not None:
            self._hold(claim, ())

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before, after = None if old is None else _id(old), None if new is None else _id(new)
        if before is not None and before != after:
            self._forget(before)
            self._hold(before, ())
        if new is not None and after is not None:
            if new.status.allocation is not None:
                self._pending.pop(after, None)
            self._hold(after, results_of(new) or self._pending.get(after, ()))
            if new.status.allocation is not None:
                self._forget((*after[:2], _NOT_MADE_YET))

    def _hold(self, claim: ClaimId, results: Results) -> None:
        before = self._held.get(claim, ())
        if results == before:
            return
        if results:
            self._held[claim] = results
        else:
            del self._held[claim]
        for result in before:
            self._counts.add(result, -1)
        for result in results:
            self._counts.add(result, 1)
        for each in (*before, *results):
            self.log.append(DeviceId(each.driver, each.pool, each.device))


class _Counts:
    """The allocations of each device, exclusive and shared, and its consumed capacity, in nanos.

    More than one exclusive allocation is an error of another component, but each must be released.
    """

    def __init__(self) -> None:
        self.whole: dict[DeviceId, int] = {}
        self.shares: dict[DeviceId, int] = {}
        self.capacity: dict[DeviceId, dict[str, int]] = {}

    def add(self, result: DeviceRequestAllocationResult, sign: int) -> None:
        """Count a result in or out."""
        if result.admin_access:
            return
        device = DeviceId(result.driver, result.pool, result.device)
        if result.share_id is None:
            _add(self.whole, device, sign)
            return
        _add(self.shares, device, sign)
        amounts = self.capacity.setdefault(device, {})
        for name, amount in result.consumed_capacity.items():
            _add(amounts, name, sign * nano(amount))
        if not amounts:
            del self.capacity[device]


class _Without(Allocated):
    def __init__(self, counts: _Counts, freed: _Counts) -> None:
        self._counts = counts
        self._freed = freed

    def is_dedicated(self, device: DeviceId) -> bool:
        return self._counts.whole.get(device, 0) > self._freed.whole.get(device, 0)

    def is_in_use(self, device: DeviceId) -> bool:
        return self.is_dedicated(device) or self._counts.shares.get(device, 0) > self._freed.shares.get(device, 0)

    def taken(self, device: DeviceId) -> Mapping[str, int]:
        taken, freed = self._counts.capacity.get(device, _NOTHING), self._freed.capacity.get(device, _NOTHING)
        left = {name: amount - freed.get(name, 0) for name, amount in taken.items()}
        return {name: amount for name, amount in left.items() if amount}


_NOTHING: Mapping[str, int] = {}


def _add(counts: dict[DeviceId, int] | dict[str, int], key: object, amount: int) -> None:
    """Add to a count; one of nothing is not kept."""
    known: dict[object, int] = counts  # type: ignore[assignment]  # the key types differ
    left = known.get(key, 0) + amount
    if left:
        known[key] = left
    else:
        known.pop(key, None)


def _id(claim: ResourceClaim) -> ClaimId:
    metadata = claim.metadata
    return metadata.namespace, metadata.name, metadata.uid


def results_of(claim: ResourceClaim) -> Results:
    """Return the devices that a claim has got."""
    return () if claim.status.allocation is None else claim.status.allocation.devices.results
