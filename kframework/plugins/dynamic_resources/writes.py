"""What the scheduler writes into claims: what they get, whom they are reserved for, and that they give it back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import TypeVar
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
from kframework.plugins.dynamic_resources.errors import ClaimWriteError
from kframework.plugins.dynamic_resources.observer import DeviceObserver
from kframework.plugins.dynamic_resources.pod_claims import is_reserved_for
from kframework.plugins.dynamic_resources.requests import key_of
from kframework.state.pods import PodInfo

T = TypeVar("T")

DELETED = "claim {} got deleted in the meantime"
DEALLOCATED = "claim {} got deallocated elsewhere in the meantime"

#: How often something is tried where others write at the same time, and the pause before the next try, in seconds.
_TRIES, _PAUSE, _JITTER = 5, 0.01, 0.1
#: What got no answer is asked again until there is one: each pause is five times the one before, up to the last.
_FIRST_PAUSE, _LAST_PAUSE = 0.01, 10.0

#: How long it takes at most until it is looked again whether the cluster has told of a write, in seconds.
_LAST_LOOK = 1.0

_NOT_FOUND, _CONFLICT, _TOO_MANY_REQUESTS = 404, 409, 429


class ClaimWrites:
    """Writes claims through the API, each as it was read, so that nothing is undone that others have written.

    A write that gets no answer may have been done, or be done later. Were its devices given to others meanwhile, two
    claims would have them; so it is made again until there is an answer. It names the version that it is about, and is
    done once at most.

    Reservations of a claim are written in turn: one that is still being taken back, with the devices or without, must
    not be that of a later attempt.
    """

    def __init__(self, handle: Handle) -> None:
        #: Is told of claims that are made.
        self.observer: DeviceObserver = DeviceObserver()
        self._handle = handle
        self._claims = handle.objects(ResourceClaim)
        #: Its own: what is drawn between two cycles is not drawn in a replay.
        self._random = Random(handle.random.getrandbits(64))
        #: Whose turn it is, by the uids of claims; kept while somebody writes, or waits to.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def bind(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: PodInfo) -> ResourceClaim:
        """Reserve a claim for a pod, with what it is to get unless it has that, and return it as written.

        ClaimWriteError if that cannot be done; then it is not done later either.
        """
        had = results_of(claim)

        async def write(current: ResourceClaim) -> ResourceClaim:
            if allocation is None and current.status.allocation is not None and results_of(current) != had:
                # kube-scheduler reserves what it is then, on nodes perhaps that do not reach it.
                raise ClaimWriteError(f"claim {key_of(current)} got allocated elsewhere in the meantime")
            if is_reserved_for(current, pod) and allocation in (None, _untimed(current.status.allocation)):
                return current  # a write that got no answer was done
            _check(current, allocation)
            if allocation is not None:
                current = await self._protected(current)
            return await self._reserved(current, allocation, pod)

        async with self._turn(claim):
            if is_reserved_for(claim, pod):  # or was: what took that back may have been answered before it was seen
                claim = await self._get(f"get claim {key_of(claim)}", claim)
            return await self._retried(claim, write)

    def _turn(self, claim: ResourceClaim) -> asyncio.Lock:
        return self._turns.setdefault(claim.metadata.uid, asyncio.Lock())

    async def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Take a pod out of those whom a claim is reserved for; what it has it keeps."""

        async def write(current: ResourceClaim) -> ResourceClaim:
            users = [each for each in current.status.reserved_for if each.uid != pod.uid]
            if len(users) == len(current.status.reserved_for):
                return current
            return await self._status(current, {"reservedFor": users or None}, f"unreserve claim {key_of(current)}")

        async with self._turn(claim):
            await self._retried(claim, write)

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take from a claim what it has got, as nobody else uses it; ClaimWriteError if it has changed meanwhile."""
        nothing = {"allocation": None, "reservedFor": None, "devices": None}
        async with self._turn(claim):  # who finds the claim reserved writes nothing, and would not see it go
            await self._status(claim, nothing, f"deallocate claim {key_of(claim)}")

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Make the claim for extended resources and return it as stored; ClaimWriteError if that is refused."""
        what = f"create claim for extended resources {key_of(claim)}"
        try:
            made = await self._said(what, self._handle.api.create(claim))
        except ClaimWriteError:
            self.observer.created("failure")
            raise
        self.observer.created("success")
        return made

    async def tell(
        self, pod: PodInfo, claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        """Tell in a pod's status which claim was made for its extended resources, and who uses which request."""
        if not mappings:
            what = f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
            raise ClaimWriteError(what)
        status = {"requestMappings": msgspec.to_builtins(mappings), "resourceClaimName": claim.metadata.name}
        patch, api = {"extendedResourceClaimStatus": status}, self._handle.api
        what = f"update pod {pod.key} ExtendedResourceClaimStatus"
        await self._answered(what, lambda: api.patch_status(Pod, pod.name, patch, pod.namespace, uid=pod.uid))

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim, whatever it has got."""

        async def write(current: ResourceClaim) -> ResourceClaim:
            rest = [each for each in current.metadata.finalizers if each != DELETE_PROTECTION]
            return await self._finalizers(current, rest, f"update resourceclaim {key_of(current)}")

        metadata = (await self._retried(claim, write)).metadata
        what = f"delete resourceclaim {key_of(claim)}"
        deletion = self._handle.api.delete(ResourceClaim, metadata.name, metadata.namespace, uid=metadata.uid)
        await self._said(what, deletion)

    # -- until it is known what is written -------------------------------------------------------------------------

    async def until_told(self, written: ResourceClaim) -> None:
        """Wait until the cluster tells of a claim as it was written or as it is later, or that it is gone.

        Nobody tells of a claim that was made and is gone before it was seen, so the API is asked.
        """
        pause = 0.0
        metadata = written.metadata
        while True:
            told = self._claims.get(metadata.name, metadata.namespace)
            if told is not None and (told.metadata.uid != metadata.uid or _version(told) >= _version(written)):
                return
            if pause == _LAST_LOOK and await self._is_gone(written):
                return
            await asyncio.sleep(pause)
            pause = min(10 * pause or 0.01, _LAST_LOOK)

    async def _is_gone(self, written: ResourceClaim) -> bool:
        metadata = written.metadata
        if self._claims.get(metadata.name, metadata.namespace) is not None:
            return False  # that it goes is told
        try:
            now = await self._get(f"get claim {key_of(written)}", written)
        except ClaimWriteError as error:
            if error.status != _NOT_FOUND:
                raise
            return True
        return now.metadata.uid != metadata.uid

    # -- one write -------------------------------------------------------------------------------------------------

    async def _protected(self, claim: ResourceClaim) -> ResourceClaim:
        """See that a claim is not gone before it has given its devices back."""
        if DELETE_PROTECTION in claim.metadata.finalizers:
            return claim
        finalizers = [*claim.metadata.finalizers, DELETE_PROTECTION]
        return await self._finalizers(claim, finalizers, f"add finalizer to claim {key_of(claim)}")

    async def _reserved(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: PodInfo) -> ResourceClaim:
        user = ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
        status: dict[str, object] = {"reservedFor": [*claim.status.reserved_for, user]}
        what = "reservation"
        if allocation is not None:
            what = "allocation and reservation"
            status["allocation"] = replace(allocation, allocation_timestamp=rfc3339(self._handle.clock.now()))
        return await self._status(claim, status, f"add {what} to claim {key_of(claim)}")

    async def _finalizers(self, claim: ResourceClaim, finalizers: list[str], what: str) -> ResourceClaim:
        metadata = claim.metadata
        identity = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        patch = {"metadata": {**identity, "finalizers": finalizers or None}}
        api = self._handle.api
        return await self._answered(what, lambda: api.patch(ResourceClaim, metadata.name, patch, metadata.namespace))

    async def _status(self, claim: ResourceClaim, status: Mapping[str, object], what: str) -> ResourceClaim:
        metadata, api, patch = claim.metadata, self._handle.api, msgspec.to_builtins(status)
        return await self._answered(
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

    # -- until there is an answer ----------------------------------------------------------------------------------

    async def _retried(
        self, claim: ResourceClaim, write: Callable[[ResourceClaim], Awaitable[ResourceClaim]]
    ) -> ResourceClaim:
        """Write a claim, and again as it has become where others wrote it at the same time.

        A conflict may be with the write itself, made before and not answered: what the claim has become tells.
        """
        tries = 0
        while True:
            try:
                return await write(claim)
            except ClaimWriteError as error:
                tries += not error.in_doubt
                if error.status != _CONFLICT or tries == _TRIES:
                    raise
            await asyncio.sleep(_PAUSE * (1 + _JITTER * self._random.random()))
            before, claim = claim, await self._get(f"get updated claim {key_of(claim)} after conflict", claim)
            if claim.metadata.uid != before.metadata.uid:
                raise ClaimWriteError(DELETED.format(key_of(claim)))

    async def _get(self, what: str, claim: ResourceClaim) -> ResourceClaim:
        metadata, api = claim.metadata, self._handle.api
        return await self._answered(what, lambda: api.get(ResourceClaim, metadata.name, metadata.namespace))

    async def _answered(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._said(what, ask())
            except ClaimWriteError as error:
                if 0 < error.status < 500 and error.status != _TOO_MANY_REQUESTS:
                    error.in_doubt = pause > _FIRST_PAUSE
                    raise
            await asyncio.sleep(pause)
            pause = min(5 * pause, _LAST_PAUSE)

    @staticmethod
    async def _said(what: str, call: Awaitable[T]) -> T:
        """Say what could not be done where the API refuses it."""
        try:
            return await call
        except ClusterError as error:
            raise ClaimWriteError(what, error) from error


def _check(claim: ResourceClaim, allocation: AllocationResult | None) -> None:
    """Raise ClaimWriteError for a claim that has become what it cannot be reserved as."""
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimWriteError(DELETED.format(key_of(claim)))
    if allocation is not None and claim.status.allocation is not None:
        raise ClaimWriteError(f"claim {key_of(claim)} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise ClaimWriteError(DEALLOCATED.format(key_of(claim)))


def _version(claim: ResourceClaim) -> int:
    return int(claim.metadata.resource_version)


def _untimed(allocation: AllocationResult | None) -> AllocationResult | None:
    return None if allocation is None else replace(allocation, allocation_timestamp=None)
