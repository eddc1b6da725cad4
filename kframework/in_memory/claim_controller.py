"""The ResourceClaim controller of a cluster in memory; it also deletes the claims that it created for templates.

With the gate DRAWorkloadResourceClaims it creates one claim for a PodGroup if its pods name a template of the group.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock, rfc3339_micro
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import Key, MemoryController, group_key_of, key_of
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    Event,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    PodResourceClaim,
    PodResourceClaimStatus,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)
from kframework.objects.claims import group_consumer, is_controlled_by, is_group_claim
from kframework.objects.kinds import kind_of, object_reference, owner_reference, reference
from kframework.objects.pod_groups import PodGroupResourceClaimStatus
from kframework.objects.resource_claims import DELETE_PROTECTION, MAX_RESERVED, POD_CLAIM_NAME

#: The maximum length of a generated name without its suffix; longer halves are both shortened.
_MAX_BASE_LENGTH = 57

#: The note of the Event about a missing template, in kube-controller-manager's words.
_NOT_FOUND = '{}ResourceClaim {}: resource claim template "{}": resourceclaimtemplate.resource.k8s.io "{}" not found'

_log = logging.getLogger(__name__)

#: The kind, the namespace and the name of a pod or a group with claims.
_OwnerKey = tuple[type[Pod] | type[PodGroup], Key]


class ClaimController(MemoryController):
    """Creates, reserves, releases and deletes claims to devices."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod, PodGroup, ResourceClaimTemplate, ResourceClaim)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster)
        self._clock = clock
        self._groups_have_claims = cluster.feature_gates.has_group_claims
        # Changed objects that are not reconciled yet, in order.
        self._owners: dict[_OwnerKey, None] = {}
        self._claims: dict[Key, None] = {}
        # The name of the claim and of the template that does not exist, to retry when one appears.
        self._without_template: dict[_OwnerKey, tuple[str, str]] = {}
        self._missing_templates: set[Key] = set()  # those that were logged
        self._claims_by_user: dict[str, dict[Key, None]] = {}  # claims that a pod or group uses or owns, by its uid
        self._members: dict[Key, dict[_OwnerKey, None]] = {}  # pods with claims, by their group

    @property
    def idle(self) -> bool:
        return not (self._owners or self._claims)

    def _receive(self, change: Change) -> None:
        match change.new or change.old:
            case Pod() as pod:
                # Most have no claims at all, and each is received several times.
                if not pod.spec.resource_claims and pod.metadata.uid not in self._claims_by_user:
                    return
                self._index_member(pod, is_gone=change.new is None)
                if change.new is None or is_pod_done(pod):
                    self._claims |= self._claims_by_user.get(pod.metadata.uid, {})
                elif isinstance(change.old, Pod) and _has_same_claims(change.old, pod):
                    return
                elif not self._needs_work(pod):
                    return
                self._owners[Pod, key_of(pod)] = None
            case PodGroup() as group if self._groups_have_claims:
                old = change.old if change.new is not None else None
                if isinstance(old, PodGroup) and _has_same_statuses(old, group):
                    return
                if change.new is None:
                    self._claims |= self._claims_by_user.get(group.metadata.uid, {})
                self._owners[PodGroup, key_of(group)] = None
                self._owners |= self._members.get(key_of(group), {})
            case ResourceClaim() as claim:
                old = change.old if change.new is not None else None
                if isinstance(old, ResourceClaim) and _has_same_consumers(old, claim):
                    return
                if change.new is None and (owner := _owner_key(claim)) is not None:
                    self._owners[owner] = None  # it is created again
                self._index_claim(key_of(claim), change)
                if change.new is not None and claim.status.reserved_for and self._is_in_use(claim):
                    return
                self._claims[key_of(claim)] = None
            case ResourceClaimTemplate():
                self._owners |= dict.fromkeys(self._without_template)
        self._wake.set()

    def _index_member(self, pod: Pod, *, is_gone: bool) -> None:
        key, members = group_key_of(pod), self._members
        if key is None or not self._groups_have_claims:
            return
        members.setdefault(key, {})[Pod, key_of(pod)] = None
        if is_gone:
            del members[key][Pod, key_of(pod)]
        if not members[key]:
            del members[key]

    def _index_claim(self, key: Key, change: Change) -> None:
        before, after = _users(change.old), _users(change.new)
        for removed in before - after:
            self._claims_by_user[removed].pop(key)
            if not self._claims_by_user[removed]:
                del self._claims_by_user[removed]
        for added in after - before:
            self._claims_by_user.setdefault(added, {})[key] = None

    def _work(self) -> None:
        while not self.idle:
            owners, self._owners = self._owners, {}
            for owner in owners:
                self._sync_owner(owner)
            claims, self._claims = self._claims, {}
            for key in claims:
                claim = self._cluster.find(ResourceClaim, key[1], key[0])
                if claim is not None:
                    self._sync_claim(claim)

    def _sync_owner(self, key: _OwnerKey) -> None:
        before = self._without_template.pop(key, None)
        kind, (namespace, name) = key
        owner = self._cluster.find(kind, name, namespace)
        match owner:
            case Pod(metadata=metadata) if metadata.deletion_timestamp is None and not is_pod_done(owner):
                self._sync_pod(owner)
            case PodGroup(metadata=metadata) if metadata.deletion_timestamp is None and self._groups_have_claims:
                self._sync_group(owner)
        missing = self._without_template.get(key)
        if owner is not None and missing not in (None, before):
            self._report_missing(owner, *missing)

    # -- claims of templates -------------------------------------------------------------------------------------------

    def _sync_group(self, group: PodGroup) -> None:
        created = {each.name: self._ensure_claim(group, each) for each in group.spec.resource_claims}
        if not any(created.values()):
            return
        statuses = [each for each in group.status.resource_claim_statuses if created.get(each.name) is None]
        for name, claim in created.items():
            if claim is not None:
                statuses.append(PodGroupResourceClaimStatus(name=name, resource_claim_name=claim))
        self._cluster.replace(replace(group, status=replace(group.status, resource_claim_statuses=tuple(statuses))))

    def _sync_pod(self, pod: Pod) -> None:
        key = group_key_of(pod) if self._groups_have_claims else None
        group = None if key is None else self._cluster.find(PodGroup, key[1], key[0])
        if key is None or group is not None:  # else it may turn out that claims are those of the group
            self._reserve(self._create_claims(pod, group), group)

    def _create_claims(self, pod: Pod, group: PodGroup | None) -> Pod:
        claims = ((each.name, self._ensure_claim(pod, each, group)) for each in pod.spec.resource_claims)
        created = {name: claim for name, claim in claims if claim is not None}
        if not created:
            return pod
        statuses = [each for each in pod.status.resource_claim_statuses if each.name not in created]
        statuses += [PodResourceClaimStatus(name=name, resource_claim_name=claim) for name, claim in created.items()]
        written = self._cluster.set_status(pod, replace(pod.status, resource_claim_statuses=tuple(statuses)))
        self._owners.pop((Pod, key_of(pod)), None)  # its own write: there is nothing more to do
        return written

    def _ensure_claim(
        self, owner: Pod | PodGroup, claim_ref: PodResourceClaim, group: PodGroup | None = None
    ) -> str | None:
        """Return the name of a claim to add to the owner's status; None if it is there, or cannot be created yet."""
        if claim_ref.resource_claim_template_name is None or self._has_claim(owner, claim_ref, group):
            return None
        if group is not None and is_group_claim(claim_ref, group):
            return self._find_claim(group, claim_ref)
        # It may have been created already, but not be in the status yet.
        found = self._find_claim(owner, claim_ref)
        if found is not None:
            return found
        name = claim_ref.resource_claim_template_name
        template = self._cluster.find(ResourceClaimTemplate, name, owner.metadata.namespace)
        if template is None:
            self._without_template[type(owner), key_of(owner)] = claim_ref.name, name
            return None
        self._missing_templates.discard(key_of(template))
        created = self._cluster.add(_claim_from_template(owner, claim_ref, template))
        self._claims.pop(key_of(created), None)  # this write needs no sync: the owner exists
        return created.metadata.name

    def _report_missing(self, owner: Pod | PodGroup, claim: str, template: str) -> None:
        """Record an Event about an owner whose template does not exist; log the first one."""
        key = owner.metadata.namespace, template
        if key not in self._missing_templates:
            self._missing_templates.add(key)
            _log.warning("%s waits for ResourceClaimTemplate %s/%s, which does not exist", reference(owner), *key)
        self._cluster.add(
            Event(
                metadata=ObjectMeta(generate_name=f"{owner.metadata.name}.", namespace=owner.metadata.namespace),
                event_time=rfc3339_micro(self._clock.now()),
                reporting_controller="resource_claim",
                reason="FailedResourceClaimCreation",
                regarding=object_reference(owner),
                note=_NOT_FOUND.format(kind_of(owner).name, claim, template, template),
                type="Warning",
            )
        )

    def _find_claim(self, owner: Pod | PodGroup, claim_ref: PodResourceClaim) -> str | None:
        """Return the name of the claim that was created for an owner."""
        for namespace, name in self._claims_by_user.get(owner.metadata.uid, ()):
            claim = self._cluster.find(ResourceClaim, name, namespace)
            if (
                claim is not None
                and claim.metadata.annotations.get(POD_CLAIM_NAME) == claim_ref.name
                and is_controlled_by(claim.metadata, owner.metadata.uid)
            ):
                return name
        return None

    def _has_claim(self, owner: Pod | PodGroup, claim_ref: PodResourceClaim, group: PodGroup | None) -> bool:
        """Return whether the owner's status names its claim or its group's, or marks it as not needed."""
        status = next((each for each in owner.status.resource_claim_statuses if each.name == claim_ref.name), None)
        if status is None:
            return False
        if status.resource_claim_name is None:
            return True
        claim = self._cluster.find(ResourceClaim, status.resource_claim_name, owner.metadata.namespace)
        owners = (owner,) if group is None else (owner, group)
        return claim is not None and any(is_controlled_by(claim.metadata, each.metadata.uid) for each in owners)

    def _needs_work(self, pod: Pod) -> bool:
        """Return whether a claim of a pod may have to be created or reserved; kube-controller-manager asks the same.

        Most pods are bound with all their claims reserved: to find that out later took a sixth of a pod's work here.
        """
        if not pod.spec.node_name:
            return True
        for name in _claim_names(pod):
            claim = self._cluster.find(ResourceClaim, name, pod.metadata.namespace) if name else None
            if claim is None or all(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
                return True
        return False

    # -- consumers -----------------------------------------------------------------------------------------------------

    def _reserve(self, pod: Pod, group: PodGroup | None) -> None:
        """Reserve allocated claims for a pod, or its group, that was bound without reserving them."""
        if not pod.spec.node_name:
            return
        own = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        for claim_ref, name in zip(pod.spec.resource_claims, _claim_names(pod), strict=True):
            claim = self._cluster.find(ResourceClaim, name, pod.metadata.namespace) if name else None
            if claim is None or claim.status.allocation is None or len(claim.status.reserved_for) >= MAX_RESERVED:
                continue
            consumers = own if group is None else group_consumer(group), own
            if set(consumers).isdisjoint(claim.status.reserved_for):
                is_of_group = group is not None and is_group_claim(claim_ref, group)
                reserved = (*claim.status.reserved_for, consumers[0] if is_of_group else own)
                self._cluster.replace(replace(claim, status=replace(claim.status, reserved_for=reserved)))

    def _sync_claim(self, claim: ResourceClaim) -> None:
        """Remove former consumers from a claim; after the last, release its devices or delete it."""
        namespace, owner = claim.metadata.namespace, _owner(claim)
        consumers = tuple(each for each in claim.status.reserved_for if self._may_use(namespace, each))
        deleted = claim.metadata.deletion_timestamp is not None
        if consumers != claim.status.reserved_for or (deleted and not consumers):
            claim = self._set_consumers(claim, consumers)
        if consumers or deleted or owner is None:
            return
        is_needed = self._needs_claims if owner.kind == "Pod" else self._is_group
        if not is_needed(namespace, owner.name, owner.uid):
            self._cluster.remove_object(claim)

    def _is_in_use(self, claim: ResourceClaim) -> bool:
        """Return whether a claim that is not being deleted has only consumers that are still ones."""
        metadata = claim.metadata
        for consumer in claim.status.reserved_for:
            if not self._may_use(metadata.namespace, consumer):
                return False
        return metadata.deletion_timestamp is None

    def _may_use(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        """Return whether a consumer is still one; those of other kinds than pods and groups cannot be checked here."""
        if (consumer.api_group, consumer.resource) == ("", "pods"):
            return self._needs_claims(namespace, consumer.name, consumer.uid)
        is_group = (consumer.api_group, consumer.resource) == ("scheduling.k8s.io", "podgroups")
        return not (is_group and self._groups_have_claims) or self._is_group(namespace, consumer.name, consumer.uid)

    def _needs_claims(self, namespace: str, pod_name: str, uid: str) -> bool:
        pod = self._cluster.find(Pod, pod_name, namespace)
        return pod is not None and pod.metadata.uid == uid and not is_pod_done(pod)

    def _is_group(self, namespace: str, name: str, uid: str) -> bool:
        group = self._cluster.find(PodGroup, name, namespace)
        return group is not None and group.metadata.uid == uid

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


def _claim_names(pod: Pod) -> list[str | None]:
    """Return the names of a pod's claims, in order; None for one that does not exist yet, or is not needed."""
    statuses = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    return [each.resource_claim_name or statuses.get(each.name) for each in pod.spec.resource_claims]


def _has_same_claims(old: Pod, new: Pod) -> bool:
    return (
        old.spec.node_name == new.spec.node_name
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )


def _has_same_statuses(old: PodGroup, new: PodGroup) -> bool:
    return old.status.resource_claim_statuses == new.status.resource_claim_statuses


def _has_same_consumers(old: ResourceClaim, new: ResourceClaim) -> bool:
    was, now = old.metadata, new.metadata
    return (
        old.status.reserved_for == new.status.reserved_for
        and was.deletion_timestamp == now.deletion_timestamp
        and was.owner_references == now.owner_references
    )


def _owner(claim: ResourceClaim) -> OwnerReference | None:
    """Return the pod or the PodGroup that a claim was created for."""
    owner = claim.metadata.controlling_owner
    return None if owner is None or _kind(owner) is None else owner


def _kind(owner: OwnerReference) -> type[Pod] | type[PodGroup] | None:
    if (owner.api_version, owner.kind) == ("v1", "Pod"):
        return Pod
    return PodGroup if owner.kind == "PodGroup" and owner.api_version.startswith("scheduling.k8s.io/") else None


def _owner_key(claim: ResourceClaim) -> _OwnerKey | None:
    owner = _owner(claim)
    kind = None if owner is None else _kind(owner)
    return None if owner is None or kind is None else (kind, (claim.metadata.namespace, owner.name))


def _users(claim: ApiObject | None) -> set[str]:
    """Return the uids of the owner of a claim and of those that it is reserved for."""
    if not isinstance(claim, ResourceClaim):
        return set()
    owner, consumers = _owner(claim), {each.uid for each in claim.status.reserved_for}
    return consumers if owner is None else {owner.uid, *consumers}


def _claim_from_template(
    owner: Pod | PodGroup, claim_ref: PodResourceClaim, template: ResourceClaimTemplate
) -> ResourceClaim:
    template_metadata, halves = template.spec.metadata, (owner.metadata.name, claim_ref.name)
    base = f"{owner.metadata.name}-{claim_ref.name}-"
    if (length := len(base)) > _MAX_BASE_LENGTH:
        base = "-".join(half[: len(half) * _MAX_BASE_LENGTH // length] for half in halves)
    metadata = ObjectMeta(
        generate_name=base,
        namespace=owner.metadata.namespace,
        labels=template_metadata.labels,
        annotations=template_metadata.annotations | {POD_CLAIM_NAME: claim_ref.name},
        owner_references=(owner_reference(owner),),
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)
