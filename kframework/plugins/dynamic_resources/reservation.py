"""What is reserved for a pod, from Reserve until its claims are written, or until it is given back."""

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

#: How much of what a made claim's name begins with stands in it (the API's limit for names that it makes).
_BEGINNING = 53


class Reservation:
    """The claims of a pod and what they are to get; `claims` are these as they were read or written last.

    A claim that is still to be made has its name already, which ends in `suffix`: by it the scheduler recognizes the
    claim when the cluster tells of it, before or after the answer.
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
        #: The claims that have got devices, as they were written.
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
        """Have the claims reserved for the pod, with what they get; ClaimWriteError at the first that cannot be.

        The cluster has told then of all that is written, so that in Unreserve, here and in a replay, the rest is not.
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
        """Take back what the cluster has not told of, and return the claims that there are.

        A claim that has lost its devices meanwhile may have been reserved for another pod: that is not ours to release.
        """
        for claim in self._reserved:
            self._allocated.release(claim)
        claims, self.claims = self.claims, []
        return [claim for claim in claims if claim.metadata.uid]


def _named(claim: ResourceClaim, suffix: str) -> ResourceClaim:
    """Return a claim that is still to be made by the name that it will have; others as they are."""
    metadata = claim.metadata
    if metadata.name != NOT_MADE_YET:
        return claim
    return replace(claim, metadata=replace(metadata, name=metadata.generate_name[:_BEGINNING] + suffix, uid=""))
