"""The scheduler's writes to claims: allocations, reservations, and their removal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Literal, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from kframework.clock import rfc3339
from kframework.errors import ClusterError
from kframework.framework.handle import Handle
from kframework.objects import (
    AllocationResult,
    ContainerExtendedResourceRequest,
    Pod,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kframework.objects.resource_claims import DELETE_PROTECTION
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.errors import ClaimWriteError, WaitResult
from kframework.plugins.dynamic_resources.pod_claims import is_reserved_for
from kframework.plugins.dynamic_resources.requests import claim_key
from kframework.state.pods import PodInfo

T = TypeVar("T")

_log = logging.getLogger(__name__)

DELETED = "claim {} got deleted in the meantime"
DEALLOCATED = "claim {} got deallocated elsewhere in the meantime"

#: The number of tries on conflicts, the pause before the next try in seconds, and its jitter.
_MAX_TRIES, _PAUSE, _JITTER = 5, 0.01, 0.1
#: A request without an answer is repeated until there is one: each pause is five times the previous, up to the last.
_FIRST_PAUSE, _LAST_PAUSE = 0.01, 10.0

#: The maximum interval between checks whether the watch has shown a write, in seconds.
_MAX_POLL_INTERVAL = 1.0

_NOT_FOUND, _CONFLICT, _TOO_MANY_REQUESTS = 404, 409, 429
#: A server that has just started denies everything until it has read its roles.
_DENIALS = 401, 403


CreationResult = Literal["success", "failure"]


class DeviceObserver:
    """The base of observers of claims; it does nothing."""

    def on_creation(self, result: CreationResult) -> None:
        """Receive the outcome of creating a claim for extended resources."""

    def on_wait_end(self, claims: Sequence[ResourceClaim], result: WaitResult, seconds: float) -> None:
        """Receive the outcome of waiting for a pod's claims that have binding conditions."""


class _ClaimLock(asyncio.Lock):
    """The turns to write one claim, and the claim as written in the turn before; None before the first one."""

    written: ResourceClaim | None = None


