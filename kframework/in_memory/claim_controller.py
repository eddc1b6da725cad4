"""The ResourceClaim controller of a cluster in memory, with the garbage collector's part.

A claim is created for each pod that names a template, and deleted with the pod; a claim without consumers releases its
devices (kube-controller-manager's `resourceclaim`, without claims of pod groups).
"""

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
from kframework.objects.resource_claims import DELETE_PROTECTION, MAX_RESERVED, POD_CLAIM_NAME

#: Longer beginnings of a generated name are shortened, both halves alike: 63 characters without a hyphen and a suffix.
_LONGEST_BASE = 57


class ClaimController(MemoryController):
    """Creates, reserves, releases and deletes claims to devices."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod, ResourceClaimTemplate, ResourceClaim)

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        # Changed objects that are not reconciled yet, in order.
        self._pods: dict[Key, None] = {}
        self._claims: dict[Key, None] = {}
        self._without_template: dict[Key, None] = {}  # pods that were reconciled; a template may help
        self._of_pods: dict[str, dict[Key, None]] = {}  # claims that a pod uses or owns, by its uid

    @property
    def idle(self) -> bool:
        return not (self._pods or self._claims)

    def _receive(self, change: Change) -> None:
        match change.subject:
            case Pod() as pod:
                # Most have no claims at all, and each is received several times.
                if not pod.spec.resource_claims and pod.metadata.uid not in self._of_pods:
                    return
                if change.new is None or is_done(pod):
                    self._claims |= self._of_pods.get(pod.metadata.uid, {})
                elif isinstance(change.old, Pod) and _stands_the_same(change.old, pod):
                    return
                self._pods[key_of(pod)] = None
            case ResourceClaim() as claim:
                if (
                    isinstance(change.old, ResourceClaim)
                    and change.new is not None
                    and _used_the_same(change.old, claim)
                ):
                    return
                if change.new is None and (owner := _owner(claim)) is not None:
                    self._pods[claim.metadata.namespace, owner.name] = None  # it is created again
                self._claims[key_of(claim)] = None
                self._index(key_of(claim), change)
            case _:
                self._pods |= self._without_template
        self._wake.set()

    def _index(self, key: Key, change: Change) -> None:
        """Note which pods use or own a claim."""
        before, after = _pods_of(change.old), _pods_of(change.new)
        for gone in before - after:
            self._of_pods[gone].pop(key)
            if not self._of_pods[gone]:
                del self._of_pods[gone]
        for come in after - before:
            self._of_pods.setdefault(come, {})[key] = None

    def _work(self) -> None:
        while not self.idle:
            pods, self._pods = self._pods, {}
            for key in pods:
                self._without_template.pop(key, None)
                pod = self._pod(key)
                if pod is not None and pod.metadata.deletion_timestamp is None and not is_done(pod):
                    self._reserve(self._with_claims(pod))
            claims, self._claims = self._claims, {}
            for key in claims:
                claim = self._cluster.find(ResourceClaim, key[1], key[0])
                if claim is not None:
                    self._tidy(claim)

    def _pod(self, key: Key) -> Pod | None:
        return self._cluster.find(Pod, key[1], key[0])

    def _with_claims(self, pod: Pod) -> Pod:
        """Create the claims for a pod's templates, and write their names to its status."""
        made = {named.name: name for named in pod.spec.resource_claims if (name := self._made(pod, named)) is not None}
        if not made:
            return pod
        told = [each for each in pod.status.resource_claim_statuses if each.name not in made]
        told += [PodResourceClaimStatus(name=name, resource_claim_name=claim) for name, claim in made.items()]
        return self._cluster.set_status(pod, replace(pod.status, resource_claim_statuses=tuple(told)))

    def _made(self, pod: Pod, named: PodResourceClaim) -> str | None:
        """Return the name of the claim that a template was missing until now; None if nothing is missing, or it is."""
        if named.resource_claim_template_name is None or self._is_there(pod, named):
            return None
        # One may have been created for the pod and not be in its status yet.
        for namespace, name in self._of_pods.get(pod.metadata.uid, ()):
            claim = self._cluster.find(ResourceClaim, name, namespace)
            if (
                claim is not None
                and claim.metadata.annotations.get(POD_CLAIM_NAME) == named.name
                and is_controlled_by(claim.metadata, pod.metadata.uid)
            ):
                return name
        template = self._cluster.find(ResourceClaimTemplate, named.resource_claim_template_name, pod.metadata.namespace)
        if template is None:
            self._without_template[key_of(pod)] = None
            return None
        return self._cluster.add(_from_template(pod, named, template)).metadata.name

    def _is_there(self, pod: Pod, named: PodResourceClaim) -> bool:
        """Return whether the pod's status names its claim, or marks it as not needed."""
        told = next((each for each in pod.status.resource_claim_statuses if each.name == named.name), None)
        if told is None:
            return False
        if told.resource_claim_name is None:
            return True
        claim = self._cluster.find(ResourceClaim, told.resource_claim_name, pod.metadata.namespace)
        return claim is not None and is_controlled_by(claim.metadata, pod.metadata.uid)

    def _reserve(self, pod: Pod) -> None:
        """Reserve allocated claims for a pod that was bound without reserving them."""
        if not pod.spec.node_name or is_done(pod):
            return
        told = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        for named in pod.spec.resource_claims:
            name = named.resource_claim_name or told.get(named.name)
            claim = self._cluster.find(ResourceClaim, name, pod.metadata.namespace) if name else None
            if claim is None or claim.status.allocation is None or len(claim.status.reserved_for) >= MAX_RESERVED:
                continue
            if all(each.uid != user.uid for each in claim.status.reserved_for):
                reserved = (*claim.status.reserved_for, user)
                self._cluster.replace(replace(claim, status=replace(claim.status, reserved_for=reserved)))

    def _tidy(self, claim: ResourceClaim) -> None:
        """Remove former consumers from a claim; without any left, release its devices or delete it."""
        users = tuple(each for each in claim.status.reserved_for if self._uses(claim, each))
        deleted = claim.metadata.deletion_timestamp is not None
        if users != claim.status.reserved_for:
            claim = self._free(claim, users)
        elif deleted and not users:
            claim = self._free(claim, ())
        if not users and not deleted and self._outlives_its_pod(claim):
            self._cluster.remove(ResourceClaim, claim.metadata.name, claim.metadata.namespace)

    def _uses(self, claim: ResourceClaim, user: ResourceClaimConsumerReference) -> bool:
        if (user.api_group, user.resource) != ("", "pods"):
            return True  # cannot be checked here
        pod = self._pod((claim.metadata.namespace, user.name))
        return pod is not None and pod.metadata.uid == user.uid and not is_done(pod)

    def _free(self, claim: ResourceClaim, users: tuple[ResourceClaimConsumerReference, ...]) -> ResourceClaim:
        """Set a claim's consumers; if there are none, remove its devices and its finalizer."""
        status = replace(claim.status, reserved_for=users, allocation=claim.status.allocation if users else None)
        claim = self._cluster.replace(replace(claim, status=status))
        if users:
            return claim
        rest = tuple(each for each in claim.metadata.finalizers if each != DELETE_PROTECTION)
        return self._cluster.replace(replace(claim, metadata=replace(claim.metadata, finalizers=rest)))

    def _outlives_its_pod(self, claim: ResourceClaim) -> bool:
        owner = _owner(claim)
        if owner is None:
            return False
        pod = self._pod((claim.metadata.namespace, owner.name))
        return pod is None or pod.metadata.uid != owner.uid or is_done(pod)


