"""The planned volumes of a pod, from its reservation until the cluster has bound them (kube-scheduler's binder).

Reserved volumes and claims are assumed: until a newer version arrives, no other pod gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from kframework.errors import KFrameworkError
from kframework.objects import ObjectMeta, PersistentVolume, PersistentVolumeClaim
from kframework.objects.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, is_bound, is_claimed_by
from kframework.objects.kinds import object_reference
from kframework.state.nodes import NodeInfo
from kframework.state.volumes.pod_volumes import PodVolumes, VolumeAccess
from kframework.state.volumes.volumes import Storage


class BindingError(KFrameworkError):
    """Raised when volumes will not be bound as reserved; in kube-scheduler's words."""


class VolumeReservation:
    """The volumes reserved for claims, and the claims to be provisioned, for a node.

    `volumes` (with their claims) and `claims` are as assumed; a caller that writes one to the API replaces it by the
    result.
    """

    def __init__(self, storage: Storage, node_name: str) -> None:
        self._storage = storage
        self._node_name = node_name
        self.volumes: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        self.claims: list[PersistentVolumeClaim] = []
        self._undo: list[Callable[[], None]] = []

    def assume(self, volumes: PodVolumes) -> None:
        """Assume the volumes found for the node; if they are out of date, undo it and raise AssumptionError."""
        for volume, claim in volumes.static:
            reserved = _reserve_volume(volume, claim)
            if reserved != volume:
                self._storage.volumes.assume(reserved.metadata, reserved)
                self._undo.append(partial(self._storage.volumes.restore, reserved.metadata))
            self.volumes.append((reserved, claim))
        for claim in volumes.provisioned:
            metadata = _with_annotation(claim.metadata, SELECTED_NODE, self._node_name)
            claim = replace(claim, metadata=metadata)
            self._storage.claims.assume(claim.metadata, claim)
            self._undo.append(partial(self._storage.claims.restore, claim.metadata))
            self.claims.append(claim)

    def restore(self) -> None:
        """Drop the assumptions, even of objects written meanwhile: the watch will report their state.

        A replay has no writes, so what it restores must not depend on them.
        """
        for undo in self._undo:
            undo()

    def is_complete(self, node: NodeInfo) -> bool:
        """Return whether the cluster has bound everything; BindingError if it will not."""
        return all(self._is_volume_bound(volume, claim, node) for volume, claim in self.volumes) and all(
            self._is_provisioned(claim, node) for claim in self.claims
        )

    def _is_volume_bound(self, written: PersistentVolume, claim: PersistentVolumeClaim, node: NodeInfo) -> bool:
        name = written.metadata.name
        volume = self._storage.volumes.latest(name)
        if volume is None:
            raise BindingError(f'failed to check binding: persistentvolumes "{name}" not found')
        latest_claim = self._latest_claim(claim, "failed to check binding")
        if _is_behind(volume.metadata, written.metadata):
            return False
        self._check_access(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(latest_claim)

    def _is_provisioned(self, written: PersistentVolumeClaim, node: NodeInfo) -> bool:
        claim = self._latest_claim(written, "failed to check provisioning pvc")
        if _is_behind(claim.metadata, written.metadata):
            return False
        name, annotations = claim.metadata.name, claim.metadata.annotations
        if not annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{name}"')
        if annotations.get(SELECTED_NODE) != node.name:
            raise BindingError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._storage.volumes.latest(claim.spec.volume_name)
            if volume is None:
                return False  # the claim may arrive before its volume
            self._check_access(volume, node)
        return is_bound(claim)

    def _latest_claim(self, claim: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        latest = self._storage.claims.latest(name, namespace)
        if latest is None:
            raise BindingError(f'{doing}: persistentvolumeclaims "{namespace}/{name}" not found')
        return latest

    def _check_access(self, volume: PersistentVolume, node: NodeInfo) -> None:
        if not VolumeAccess(volume, self._storage.migrations).includes(node):
            why = "no matching NodeSelectorTerms"
            raise BindingError(f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}": {why}')


def volume_patch(volume: PersistentVolume) -> Mapping[str, object]:
    """Return the merge patch that reserves a volume for its claim, if it is still of this version."""
    return _patch(volume.metadata, BOUND_BY_CONTROLLER) | {
        "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}
    }


def claim_patch(claim: PersistentVolumeClaim) -> Mapping[str, object]:
    """Return the merge patch that requests a volume on the claim's selected node, if it is still of this version."""
    return _patch(claim.metadata, SELECTED_NODE)


def _patch(metadata: ObjectMeta, annotation: str) -> dict[str, object]:
    annotations = {key: text for key, text in metadata.annotations.items() if key == annotation}
    return {"metadata": {"resourceVersion": metadata.resource_version, "annotations": annotations}}


def _reserve_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Reserve a volume for a claim; one that its author reserved for it gets no annotation."""
    metadata = volume.metadata
    if not is_claimed_by(volume, claim) and BOUND_BY_CONTROLLER not in metadata.annotations:
        metadata = _with_annotation(metadata, BOUND_BY_CONTROLLER, "yes")
    reference = volume.spec.claim_ref
    if reference is not None and reference.uid == claim.metadata.uid:
        return volume
    return replace(volume, metadata=metadata, spec=replace(volume.spec, claim_ref=object_reference(claim)))


def _with_annotation(metadata: ObjectMeta, key: str, text: str) -> ObjectMeta:
    return replace(metadata, annotations=metadata.annotations | {key: text})


def _is_behind(latest: ObjectMeta, written: ObjectMeta) -> bool:
    """Return whether the watch has not yet shown the written version."""
    versions = latest.resource_version, written.resource_version
    return all(version.isdecimal() for version in versions) and int(versions[0]) < int(versions[1])
