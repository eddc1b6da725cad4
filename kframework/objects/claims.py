"""Relations of pods, their groups, claims and volumes, which schedulers, controllers and provisioners share."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.objects.label_selectors import Matcher, SelectorError, label_selector
from kframework.objects.meta import ObjectMeta
from kframework.objects.pod import PodResourceClaim, Volume
from kframework.objects.pod_groups import PodGroup
from kframework.objects.quantity import nano
from kframework.objects.resource_claims import ResourceClaimConsumerReference
from kframework.objects.storage import PersistentVolume, PersistentVolumeClaim

#: On a claim: its binding is complete.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: On a claim or a volume: it was bound by the controller, not by its author.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: On a volume: its provisioner.
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
#: On a claim: the node for which its volume is to be created.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

#: The provisioner of classes whose volumes are created by hand.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
#: The binding mode of classes whose claims wait for a pod.
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

_SCHEDULING = "scheduling.k8s.io"
_STORAGE = "storage"
_FILESYSTEM = "Filesystem"


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """Name the claim behind a pod's volume; None for a volume of another kind."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod_name}-{volume.name}" if volume.ephemeral is not None else None


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Name the storage class of a claim, empty if it has none."""
    return claim.metadata.annotations.get(_BETA_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(_BETA_CLASS, volume.spec.storage_class_name or "")


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_claimed_by(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    by, metadata = volume.spec.claim_ref, claim.metadata
    if by is None or (by.namespace, by.name) != (metadata.namespace, metadata.name):
        return False
    return by.uid in ("", metadata.uid)


def is_free(volume: PersistentVolume) -> bool:
    return volume.spec.claim_ref is None and volume.status.phase == "Available"


def is_controlled_by(metadata: ObjectMeta, uid: str) -> bool:
    controller = metadata.controlling_owner
    return controller is not None and controller.uid == uid


def is_controlled_by_group(metadata: ObjectMeta, name: str) -> bool:
    """Return whether an object belongs to the PodGroup of this name; pods do not know the uid of theirs."""
    controller = metadata.controlling_owner
    return (
        controller is not None
        and (controller.kind, controller.name) == ("PodGroup", name)
        and controller.api_version.startswith(f"{_SCHEDULING}/")
    )


def is_group_claim(reference: PodResourceClaim, group: PodGroup) -> bool:
    """Return whether a claim of a pod is one of its PodGroup: the same name, and the same claim or template."""
    return reference in group.spec.resource_claims


def group_consumer(group: PodGroup) -> ResourceClaimConsumerReference:
    """Return what a claim is reserved for that the pods of a PodGroup share."""
    metadata = group.metadata
    return ResourceClaimConsumerReference(
        api_group=_SCHEDULING, resource="podgroups", name=metadata.name, uid=metadata.uid
    )


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Return the storage that a claim requests, in nanos of a byte."""
    return nano(claim.spec.resources.requests.get(_STORAGE, 0))


def storage_capacity(volume: PersistentVolume) -> int:
    return nano(volume.spec.capacity.get(_STORAGE, 0))


class ClaimRequirements:
    """A claim's requirements on a volume, except its topology; SelectorError if its selector does not parse."""

    __slots__ = ("_access_modes", "_attributes_class", "_mode", "_selector", "size")

    def __init__(self, claim: PersistentVolumeClaim) -> None:
        spec = claim.spec
        self.size: int = requested_storage(claim)
        self._access_modes = frozenset(spec.access_modes)
        self._attributes_class = spec.volume_attributes_class_name or ""
        self._mode = spec.volume_mode or _FILESYSTEM
        self._selector: Matcher | None = None
        if spec.selector is not None:
            try:
                self._selector = label_selector(spec.selector).matches
            except SelectorError as problem:
                key = f"{claim.metadata.namespace}/{claim.metadata.name}"
                message = f"error creating internal label selector for claim: {key}: {problem}"
                raise SelectorError(message) from problem

    def suits(self, volume: PersistentVolume) -> bool:
        """Return whether a volume that is kept for the claim can serve it: size, mode and attributes."""
        spec = volume.spec
        return (
            volume.metadata.deletion_timestamp is None
            and storage_capacity(volume) >= self.size
            and (spec.volume_mode or _FILESYSTEM) == self._mode
            and (spec.volume_attributes_class_name or "") == self._attributes_class
        )

    def may_be_bound(self, volume: PersistentVolume) -> bool:
        """Return whether a volume suits the claim and has its access modes, as the controller always requires."""
        return self.suits(volume) and self._access_modes.issubset(volume.spec.access_modes)

    def may_take(self, volume: PersistentVolume) -> bool:
        """Return whether the claim can be bound to an unreserved volume: it is available and fully matches."""
        labels: Mapping[str, str] = volume.metadata.labels
        return is_free(volume) and self.may_be_bound(volume) and (self._selector is None or self._selector(labels))
