"""The claims reserved for a pod, from Reserve until they are written or the reservation is undone."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kframework.framework.cycle_state import CycleState
from kframework.framework.suspendable import Suspendable
from kframework.objects import ContainerExtendedResourceRequest, ResourceClaim, ResourceClaimConsumerReference
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.cycle import UNCREATED, ClaimAllocation
from kframework.plugins.dynamic_resources.errors import ClaimWriteError
from kframework.plugins.dynamic_resources.requests import claim_key
from kframework.plugins.dynamic_resources.writes import DEALLOCATED, ClaimWrites
from kframework.state.pods import PodInfo

#: The maximum length of a generated name's prefix (the API's limit).
_MAX_PREFIX = 53


class ClaimReservation:
    """The claims of a pod and their new allocations; `claims` are as last read or written.

    Pods of a PodGroup may share a new allocation; the first that is bound writes it.

    A claim that is not created yet already has its name, which ends in `suffix`: by it the scheduler recognizes the
    claim in the watch, before or after the API's answer.
    """

    def __init__(
        self,
        allocated: AllocatedDevices,
        allocations: Sequence[ClaimAllocation],
        mappings: tuple[ContainerExtendedResourceRequest, ...],
        suffix: str,
        group_state: CycleState | None = None,
    ) -> None:
        self.allocations: Sequence[ClaimAllocation] = allocations
        self.mappings: tuple[ContainerExtendedResourceRequest, ...] = mappings
        self.claims: list[ResourceClaim] = [_with_final_name(each.claim, suffix) for each in allocations]
        #: The newly allocated claims, as written, by position.
        self._written: dict[int, ResourceClaim] = {}
        self._allocated = allocated
        #: The newly allocated claims with their devices, by position.
        self._reserved = {
            index: replace(each, claim=claim).allocated_claim
            for index, (each, claim) in enumerate(zip(allocations, self.claims, strict=True))
            if each.allocation is not None
        }
        for claim in self._reserved.values():
            allocated.reserve(claim, group_state)

    @property
    def allocated_claims(self) -> list[ResourceClaim]:
        """The newly allocated claims with their devices."""
        return [*self._reserved.values()]

    def write(self, writes: ClaimWrites, pod: PodInfo) -> Suspendable[None]:
        """Reserve the claims for the pod in the API, with their allocations; ClaimWriteError for the first failure.

        It returns after the watch has shown all writes, so that Unreserve, here and in a replay, undoes only the rest.
        """
        failure: ClaimWriteError | None = None
        try:
            yield from self._write(writes, pod)
        except ClaimWriteError as error:
            failure = error
        waited = [index for index, claim in self._written.items() if not writes.is_certain_to_be_seen(claim)]
        for index in waited:
            yield from writes.wait_until_seen(self._written[index])
        if failure is not None:
            raise failure
        for index in waited:
            claim = self._reserved[index]
            if self._allocated.is_unconfirmed(claim):
                raise ClaimWriteError(DEALLOCATED.format(claim_key(claim)))

    def _write(self, writes: ClaimWrites, pod: PodInfo) -> Suspendable[None]:
        claims, own = self.claims, ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
        for index, each in enumerate(self.allocations):
            is_new = each.claim.metadata.name == UNCREATED
            if is_new:
                claims[index] = yield from writes.create(claims[index])
            claim, allocation = claims[index], each.allocation
            if allocation is not None and not self._allocated.is_unconfirmed(self._reserved[index]):
                # Another pod of the group has written it.
                claim, allocation = self._reserved[index], None
            claims[index] = yield from writes.bind(claim, allocation, each.group or own)
            if each.allocation is not None:
                self._written[index] = claims[index]
            if is_new:
                yield from writes.write_pod_status(pod, claims[index], self.mappings)

    def undo(self) -> list[ResourceClaim]:
        """Undo what the watch has not shown yet, and return the existing claims.

        A claim that has lost its devices meanwhile may be reserved for another pod: that is not ours to release.
        """
        for claim in self._reserved.values():
            self._allocated.release(claim)
        claims, self.claims = self.claims, []
        return [claim for claim in claims if claim.metadata.uid]


def _with_final_name(claim: ResourceClaim, suffix: str) -> ResourceClaim:
    """Return a claim to be created with its final name; others unchanged."""
    metadata = claim.metadata
    if metadata.name != UNCREATED:
        return claim
    return replace(claim, metadata=replace(metadata, name=metadata.generate_name[:_MAX_PREFIX] + suffix, uid=""))
