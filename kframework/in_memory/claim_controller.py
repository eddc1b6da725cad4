"""The ResourceClaim controller of a cluster in memory, without claims of pod groups; it also deletes claims of pods."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import Key, MemoryController, key_of
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)
from kframework.objects.claims import is_controlled_by
from kframework.objects.kinds import owner_reference
from kframework.objects.resource_claims import DELETE_PROTECTION, MAX_RESERVED, POD_CLAIM_NAME

#: The maximum length of a generated name without its suffix; longer halves are both shortened.
_MAX_BASE_LENGTH = 57


class ClaimController(MemoryController):
    """Creates, reserves, releases and deletes claims to devices."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod, ResourceClaimTemplate, ResourceClaim)

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        # Changed objects that are not reconciled yet, in order.
        self._pods: dict[Key, None] = {}
        self._claims: dict[Key, None] = {}
        self._pods_without_template: dict[Key, None] = {}  # to retry when a template appears
        self._claims_by_pod: dict[str, dict[Key, None]] = {}  # claims that a pod uses or owns, by its uid

    @property
    def idle(self) -> bool:
        return not (self._pods or self._claims)

    def _receive(self, change: Change) -> None:
        match change.subject:
            case Pod() as pod:
                # Most have no claims at all, and each is received several times.
                if not pod.spec.resource_claims and pod.metadata.uid not in self._claims_by_pod:
                    return
                if change.new is None or is_pod_done(pod):
                    self._claims |= self._claims_by_pod.get(pod.metadata.uid, {})
                elif isinstance(change.old, Pod) and _has_same_claims(change.old, pod):
                    return
                self._pods[key_of(pod)] = None
            case ResourceClaim() as claim:
                old = change.old if change.new is not None else None
                if isinstance(old, ResourceClaim) and _has_same_consumers(old, claim):
                    return
                if change.new is None and (owner := _owning_pod(claim)) is not None:
                    self._pods[claim.metadata.namespace, owner.name] = None  # it is created again
                self._claims[key_of(claim)] = None
                self._index_claim(key_of(claim), change)
            case _:
                self._pods |= self._pods_without_template
        self._wake.set()

    def _index_claim(self, key: Key, change: Change) -> None:
        before, after = _related_pods(change.old), _related_pods(change.new)
        for removed in before - after:
            self._claims_by_pod[removed].pop(key)
            if not self._claims_by_pod[removed]:
                del self._claims_by_pod[removed]
        for added in after - before:
            self._claims_by_pod.setdefault(added, {})[key] = None

    def _work(self) -> None:
        while not self.idle:
            pods, self._pods = self._pods, {}
            for key in pods:
                self._pods_without_template.pop(key, None)
                pod = self._cluster.find(Pod, key[1], key[0])
                if pod is not None and pod.metadata.deletion_timestamp is None and not is_pod_done(pod):
                    self._reserve(self._create_claims(pod))
            claims, self._claims = self._claims, {}
            for key in claims:
                claim = self._cluster.find(ResourceClaim, key[1], key[0])
                if claim is not None:
                    self._sync_claim(claim)

    def _create_claims(self, pod: Pod) -> Pod:
        claims = ((each.name, self._ensure_claim(pod, each)) for each in pod.spec.resource_claims)
        created = {name: claim for name, claim in claims if claim is not None}
        if not created:
            return pod
        statuses = [each for each in pod.status.resource_claim_statuses if each.name not in created]
        statuses += [PodResourceClaimStatus(name=name, resource_claim_name=claim) for name, claim in created.items()]
        return self._cluster.set_status(pod, replace(pod.status, resource_claim_statuses=tuple(statuses)))

    def _ensure_claim(self, pod: Pod, claim_ref: PodResourceClaim) -> str | None:
        """Return the name of a claim to add to the pod's status; None if it is there, or its template is missing."""
        if claim_ref.resource_claim_template_name is None or self._has_claim(pod, claim_ref):
            return None
        # It may have been created already, but not be in the pod's status yet.
        for namespace, name in self._claims_by_pod.get(pod.metadata.uid, ()):
            claim = self._cluster.find(ResourceClaim, name, namespace)
            if (
                claim is not None
                and claim.metadata.annotations.get(POD_CLAIM_NAME) == claim_ref.name
                and is_controlled_by(claim.metadata, pod.metadata.uid)
            ):
                return name
        name = claim_ref.resource_claim_template_name
        template = self._cluster.find(ResourceClaimTemplate, name, pod.metadata.namespace)
        if template is None:
            self._pods_without_template[key_of(pod)] = None
            return None
        return self._cluster.add(_claim_from_template(pod, claim_ref, template)).metadata.name

    def _has_claim(self, pod: Pod, claim_ref: PodResourceClaim) -> bool:
        """Return whether the pod's status names its claim, or marks it as not needed."""
        status = next((each for each in pod.status.resource_claim_statuses if each.name == claim_ref.name), None)
        if status is None:
            return False
        if status.resource_claim_name is None:
            return True
        claim = self._cluster.find(ResourceClaim, status.resource_claim_name, pod.metadata.namespace)
        return claim is not None and is_controlled_by(claim.metadata, pod.metadata.uid)

    def _reserve(self, pod: Pod) -> None:
        """Reserve allocated claims for a pod that was bound without reserving them."""
        if not pod.spec.node_name or is_pod_done(pod):
            return
        statuses = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        consumer = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        for claim_ref in pod.spec.resource_claims:
            name = claim_ref.resource_claim_name or statuses.get(claim_ref.name)
            claim = self._cluster.find(ResourceClaim, name, pod.metadata.namespace) if name else None
            if claim is None or claim.status.allocation is None or len(claim.status.reserved_for) >= MAX_RESERVED:
                continue
            if all(each.uid != consumer.uid for each in claim.status.reserved_for):
                reserved = (*claim.status.reserved_for, consumer)
                self._cluster.replace(replace(claim, status=replace(claim.status, reserved_for=reserved)))

    def _sync_claim(self, claim: ResourceClaim) -> None:
        """Remove former consumers from a claim; after the last, release its devices or delete it."""
        namespace, owner = claim.metadata.namespace, _owning_pod(claim)
        consumers = tuple(
            each
            for each in claim.status.reserved_for  # consumers of other kinds cannot be checked here
            if (each.api_group, each.resource) != ("", "pods") or self._needs_claims(namespace, each.name, each.uid)
        )
        deleted = claim.metadata.deletion_timestamp is not None
        if consumers != claim.status.reserved_for or (deleted and not consumers):
            claim = self._set_consumers(claim, consumers)
        if not consumers and not deleted and owner is not None:
            if not self._needs_claims(namespace, owner.name, owner.uid):
                self._cluster.remove_object(claim)

    def _needs_claims(self, namespace: str, pod_name: str, uid: str) -> bool:
        pod = self._cluster.find(Pod, pod_name, namespace)
        return pod is not None and pod.metadata.uid == uid and not is_pod_done(pod)

    def _set_consumers(self, claim: ResourceClaim, users: tuple[ResourceClaimConsumerReference, ...]) -> ResourceClaim:
        """Set a claim's consumers; if there are none, remove its devices and its finalizer."""
        allocation = claim.status.allocation if users else None
        status = replace(claim.status, reserved_for=users, allocation=allocation)
        claim = self._cluster.replace(replace(claim, status=status))
        if users:
            return claim
        rest = tuple(each for each in claim.metadata.finalizers if each != DELETE_PROTECTION)
        return self._cluster.replace(replace(claim, metadata=replace(claim.metadata, finalizers=rest)))


