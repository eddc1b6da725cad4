"""The claims reserved for a pod, from Reserve until they are written or the reservation is undone."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kframework.objects import ContainerExtendedResourceRequest, ResourceClaim
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.cycle import NOT_MADE_YET, Placed
from kframework.plugins.dynamic_resources.errors import ClaimWriteError
from kframework.plugins.dynamic_resources.requests import key_of
from kframework.plugins.dynamic_resources.writes import DEALLOCATED, ClaimWrites
from kframework.state.pods import PodInfo

#: The maximum length of a generated name's prefix (the API's limit).
_BEGINNING = 53


class Reservation:
    """The claims of a pod and their new allocations; `claims` are as last read or written.

    A claim that is not created yet already has its name, which ends in `suffix`: by it the scheduler recognizes the
    claim in the watch, before or after the API's answer.
    """

    def __init__(
        self,
        allocated: AllocatedDevices,
        placed: Sequence[Placed],
        mappings: tuple[ContainerExtendedResourceRequest, ...],
        suffix: str,
    ) -> None:
        self.placed: Sequence[Placed] = placed
        self.mappings: tuple[ContainerExtendedResourceRequest, ...] = mappings
        self.claims: list[ResourceClaim] = [_named(each.claim, suffix) for each in placed]
        #: The newly allocated claims, as written.
        self._written: list[ResourceClaim] = []
        self._allocated = allocated
        self._reserved = [
            replace(each, claim=claim).allocated
            for each, claim in zip(placed, self.claims, strict=True)
            if each.allocation is not None
        ]
        for each in self._reserved:
            allocated.reserve(each)

    async def write(self, writes: ClaimWrites, pod: PodInfo) -> None:
        """Reserve the claims for the pod in the API, with their allocations; ClaimWriteError for the first failure.

        It returns after the watch has shown all writes, so that Unreserve, here and in a replay, undoes only the rest.
        """
        refused: ClaimWriteError | None = None
        try:
            await self._write(writes, pod)
        except ClaimWriteError as error:
            refused = error
        for claim in self._written:
            await writes.until_told(claim)
        if refused is not None:
            raise refused
        for claim in self._reserved:
            if self._allocated.awaits(claim):
                raise ClaimWriteError(DEALLOCATED.format(key_of(claim)))

    async def _write(self, writes: ClaimWrites, pod: PodInfo) -> None:
        claims = self.claims
        for place, each in enumerate(self.placed):
            made = each.claim.metadata.name == NOT_MADE_YET
            if made:
                claims[place] = await writes.create(claims[place])
            claims[place] = await writes.bind(claims[place], each.allocation, pod)
            if each.allocation is not None:
                self._written.append(claims[place])
            if made:
                await writes.tell(pod, claims[place], self.mappings)

    def undo(self) -> list[ResourceClaim]:
        """Undo what the watch has not shown yet, and return the existing claims.

        A claim that has lost its devices meanwhile may be reserved for another pod: that is not ours to release.
        """
        for claim in self._reserved:
            self._allocated.release(claim)
        claims, self.claims = self.claims, []
        return [claim for claim in claims if claim.metadata.uid]


def _named(claim: ResourceClaim, suffix: str) -> ResourceClaim:
    """Return a claim to be created with its final name; others unchanged."""
    metadata = claim.metadata
    if metadata.name != NOT_MADE_YET:
        return claim
    return replace(claim, metadata=replace(metadata, name=metadata.generate_name[:_BEGINNING] + suffix, uid=""))
