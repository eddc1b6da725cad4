"""What DynamicResources does for pods that no node is feasible for: it releases claims that exclude nodes.

A claim without other users loses its devices, so that it can get others on another node. A PodGroup without a pod on a
node gives up its claims, so that they can lose theirs in a later cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import numpy as np

from kframework.framework.answers import Diagnosis, RejectedPod
from kframework.framework.handle import Handle
from kframework.objects import PodGroup, ResourceClaim
from kframework.objects.claims import is_controlled_by
from kframework.plugins.dynamic_resources.cycle import CLAIMS, UNAVAILABLE_REASON, ClaimsInCycle
from kframework.plugins.dynamic_resources.pod_claims import is_reserved_for
from kframework.plugins.dynamic_resources.writes import ClaimWrites
from kframework.state.pods import PendingPod
from kframework.values.status import Code, Status, unresolvable, unschedulable

NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
DEALLOCATED = "deallocation of ResourceClaim completed"
CLAIM_DELETED = "deletion of ResourceClaim completed"
STILL_UNSCHEDULABLE = "still not schedulable"
UNRESERVED = "ResourceClaim unreserved for PodGroup"


class Deallocation:
    """The release of claims that keep pods from other nodes; it is written in the background."""

    def __init__(self, plugin: str, handle: Handle, writes: ClaimWrites) -> None:
        self._rejection = plugin, (UNAVAILABLE_REASON,)
        self._handle = handle
        self._writes = writes
        self._claims = handle.objects(ResourceClaim)

    def for_pod(self, claims: ClaimsInCycle | None, pod: PendingPod, diagnosis: Diagnosis) -> Status:
        """Release one claim of a pod, and return the answer of PostFilter."""
        if claims is None:
            return self._unhelpful(NOTHING_TO_DEALLOCATE)
        done = self._release_one(claims, pod, diagnosis, set())
        return unschedulable(done) if done else self._unhelpful(STILL_UNSCHEDULABLE)

    def for_group(self, pods: Sequence[PendingPod], rejected: Sequence[RejectedPod]) -> Status:
        """Release a claim of each rejected pod, or else one that is reserved for the group of these pods."""
        released = set[str]()
        done = [
            self._release_one(claims, each.pod, each.diagnosis, released)
            for each in rejected
            if (claims := each.state.get(CLAIMS)) is not None
        ]
        reasons = tuple(dict.fromkeys(filter(None, done)))
        if reasons:
            return unschedulable(*reasons)
        found = next(self._reserved_claims(pods), None)
        if found is None:
            return Status(Code.UNSCHEDULABLE)
        claim, group = found
        self._writes.write_in_background(partial(self._writes.unreserve, claim, group.metadata.uid))
        return unresolvable(UNRESERVED)

    def _release_one(self, claims: ClaimsInCycle, pod: PendingPod, diagnosis: Diagnosis, released: set[str]) -> str:
        """Release a claim of a pod, except the `released` ones, and add it there; return what is done, or ""."""
        idle = [
            claim
            for claim in self._unusable_claims(claims, diagnosis)
            if all(user.uid == pod.uid for user in claim.status.reserved_for) and claim.metadata.uid not in released
        ]
        if idle:
            claim = self._handle.random.choice(idle)
            released.add(claim.metadata.uid)
            self._writes.write_in_background(partial(self._writes.deallocate, claim))
            return DEALLOCATED
        if claims.leftover is not None:
            self._writes.write_in_background(partial(self._writes.delete, claims.leftover))
            return CLAIM_DELETED
        return ""

    def _unusable_claims(self, claims: ClaimsInCycle, diagnosis: Diagnosis) -> Collection[ResourceClaim]:
        """Return the allocated claims whose devices excluded a node where all others could be allocated."""
        if all(claim.status.allocation is None for claim in claims.claims):
            return []
        rows = [
            row
            for row in diagnosis.rows(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).tolist()
            if (diagnosis[row].plugin, diagnosis[row].reasons) == self._rejection
        ]
        return claims.unusable_claims(diagnosis.nodes, np.array(rows, dtype=np.int64)) if rows else []

    def _reserved_claims(self, pods: Sequence[PendingPod]) -> Iterator[tuple[ResourceClaim, PodGroup]]:
        """Yield the claims that are reserved for a group of these pods which has no pod on a node."""
        handle = self._handle
        if not handle.feature_gates.has_group_claims:
            return
        groups = handle.objects(PodGroup)
        for namespace, name in dict.fromkeys((pod.namespace, pod.group) for pod in pods):
            group = groups.get(name, namespace)
            if group is not None and not handle.pod_groups.members(namespace, name).scheduled:
                yield from (
                    (claim, group) for claim in self._claims_of(group) if is_reserved_for(claim, group.metadata.uid)
                )

    def _claims_of(self, group: PodGroup) -> Iterator[ResourceClaim]:
        claim_names = {each.name: each.resource_claim_name for each in group.status.resource_claim_statuses}
        for each in group.spec.resource_claims:
            name = each.resource_claim_name or claim_names.get(each.name)
            claim = self._claims.get(name, group.metadata.namespace) if name else None
            if claim is not None and (
                each.resource_claim_name is not None or is_controlled_by(claim.metadata, group.metadata.uid)
            ):
                yield claim

    def _unhelpful(self, reason: str) -> Status:
        """Return that there is nothing to do; kube-scheduler gives the reason only in 1.36."""
        return unschedulable(reason) if self._handle.feature_gates.is_1_36 else Status(Code.UNSCHEDULABLE)
