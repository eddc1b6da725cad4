"""Lookup of a pod's claims, and the reasons why one cannot be used."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kframework.errors import KFrameworkError
from kframework.framework.handle import Handle
from kframework.objects import OwnerReference, PodGroup, ResourceClaim, ResourceClaimConsumerReference
from kframework.objects.claims import group_consumer, is_controlled_by, is_controlled_by_group, is_group_claim
from kframework.objects.resource_claims import EXTENDED_RESOURCE_CLAIM
from kframework.plugins.dynamic_resources.requests import claim_key
from kframework.state.objects import ObjectStore
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.feature_gates import FeatureGates

NOT_CREATED = 'pod "{}": ResourceClaim not created yet'
NO_SOURCE = 'pod "{}", spec.resourceClaim "{}": none of the supported fields are set'
MISSING = 'could not find ResourceClaim "{}/{}"'
DELETED = 'resourceclaim "{}" is being deleted'
FOREIGN = "ResourceClaim {} was not created for Pod {} (Pod is not owner)"
FOREIGN_TO_GROUP = "ResourceClaim {} was not created for Pod {} (neither Pod nor PodGroup {} is the owner)"

#: The number of pods recorded before the first cleanup.
_MIN_CLEANUP = 64


class ClaimProblem(KFrameworkError):
    """Raised when a claim of a pod cannot be used now."""


def claims_of(pod: PodInfo, claims: ObjectStore[ResourceClaim], gates: FeatureGates) -> list[ResourceClaim]:
    """Return the claims that a pod names; ClaimProblem for the first that cannot be used.

    With DRAWorkloadResourceClaims, those of a template may belong to its PodGroup.
    """
    group = pod.group if pod.group and gates.has_group_claims else ""
    claim_names = {each.name: each.resource_claim_name for each in pod.claim_statuses}
    result = []
    for reference in pod.spec.resource_claims:
        name = reference.resource_claim_name
        if name is None:
            if reference.resource_claim_template_name is None:
                raise ClaimProblem(NO_SOURCE.format(pod.key, reference.name))
            if reference.name not in claim_names:
                raise ClaimProblem(NOT_CREATED.format(pod.key))
            name = claim_names[reference.name]
        if name is None:
            continue  # its template needs no claim
        claim = claims.get(name, pod.namespace)
        if claim is None:
            raise ClaimProblem(MISSING.format(pod.namespace, name))
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(DELETED.format(name))
        if reference.resource_claim_name is None and not (
            is_controlled_by(claim.metadata, pod.uid) or (group and is_controlled_by_group(claim.metadata, group))
        ):
            problem = FOREIGN_TO_GROUP if group else FOREIGN
            raise ClaimProblem(problem.format(claim_key(claim), pod.key, group))
        result.append(claim)
    return result


def consumers_of(pod: PodInfo, group: PodGroup | None) -> Mapping[str, ResourceClaimConsumerReference]:
    """Return the PodGroup by the names of the claims of a pod that are reserved for it, and not for the pod."""
    if group is None or not group.spec.resource_claims:
        return {}
    claim_names = {each.name: each.resource_claim_name for each in pod.claim_statuses}
    names = [
        each.resource_claim_name or claim_names.get(each.name)
        for each in pod.spec.resource_claims
        if is_group_claim(each, group)
    ]
    return dict.fromkeys(filter(None, names), group_consumer(group))


class ClaimUsers:
    """The waiting pods by the claims that they name; other claims from templates are owned by their pod."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._by_claim: dict[tuple[str, str], dict[str, None]] = {}
        self._added = 0

    def add(self, pod: PendingPod) -> None:
        named = [each.resource_claim_name for each in pod.spec.resource_claims]
        named += [each.resource_claim_name for each in pod.claim_statuses] if pod.group else []
        names = [name for name in named if name is not None]
        if not names:
            return
        for name in names:
            self._by_claim.setdefault((pod.namespace, name), {})[pod.uid] = None
        self._added += 1
        if self._added > 2 * len(self._handle.pending) + _MIN_CLEANUP:
            self._by_claim, self._added = {}, 0
            for each in self._handle.pending.values():
                self.add(each)

    def pods_of(self, claim: ResourceClaim) -> Collection[str]:
        """Return the uids of the pods that name a claim; some may not be pending any more."""
        return self._by_claim.get((claim.metadata.namespace, claim.metadata.name), ())


def is_reserved_for(claim: ResourceClaim, uid: str) -> bool:
    return any(each.uid == uid for each in claim.status.reserved_for)


class ExtendedResourceClaims:
    """The claims that schedulers made for the extended resources of pods, by the uids of these; kept current."""

    def __init__(self, claims: ObjectStore[ResourceClaim]) -> None:
        self._by_owner: dict[str, dict[str, ResourceClaim]] = {}
        claims.follow(self._on_change)

    def claim_of(self, pod: PodInfo) -> ResourceClaim | None:
        return next(iter(self._by_owner.get(pod.uid, {}).values()), None)

    def _on_change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        # Few claims are of this kind, and each claim changes four times.
        if old is not None and EXTENDED_RESOURCE_CLAIM in old.metadata.annotations:
            for owner in _owners(old):
                self._by_owner[owner.uid].pop(old.metadata.name)
                if not self._by_owner[owner.uid]:
                    del self._by_owner[owner.uid]
        if new is not None and EXTENDED_RESOURCE_CLAIM in new.metadata.annotations:
            for owner in _owners(new):
                self._by_owner.setdefault(owner.uid, {})[new.metadata.name] = new


def _owners(claim: ResourceClaim) -> list[OwnerReference]:
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return []
    return [each for each in claim.metadata.owner_references if each.controller]