def is_pod_done(pod: Pod) -> bool:
    """Return whether a pod no longer uses its claims: it has ended, or is deleted and was never bound."""
    return has_ended(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _has_same_claims(old: Pod, new: Pod) -> bool:
    return (
        old.spec.node_name == new.spec.node_name
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )


def _has_same_consumers(old: ResourceClaim, new: ResourceClaim) -> bool:
    was, now = old.metadata, new.metadata
    return (
        old.status.reserved_for == new.status.reserved_for
        and was.deletion_timestamp == now.deletion_timestamp
        and was.owner_references == now.owner_references
    )


def _owning_pod(claim: ResourceClaim) -> OwnerReference | None:
    owners = claim.metadata.owner_references
    return next((each for each in owners if each.controller and (each.api_version, each.kind) == ("v1", "Pod")), None)


def _related_pods(claim: ApiObject | None) -> set[str]:
    if not isinstance(claim, ResourceClaim):
        return set()
    owner, consumers = _owning_pod(claim), {each.uid for each in claim.status.reserved_for}
    return consumers if owner is None else {owner.uid, *consumers}


def _claim_from_template(pod: Pod, claim_ref: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    template_metadata, halves = template.spec.metadata, (pod.metadata.name, claim_ref.name)
    base = f"{pod.metadata.name}-{claim_ref.name}-"
    if (length := len(base)) > _MAX_BASE_LENGTH:
        base = "-".join(half[: len(half) * _MAX_BASE_LENGTH // length] for half in halves)
    metadata = ObjectMeta(
        generate_name=base,
        namespace=pod.metadata.namespace,
        labels=template_metadata.labels,
        annotations=template_metadata.annotations | {POD_CLAIM_NAME: claim_ref.name},
        owner_references=(owner_reference(pod),),
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)
