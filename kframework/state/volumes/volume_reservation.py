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
from kframework.objects.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, claim_reference, is_bound, is_claimed_by
from kframework.state.nodes import NodeInfo
from kframework.state.volumes.pod_volumes import PodVolumes, VolumeReach
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

    def assume(self, found: PodVolumes) -> None:
        """Assume the volumes found for the node; if they are out of date, undo it and raise AssumptionError."""
        for volume, claim in found.static:
            kept = _kept(volume, claim)
            if kept != volume:
                self._storage.volumes.assume(kept.metadata, kept)
                self._undo.append(partial(self._storage.volumes.restore, kept.metadata))
            self.volumes.append((kept, claim))
        for claim in found.provisioned:
            placed = _annotated(claim.metadata, SELECTED_NODE, self._node_name)
            claim = replace(claim, metadata=placed)
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
        return all(self._is_kept(volume, claim, node) for volume, claim in self.volumes) and all(
            self._is_made(claim, node) for claim in self.claims
        )

    def _is_kept(self, written: PersistentVolume, claim: PersistentVolumeClaim, node: NodeInfo) -> bool:
        name = written.metadata.name
        volume = self._storage.volumes.latest(name)
        if volume is None:
            raise BindingError(f'failed to check binding: persistentvolumes "{name}" not found')
        bound = self._claim(claim, "failed to check binding")
        if _lags(volume.metadata, written.metadata):
            return False
        self._check_reach(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(bound)

    def _is_made(self, written: PersistentVolumeClaim, node: NodeInfo) -> bool:
        claim = self._claim(written, "failed to check provisioning pvc")
        if _lags(claim.metadata, written.metadata):
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
            self._check_reach(volume, node)
        return is_bound(claim)

    def _claim(self, claim: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        latest = self._storage.claims.latest(name, namespace)
        if latest is None:
            raise BindingError(f'{doing}: persistentvolumeclaims "{namespace}/{name}" not found')
        return latest

    def _check_reach(self, volume: PersistentVolume, node: NodeInfo) -> None:
        if not VolumeReach(volume, self._storage.migrations).covers(node):
            why = "no matching NodeSelectorTerms"
            raise BindingError(f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}": {why}')


def volume_patch(volume: PersistentVolume) -> Mapping[str, object]:
    """Return the merge patch that keeps a volume for its claim, if it is still of this version."""
    return _patch(volume.metadata, BOUND_BY_CONTROLLER) | {
        "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}
    }


def claim_patch(claim: PersistentVolumeClaim) -> Mapping[str, object]:
    """Return the merge patch that has a claim's volume made on its selected node, if it is still of this version."""
    return _patch(claim.metadata, SELECTED_NODE)


def _patch(metadata: ObjectMeta, annotation: str) -> dict[str, object]:
    said = {key: text for key, text in metadata.annotations.items() if key == annotation}
    return {"metadata": {"resourceVersion": metadata.resource_version, "annotations": said}}


def _kept(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Keep a volume for a claim; one that its author kept for it gets no annotation."""
    metadata = volume.metadata
    if not is_claimed_by(volume, claim) and BOUND_BY_CONTROLLER not in metadata.annotations:
        metadata = _annotated(metadata, BOUND_BY_CONTROLLER, "yes")
    by = volume.spec.claim_ref
    if by is not None and by.uid == claim.metadata.uid:
        return volume
    return replace(volume, metadata=metadata, spec=replace(volume.spec, claim_ref=claim_reference(claim)))


def _annotated(metadata: ObjectMeta, key: str, text: str) -> ObjectMeta:
    return replace(metadata, annotations=metadata.annotations | {key: text})


def _lags(seen: ObjectMeta, written: ObjectMeta) -> bool:
    """Return whether the watch has not yet shown the written version."""
    versions = seen.resource_version, written.resource_version
    return all(version.isdecimal() for version in versions) and int(versions[0]) < int(versions[1])
