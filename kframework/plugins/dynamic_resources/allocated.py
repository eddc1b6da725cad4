"""The devices allocated to claims, in the cluster and in pending writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from kframework.framework.cycle_state import CycleState
from kframework.objects import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.allocator import Allocations
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.log import Log
from kframework.state.objects import ObjectStore

Results = tuple[DeviceRequestAllocationResult, ...]

#: Namespace, name and uid of a claim.
ClaimId = tuple[str, str, str]

#: The uid of a claim that is not created yet, identified by its name.
_NOT_CREATED = ""

#: The number of logged changes.
_LOG_SIZE = 4096


class _PendingAllocation:
    """An allocation that the watch has not shown yet: the pods that hold it, and what those of a PodGroup share."""

    def __init__(self, allocation: AllocationResult, group_state: CycleState | None) -> None:
        self.allocation = allocation
        self.group_state = group_state
        self.pods = 1


class AllocatedDevices(Allocations):
    """The devices of all claims, kept current; admin access does not count.

    Allocations that the watch has not shown yet are pending (kube-scheduler's allocations in flight). They end only by
    messages to the engine, because a replay has nothing else. The pods of a PodGroup share them while nodes are looked
    for; the last one to give it back releases it. `log` lists the devices allocated or released.
    """

    def __init__(self, claims: ObjectStore[ResourceClaim]) -> None:
        self.log: Log[DeviceId] = Log(_LOG_SIZE)
        self._pending: dict[ClaimId, _PendingAllocation] = {}
        #: The counted devices of the claims.
        self._devices: dict[ClaimId, Results] = {}
        self._counts = _Counts()
        self._undo_log = claims.undo_log
        claims.follow(self._on_change)

    def is_dedicated(self, device: DeviceId) -> bool:
        return device in self._counts.exclusive  # a count of none is not kept

    def is_in_use(self, device: DeviceId) -> bool:
        return device in self._counts.exclusive or device in self._counts.shares

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int]:
        return self._counts.capacity.get(device, _NO_CAPACITY)

    def as_if_released(self, results: Iterable[DeviceRequestAllocationResult]) -> Allocations:
        released = _Counts()
        for result in results:
            released.add(result, 1)
        return _WithoutReleased(self._counts, released)

    def is_pending(self, claim: ResourceClaim) -> bool:
        return _claim_id(claim) in self._pending

    def pending_claims(self, device: DeviceId) -> Iterator[str]:
        """Yield the claims, as `namespace/name`, that are about to get a device."""
        for (namespace, name, _), pending in self._pending.items():
            results = pending.allocation.devices.results
            if any(DeviceId(each.driver, each.pool, each.device) == device for each in results):
                yield f"{namespace}/{name}"

    def shared_allocation(self, claim: ResourceClaim, group_state: CycleState | None) -> AllocationResult | None:
        """Return the pending allocation that pods of the same PodGroup hold, in the same walk; None without one."""
        pending = self._pending.get(_claim_id(claim)) if group_state is not None else None
        return pending.allocation if pending is not None and pending.group_state is group_state else None

    def reserve(self, claim: ResourceClaim, group_state: CycleState | None = None) -> None:
        """Record a claim's devices until the watch shows them; a claim without a uid is not created yet."""
        if self.is_unconfirmed(claim):
            self._add_holder(_claim_id(claim), 1)
        elif claim.status.allocation is not None:
            self._set_pending(_claim_id(claim), _PendingAllocation(claim.status.allocation, group_state))

    def is_unconfirmed(self, claim: ResourceClaim) -> bool:
        """Return whether the watch has not shown this reservation yet."""
        pending = self._pending.get(_claim_id(claim))
        return pending is not None and pending.allocation is claim.status.allocation

    def release(self, claim: ResourceClaim) -> None:
        """Undo a pod's reservation; no effect if the watch has shown it, or another one replaced it."""
        if self.is_unconfirmed(claim):
            self._add_holder(_claim_id(claim), -1)
            if not self._pending[_claim_id(claim)].pods:
                self._set_pending(_claim_id(claim), None)

    def _add_holder(self, claim: ClaimId, pods: int) -> None:
        self._pending[claim].pods += pods
        if self._undo_log.is_open:
            self._undo_log.record(partial(self._add_holder, claim, -pods), partial(self._add_holder, claim, pods))

    def _set_pending(self, claim: ClaimId, pending: _PendingAllocation | None) -> None:
        """Begin or end a pending allocation."""
        before = self._pending.get(claim), self._devices.get(claim, ())
        after = pending, () if pending is None else pending.allocation.devices.results
        self._replace_pending(claim, *after)
        if self._undo_log.is_open:
            replace = partial(self._replace_pending, claim)
            self._undo_log.record(partial(replace, *before), partial(replace, *after))

    def _replace_pending(self, claim: ClaimId, pending: _PendingAllocation | None, results: Results) -> None:
        if pending is None:
            del self._pending[claim]
        else:
            self._pending[claim] = pending
        self._set_devices(claim, results)

    def _forget(self, claim: ClaimId) -> None:
        if self._pending.pop(claim, None) is not None:
            self._set_devices(claim, ())

    def _on_change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before, after = None if old is None else _claim_id(old), None if new is None else _claim_id(new)
        if before is not None and before != after:
            self._forget(before)
            self._set_devices(before, ())
        if new is not None and after is not None:
            if new.status.allocation is not None:
                self._pending.pop(after, None)
            pending = self._pending.get(after)
            self._set_devices(after, results_of(new) if pending is None else pending.allocation.devices.results)
            if new.status.allocation is not None:
                self._forget((*after[:2], _NOT_CREATED))

    def _set_devices(self, claim: ClaimId, results: Results) -> None:
        before = self._devices.get(claim, ())
        if results == before:
            return
        if results:
            self._devices[claim] = results
        else:
            del self._devices[claim]
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
        self.exclusive: dict[DeviceId, int] = {}
        self.shares: dict[DeviceId, int] = {}
        self.capacity: dict[DeviceId, dict[str, int]] = {}

    def add(self, result: DeviceRequestAllocationResult, sign: int) -> None:
        if result.admin_access:
            return
        device = DeviceId(result.driver, result.pool, result.device)
        if result.share_id is None:
            _add_to_count(self.exclusive, device, sign)
            return
        _add_to_count(self.shares, device, sign)
        amounts = self.capacity.setdefault(device, {})
        for name, amount in result.consumed_capacity.items():
            _add_to_count(amounts, name, sign * nano(amount))
        if not amounts:
            del self.capacity[device]


class _WithoutReleased(Allocations):
    def __init__(self, counts: _Counts, released: _Counts) -> None:
        self._counts = counts
        self._released = released

    def is_dedicated(self, device: DeviceId) -> bool:
        return self._counts.exclusive.get(device, 0) > self._released.exclusive.get(device, 0)

    def is_in_use(self, device: DeviceId) -> bool:
        return self.is_dedicated(device) or self._counts.shares.get(device, 0) > self._released.shares.get(device, 0)

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int]:
        consumed, released = (
            self._counts.capacity.get(device, _NO_CAPACITY),
            self._released.capacity.get(device, _NO_CAPACITY),
        )
        remaining = {name: amount - released.get(name, 0) for name, amount in consumed.items()}
        return {name: amount for name, amount in remaining.items() if amount}


_NO_CAPACITY: Mapping[str, int] = {}


def _add_to_count(counts: dict[DeviceId, int] | dict[str, int], key: object, amount: int) -> None:
    """Add to a count; one of nothing is not kept."""
    untyped: dict[object, int] = counts  # type: ignore[assignment]  # the key types differ
    count = untyped.get(key, 0) + amount
    if count:
        untyped[key] = count
    else:
        untyped.pop(key, None)


def _claim_id(claim: ResourceClaim) -> ClaimId:
    metadata = claim.metadata
    return metadata.namespace, metadata.name, metadata.uid


def results_of(claim: ResourceClaim) -> Results:
    return () if claim.status.allocation is None else claim.status.allocation.devices.results