class ClaimWrites:
    """A writer of claims through the API, each at the version it was read, so that no other write is lost.

    A write without an answer may have been done, or be done later. If its devices were given to other claims meanwhile,
    two claims would have them; so it is repeated until there is an answer. It names the resource version, and is done
    at most once.

    Reservations of a claim are written one after another: a pending removal, with or without deallocation, must not
    affect the reservation of a later attempt.
    """

    def __init__(self, handle: Handle) -> None:
        self.observer: DeviceObserver = DeviceObserver()
        self._handle = handle
        self._claims = handle.objects(ResourceClaim)
        #: A separate generator: draws between two cycles do not happen in a replay.
        self._random = Random(handle.random.getrandbits(64))
        #: Locks by the uids of claims; kept while a write runs or waits.
        self._locks: WeakValueDictionary[str, _ClaimLock] = WeakValueDictionary()

    def write_in_background(self, write: Callable[[], Awaitable[object]]) -> None:
        """Begin a write that is not awaited; a failure is logged, and repaired when the pod is retried."""
        self._handle.spawn(_log_failure(write))

    async def bind(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumer: ResourceClaimConsumerReference
    ) -> ResourceClaim:
        """Reserve a claim for a pod or its PodGroup, allocating it if necessary, and return it as written.

        ClaimWriteError if that is impossible; then it is not done later either.
        """
        allocated = results_of(claim)

        async def write(current: ResourceClaim) -> ResourceClaim:
            if allocation is None and current.status.allocation is not None and results_of(current) != allocated:
                # kube-scheduler reserves the new allocation, possibly on nodes that cannot access it.
                raise ClaimWriteError(f"claim {claim_key(current)} got allocated elsewhere in the meantime")
            # A write without an answer may have been done; and pods of a group share an allocation.
            missing = None if allocation == _without_time(current.status.allocation) else allocation
            if is_reserved_for(current, consumer.uid) and missing is None:
                return current
            _check_claim(current, missing)
            if missing is not None:
                current = await self._add_finalizer(current)
            return await self._reserve(current, missing, consumer)

        lock = self._lock(claim)
        async with lock:
            if lock.written is not None and _version(lock.written) > _version(claim):
                claim = lock.written
            elif is_reserved_for(claim, consumer.uid):
                # Or was: its removal may have been answered before it was seen.
                claim = await self._get(f"get claim {claim_key(claim)}", claim)
            lock.written = await self._retry_on_conflict(claim, write)
            return lock.written

    def _lock(self, claim: ResourceClaim) -> _ClaimLock:
        return self._locks.setdefault(claim.metadata.uid, _ClaimLock())

    async def unreserve(self, claim: ResourceClaim, uid: str) -> None:
        """Remove a pod or a PodGroup from the users of a claim; its allocation is kept."""

        async def write(current: ResourceClaim) -> ResourceClaim:
            users = [each for each in current.status.reserved_for if each.uid != uid]
            if len(users) == len(current.status.reserved_for):
                return current
            return await self._write_status(
                current, {"reservedFor": users or None}, f"unreserve claim {claim_key(current)}"
            )

        lock = self._lock(claim)
        async with lock:
            lock.written = await self._retry_on_conflict(claim, write)

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Deallocate a claim without other users; ClaimWriteError if it has changed meanwhile."""
        nothing = {"allocation": None, "reservedFor": None, "devices": None}
        lock = self._lock(claim)
        async with lock:  # `bind` writes nothing if it finds the claim reserved
            lock.written = await self._write_status(claim, nothing, f"deallocate claim {claim_key(claim)}")

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create the claim for extended resources and return it as stored; ClaimWriteError if refused."""
        what = f"create claim for extended resources {claim_key(claim)}"
        try:
            created = await self._convert_error(what, self._handle.api.create(claim))
        except ClaimWriteError:
            self.observer.on_creation("failure")
            raise
        self.observer.on_creation("success")
        return created

    async def write_pod_status(
        self, pod: PodInfo, claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        if not mappings:
            what = f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
            raise ClaimWriteError(what)
        status = {"requestMappings": msgspec.to_builtins(mappings), "resourceClaimName": claim.metadata.name}
        patch, api = {"extendedResourceClaimStatus": status}, self._handle.api
        what = f"update pod {pod.key} ExtendedResourceClaimStatus"
        await self._repeat_until_answered(
            what, lambda: api.patch_status(Pod, pod.name, patch, pod.namespace, uid=pod.uid)
        )

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim, even if allocated."""

        async def write(current: ResourceClaim) -> ResourceClaim:
            rest = [each for each in current.metadata.finalizers if each != DELETE_PROTECTION]
            return await self._write_finalizers(current, rest, f"update resourceclaim {claim_key(current)}")

        metadata = (await self._retry_on_conflict(claim, write)).metadata
        what = f"delete resourceclaim {claim_key(claim)}"
        deletion = self._handle.api.delete(ResourceClaim, metadata.name, metadata.namespace, uid=metadata.uid)
        await self._convert_error(what, deletion)

    # -- waiting for the watch -----------------------------------------------------------------------------------------

    async def wait_until_seen(self, written: ResourceClaim) -> None:
        """Wait until the watch shows a claim at this or a later version, or its deletion.

        A claim that was created and deleted before the watch saw it never appears, so the API is read too.
        """
        pause = 0.0
        metadata = written.metadata
        while True:
            seen = self._claims.get(metadata.name, metadata.namespace)
            if seen is not None and (seen.metadata.uid != metadata.uid or _version(seen) >= _version(written)):
                return
            if pause == _MAX_POLL_INTERVAL and await self._is_deleted(written):
                return
            await asyncio.sleep(pause)
            pause = min(10 * pause or 0.01, _MAX_POLL_INTERVAL)

    async def _is_deleted(self, written: ResourceClaim) -> bool:
        metadata = written.metadata
        if self._claims.get(metadata.name, metadata.namespace) is not None:
            return False  # its deletion will be shown
        try:
            now = await self._get(f"get claim {claim_key(written)}", written)
        except ClaimWriteError as error:
            if error.status not in (_NOT_FOUND, *_DENIALS):
                raise
            return error.status == _NOT_FOUND
        return now.metadata.uid != metadata.uid

    # -- one write -----------------------------------------------------------------------------------------------------

    async def _add_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        """Add the finalizer that keeps a claim until its devices are released."""
        if DELETE_PROTECTION in claim.metadata.finalizers:
            return claim
        finalizers = [*claim.metadata.finalizers, DELETE_PROTECTION]
        return await self._write_finalizers(claim, finalizers, f"add finalizer to claim {claim_key(claim)}")

    async def _reserve(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumer: ResourceClaimConsumerReference
    ) -> ResourceClaim:
        status: dict[str, object] = {"reservedFor": [*claim.status.reserved_for, consumer]}
        what = "reservation"
        if allocation is not None:
            what = "allocation and reservation"
            status["allocation"] = replace(allocation, allocation_timestamp=rfc3339(self._handle.clock.now()))
        return await self._write_status(claim, status, f"add {what} to claim {claim_key(claim)}")

    async def _write_finalizers(self, claim: ResourceClaim, finalizers: list[str], what: str) -> ResourceClaim:
        metadata = claim.metadata
        identity = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        patch = {"metadata": {**identity, "finalizers": finalizers or None}}
        api = self._handle.api
        return await self._repeat_until_answered(
            what, lambda: api.patch(ResourceClaim, metadata.name, patch, metadata.namespace)
        )

    async def _write_status(self, claim: ResourceClaim, status: Mapping[str, object], what: str) -> ResourceClaim:
        metadata, api, patch = claim.metadata, self._handle.api, msgspec.to_builtins(status)
        return await self._repeat_until_answered(
            what,
            lambda: api.patch_status(
                ResourceClaim,
                metadata.name,
                patch,
                metadata.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            ),
        )

    # -- retries -------------------------------------------------------------------------------------------------------

    async def _retry_on_conflict(
        self, claim: ResourceClaim, write: Callable[[ResourceClaim], Awaitable[ResourceClaim]]
    ) -> ResourceClaim:
        """Write a claim; after a conflict, write it again at its new version.

        A conflict may be with an earlier try of the same write that got no answer: the claim's new state shows that.
        """
        tries = 0
        while True:
            try:
                return await write(claim)
            except ClaimWriteError as error:
                tries += not error.in_doubt
                if error.status != _CONFLICT or tries == _MAX_TRIES:
                    raise
            await asyncio.sleep(_PAUSE * (1 + _JITTER * self._random.random()))
            before, claim = claim, await self._get(f"get updated claim {claim_key(claim)} after conflict", claim)
            if claim.metadata.uid != before.metadata.uid:
                raise ClaimWriteError(DELETED.format(claim_key(claim)))

    async def _get(self, what: str, claim: ResourceClaim) -> ResourceClaim:
        metadata, api = claim.metadata, self._handle.api
        return await self._repeat_until_answered(
            what, lambda: api.get(ResourceClaim, metadata.name, metadata.namespace)
        )

    async def _repeat_until_answered(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._convert_error(what, call())
            except ClaimWriteError as error:
                if 0 < error.status < 500 and error.status != _TOO_MANY_REQUESTS:
                    error.in_doubt = pause > _FIRST_PAUSE
                    raise
            await asyncio.sleep(pause)
            pause = min(5 * pause, _LAST_PAUSE)

    @staticmethod
    async def _convert_error(what: str, call: Awaitable[T]) -> T:
        try:
            return await call
        except ClusterError as error:
            raise ClaimWriteError(what, error) from error


def _check_claim(claim: ResourceClaim, allocation: AllocationResult | None) -> None:
    """Raise ClaimWriteError for a claim that cannot be reserved in its current state."""
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimWriteError(DELETED.format(claim_key(claim)))
    if allocation is not None and claim.status.allocation is not None:
        raise ClaimWriteError(f"claim {claim_key(claim)} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise ClaimWriteError(DEALLOCATED.format(claim_key(claim)))


def _version(claim: ResourceClaim) -> int:
    return int(claim.metadata.resource_version)


def _without_time(allocation: AllocationResult | None) -> AllocationResult | None:
    return None if allocation is None else replace(allocation, allocation_timestamp=None)


async def _log_failure(write: Callable[[], Awaitable[object]]) -> None:
    try:
        await write()
    except (ClaimWriteError, ClusterError) as problem:
        _log.warning("%s", problem)
