"""What is reserved for a pod, from Reserve until its claims are written, or until it is given back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kframework.objects import AllocationResult, ContainerExtendedResourceRequest, ResourceClaim
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.cycle import NOT_MADE_YET, Placed
from kframework.plugins.dynamic_resources.writes import ClaimWrites
from kframework.state.pods import PodInfo


class Reservation:
    """The claims of a pod and what they are to get; `claims` are these as they were read or written last."""

    def __init__(
        self,
        allocated: AllocatedDevices,
        placed: Sequence[Placed],
        mappings: tuple[ContainerExtendedResourceRequest, ...],
    ) -> None:
        self.claims: list[ResourceClaim] = [each.claim for each in placed]
        self._allocated = allocated
        self.placed: Sequence[Placed] = placed
        self.mappings: tuple[ContainerExtendedResourceRequest, ...] = mappings
        for each in placed:
            if each.allocation is not None:
                allocated.reserve(each.allocated)

    async def write(self, writes: ClaimWrites, pod: PodInfo) -> None:
        """Have the claims reserved for the pod, with what they get; ClaimWriteError at the first that cannot be."""
        for place, each in enumerate(self.placed):
            made = each.claim.metadata.name == NOT_MADE_YET
            if made:
                await self._make(place, writes)
            written = self.claims[place] = await writes.bind(self.claims[place], each.allocation, pod)
            if each.allocation is not None and self._allocated.awaits(written, each.allocation.devices.results):
                self._allocated.written(written)
            if made:
                await writes.tell(pod, written, self.mappings)

    async def _make(self, place: int, writes: ClaimWrites) -> None:
        """Have the claim for extended resources made; from now on it is that one which gets the devices."""
        thought_of = self.placed[place]
        made = await writes.create(thought_of.claim)
        self._allocated.reserve(replace(thought_of, claim=made).allocated)
        self._allocated.release(thought_of.claim)
        self.claims[place] = made

    def unseen(self) -> list[ResourceClaim]:
        """Return the claims that were made, and of which the cluster has not told yet."""
        return [
            claim
            for each, claim in zip(self.placed, self.claims, strict=False)
            if each.claim.metadata.name == NOT_MADE_YET != claim.metadata.name
            if each.allocation is not None and self._allocated.awaits(claim, each.allocation.devices.results)
        ]

    def undo(self) -> list[ResourceClaim]:
        """Take back what is not written, and return the claims that there are; what is written stays allocated.

        A claim that has lost its devices meanwhile may have been reserved for another pod: that is not ours to release.
        """
        for each, claim in zip(self.placed, self.claims, strict=False):
            if each.allocation is not None:
                self._release(claim, each.allocation)
                self._release(each.claim, each.allocation)
        claims, self.claims = self.claims, []
        return [claim for claim in claims if claim.metadata.name != NOT_MADE_YET]

    def _release(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        if self._allocated.awaits(claim, allocation.devices.results):
            self._allocated.release(claim)

    def __repr__(self) -> str:
        return f"<Reservation of {len(self.placed)} claims>"