def is_done(pod: Pod) -> bool:
    """Return whether a pod will not use its claims any more: it has ended, or is being deleted and was never bound."""
    return has_ended(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _stands_the_same(old: Pod, new: Pod) -> bool:
    """Return whether a change of a pod does not affect its claims: each is received several times."""
    return (
        old.spec.node_name == new.spec.node_name
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )


def _used_the_same(old: ResourceClaim, new: ResourceClaim) -> bool:
    """Return whether a change of a claim does not affect its consumers and its owner."""
    was, now = old.metadata, new.metadata
    return (
        old.status.reserved_for == new.status.reserved_for
        and was.deletion_timestamp == now.deletion_timestamp
        and was.owner_references == now.owner_references
    )


def _owner(claim: ResourceClaim) -> OwnerReference | None:
    owners = claim.metadata.owner_references
    return next((each for each in owners if each.controller and (each.api_version, each.kind) == ("v1", "Pod")), None)


def _pods_of(claim: ApiObject | None) -> set[str]:
    """Return the uids of the pods that use or own a claim."""
    if not isinstance(claim, ResourceClaim):
        return set()
    owner, users = _owner(claim), {each.uid for each in claim.status.reserved_for}
    return users if owner is None else {owner.uid, *users}


def _from_template(pod: Pod, named: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    said, halves = template.spec.metadata, (pod.metadata.name, named.name)
    base = f"{pod.metadata.name}-{named.name}-"
    if (length := len(base)) > _LONGEST_BASE:
        base = "-".join(half[: len(half) * _LONGEST_BASE // length] for half in halves)
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
    metadata = ObjectMeta(
        generate_name=base,
        namespace=pod.metadata.namespace,
        labels=said.labels,
        annotations=said.annotations | {POD_CLAIM_NAME: named.name},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)
