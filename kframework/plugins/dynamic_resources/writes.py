"""The scheduler's writes to claims: allocations, reservations, and their removal."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from kframework.clock import rfc3339
from kframework.errors import ClusterError
from kframework.framework.handle import Handle
from kframework.framework.suspendable import Suspendable, run_async, wait_for
from kframework.objects import (
    AllocationResult,
    ContainerExtendedResourceRequest,
    Pod,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kframework.objects.resource_claims import DELETE_PROTECTION
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.binding_conditions import devices_with_conditions
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


class _Turns:
    """The turns to write one claim: those that wait, and the claim as written in the turn before, None in the first."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.written: ResourceClaim | None = None


class ClaimWrites:
    """A writer of claims through the API, each at the version it was read, so that no other write is lost.

    A write without an answer may have been done, or be done later. If its devices were given to other claims meanwhile,
    two claims would have them; so it is repeated until there is an answer. It names the resource version, and is done
    at most once.

    Reservations of a claim are written one after another: a pending removal, with or without deallocation, must not
    affect the reservation of a later attempt.

    Writes are generators that yield only what must be awaited, so in memory they are plain calls.
    """

    def __init__(self, handle: Handle) -> None:
        self.observer: DeviceObserver = DeviceObserver()
        self._handle = handle
        self._claims = handle.objects(ResourceClaim)
        #: A separate generator: draws between two cycles do not happen in a replay.
        self._random = Random(handle.random.getrandbits(64))
        #: The turns by the uids of the claims that are being written.
        self._turns: dict[str, _Turns] = {}

    def write_in_background(self, write: Callable[[], Suspendable[object]]) -> None:
        """Begin a write that is not awaited; a failure is logged, and repaired when the pod is retried."""
        self._handle.spawn(_log_failure(write))

    def bind(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumer: ResourceClaimConsumerReference
    ) -> Suspendable[ResourceClaim]:
        """Reserve a claim for a pod or its PodGroup, allocating it if necessary, and return it as written.

        ClaimWriteError if that is impossible; then it is not done later either.
        """
        allocated = results_of(claim)

        def write(current: ResourceClaim) -> Suspendable[ResourceClaim]:
            if allocation is None and current.status.allocation is not None and results_of(current) != allocated:
                # kube-scheduler reserves the new allocation, possibly on nodes that cannot access it.
                raise ClaimWriteError(f"claim {claim_key(current)} got allocated elsewhere in the meantime")
            # A write without an answer may have been done; and pods of a group share an allocation.
            missing = None if allocation == _without_time(current.status.allocation) else allocation
            if is_reserved_for(current, consumer.uid) and missing is None:
                return current
            _check_claim(current, missing)
            if missing is not None:
                current = yield from self._add_finalizer(current)
            return (yield from self._reserve(current, missing, consumer))

        turns = yield from self._take_turn(claim)
        try:
            if turns.written is not None and _version(turns.written) > _version(claim):
                claim = turns.written
            elif is_reserved_for(claim, consumer.uid):
                # Or was: its removal may have been answered before it was seen.
                claim = yield from self._get(f"get claim {claim_key(claim)}", claim)
            turns.written = yield from self._retry_on_conflict(claim, write)
            return turns.written
        finally:
            self._end_turn(turns)

    def _take_turn(self, claim: ResourceClaim) -> Suspendable[_Turns]:
        """Wait until no other write of a claim is running."""
        uid = claim.metadata.uid
        turns = self._turns.get(uid)
        if turns is None:
            turns = self._turns[uid] = _Turns(uid)
            return turns
        turn = asyncio.get_running_loop().create_future()
        turns.waiting.append(turn)
        try:
            yield from wait_for(turn)
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._end_turn(turns)
            turn.cancel()
            raise
        return turns

    def _end_turn(self, turns: _Turns) -> None:
        """Let the next write of the claim begin."""
        while turns.waiting:
            turn = turns.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._turns[turns.uid]

    def unreserve(self, claim: ResourceClaim, uid: str) -> Suspendable[None]:
        """Remove a pod or a PodGroup from the users of a claim; its allocation is kept."""

        def write(current: ResourceClaim) -> Suspendable[ResourceClaim]:
            users = [each for each in current.status.reserved_for if each.uid != uid]
            if len(users) == len(current.status.reserved_for):
                return current
            return (
                yield from self._write_status(
                    current, {"reservedFor": users or None}, f"unreserve claim {claim_key(current)}"
                )
            )

        turns = yield from self._take_turn(claim)
        try:
            turns.written = yield from self._retry_on_conflict(claim, write)
        finally:
            self._end_turn(turns)

    def deallocate(self, claim: ResourceClaim) -> Suspendable[None]:
        """Deallocate a claim without other users; ClaimWriteError if it has changed meanwhile."""
        nothing = {"allocation": None, "reservedFor": None, "devices": None}
        turns = yield from self._take_turn(claim)  # `bind` writes nothing if it finds the claim reserved
        try:
            turns.written = yield from self._write_status(claim, nothing, f"deallocate claim {claim_key(claim)}")
        finally:
            self._end_turn(turns)

    def create(self, claim: ResourceClaim) -> Suspendable[ResourceClaim]:
        """Create the claim for extended resources and return it as stored; ClaimWriteError if refused."""
        what = f"create claim for extended resources {claim_key(claim)}"
        try:
            created = yield from self._call(what, self._handle.api.create(claim))
        except ClaimWriteError:
            self.observer.on_creation("failure")
            raise
        self.observer.on_creation("success")
        return created

    def write_pod_status(
        self, pod: PodInfo, claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> Suspendable[None]:
        if not mappings:
            what = f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
            raise ClaimWriteError(what)
        status = {"requestMappings": msgspec.to_builtins(mappings), "resourceClaimName": claim.metadata.name}
        patch, api = {"extendedResourceClaimStatus": status}, self._handle.api
        what = f"update pod {pod.key} ExtendedResourceClaimStatus"
        yield from self._repeat_until_answered(
            what, lambda: api.patch_status(Pod, pod.name, patch, pod.namespace, uid=pod.uid)
        )

    def delete(self, claim: ResourceClaim) -> Suspendable[None]:
        """Delete a claim, even if allocated."""

        def write(current: ResourceClaim) -> Suspendable[ResourceClaim]:
            rest = [each for each in current.metadata.finalizers if each != DELETE_PROTECTION]
            return (yield from self._write_finalizers(current, rest, f"update resourceclaim {claim_key(current)}"))

        metadata = (yield from self._retry_on_conflict(claim, write)).metadata
        what = f"delete resourceclaim {claim_key(claim)}"
        yield from self._call(
            what, self._handle.api.delete(ResourceClaim, metadata.name, metadata.namespace, uid=metadata.uid)
        )

    # -- waiting for the watch -----------------------------------------------------------------------------------------

    def is_certain_to_be_seen(self, written: ResourceClaim) -> bool:
        """Return whether the watch has shown a claim already, or what happens from now on comes after that.

        It does not suffice if the claim's devices have conditions: they are looked up in what the watch has shown.
        """
        return self._handle.has_received(written) and not devices_with_conditions(written)

    def wait_until_seen(self, written: ResourceClaim) -> Suspendable[None]:
        """Wait until the watch shows a claim at this or a later version, or its deletion.

        A claim that was created and deleted before the watch saw it never appears, so the API is read too.
        """
        pause = 0.0
        metadata = written.metadata
        while True:
            seen = self._claims.get(metadata.name, metadata.namespace)
            if seen is not None and (seen.metadata.uid != metadata.uid or _version(seen) >= _version(written)):
                return
            if pause == _MAX_POLL_INTERVAL and (yield from self._is_deleted(written)):
                return
            yield from wait_for(asyncio.sleep(pause))
            pause = min(10 * pause or 0.01, _MAX_POLL_INTERVAL)

    def _is_deleted(self, written: ResourceClaim) -> Suspendable[bool]:
        metadata = written.metadata
        if self._claims.get(metadata.name, metadata.namespace) is not None:
            return False  # its deletion will be shown
        try:
            now = yield from self._get(f"get claim {claim_key(written)}", written)
        except ClaimWriteError as error:
            if error.status not in (_NOT_FOUND, *_DENIALS):
                raise
            return error.status == _NOT_FOUND
        return now.metadata.uid != metadata.uid

    # -- one write -----------------------------------------------------------------------------------------------------

    def _add_finalizer(self, claim: ResourceClaim) -> Suspendable[ResourceClaim]:
        """Add the finalizer that keeps a claim until its devices are released."""
        if DELETE_PROTECTION in claim.metadata.finalizers:
            return claim
        finalizers = [*claim.metadata.finalizers, DELETE_PROTECTION]
        return (yield from self._write_finalizers(claim, finalizers, f"add finalizer to claim {claim_key(claim)}"))

    def _reserve(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumer: ResourceClaimConsumerReference
    ) -> Suspendable[ResourceClaim]:
        status: dict[str, object] = {"reservedFor": [*claim.status.reserved_for, consumer]}
        what = "reservation"
        if allocation is not None:
            what = "allocation and reservation"
            status["allocation"] = replace(allocation, allocation_timestamp=rfc3339(self._handle.clock.now()))
        return self._write_status(claim, status, f"add {what} to claim {claim_key(claim)}")

    def _write_finalizers(self, claim: ResourceClaim, finalizers: list[str], what: str) -> Suspendable[ResourceClaim]:
        metadata = claim.metadata
        identity = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        patch = {"metadata": {**identity, "finalizers": finalizers or None}}
        api = self._handle.api
        return self._repeat_until_answered(
            what, lambda: api.patch(ResourceClaim, metadata.name, patch, metadata.namespace)
        )

    def _write_status(
        self, claim: ResourceClaim, status: Mapping[str, object], what: str
    ) -> Suspendable[ResourceClaim]:
        metadata, api, patch = claim.metadata, self._handle.api, msgspec.to_builtins(status)
        return self._repeat_until_answered(
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

    def _retry_on_conflict(
        self, claim: ResourceClaim, write: Callable[[ResourceClaim], Suspendable[ResourceClaim]]
    ) -> Suspendable[ResourceClaim]:
        """Write a claim; after a conflict, write it again at its new version.

        A conflict may be with an earlier try of the same write that got no answer: the claim's new state shows that.
        """
        tries = 0
        while True:
            try:
                return (yield from write(claim))
            except ClaimWriteError as error:
                tries += not error.in_doubt
                if error.status != _CONFLICT or tries == _MAX_TRIES:
                    raise
            yield from wait_for(asyncio.sleep(_PAUSE * (1 + _JITTER * self._random.random())))
            before, claim = claim, (yield from self._get(f"get updated claim {claim_key(claim)} after conflict", claim))
            if claim.metadata.uid != before.metadata.uid:
                raise ClaimWriteError(DELETED.format(claim_key(claim)))

    def _get(self, what: str, claim: ResourceClaim) -> Suspendable[ResourceClaim]:
        metadata, api = claim.metadata, self._handle.api
        return self._repeat_until_answered(what, lambda: api.get(ResourceClaim, metadata.name, metadata.namespace))

    def _repeat_until_answered(self, what: str, call: Callable[[], Awaitable[T]]) -> Suspendable[T]:
        pause = _FIRST_PAUSE
        while True:
            try:
                return (yield from self._call(what, call()))
            except ClaimWriteError as error:
                if 0 < error.status < 500 and error.status != _TOO_MANY_REQUESTS:
                    error.in_doubt = pause > _FIRST_PAUSE
                    raise
            yield from wait_for(asyncio.sleep(pause))
            pause = min(5 * pause, _LAST_PAUSE)

    @staticmethod
    def _call(what: str, call: Awaitable[T]) -> Suspendable[T]:
        try:
            return (yield from wait_for(call))
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


async def _log_failure(write: Callable[[], Suspendable[object]]) -> None:
    try:
        await run_async(write())
    except (ClaimWriteError, ClusterError) as problem:
        _log.warning("%s", problem)
