"""FindPodVolumes, slow and obvious: every volume is looked at for every claim on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kframework.objects import (
    CSIDriver,
    CSIStorageCapacity,
    Node,
    NodeSelector,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kframework.objects.label_selectors import label_selector
from kframework.objects.node_selectors import NodeSelectorTerms
from kframework.objects.quantity import nano, value
from kframework.state.cluster import ClusterState
from kframework.state.volumes.pod_volumes import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING

__all__ = ["slow_find"]

Pairs = list[tuple[str, str]]


def slow_find(
    cluster: ClusterState,
    bound: Sequence[PersistentVolumeClaim],
    waiting: Sequence[PersistentVolumeClaim],
    node: Node,
) -> tuple[int, Pairs, list[str]]:
    """Return the rejection of the node, (volume, claim) by name, and the names of claims to be provisioned."""
    bits = bound_bits(cluster, bound, node)
    selected = [each for each in waiting if selected_node(each) is not None]
    if any(selected_node(each) != node.metadata.name for each in selected):
        return bits | BIND_CONFLICT, [], []
    pairs: Pairs = []
    unmatched = []
    for claim in sorted((each for each in waiting if selected_node(each) is None), key=size_of_claim):
        found = find_volume(cluster, claim, node, [name for name, _ in pairs])
        if found is None:
            unmatched.append(claim)
        else:
            pairs.append((found.metadata.name, claim.metadata.name))
    for claim in selected + unmatched:
        rejection = provisioning(cluster, claim, node)
        if rejection:
            bits |= rejection
            break
    return bits, pairs, [claim.metadata.name for claim in selected + unmatched]


def bound_bits(cluster: ClusterState, claims: Sequence[PersistentVolumeClaim], node: Node) -> int:
    for claim in claims:
        volume = cluster.objects(PersistentVolume).get(claim.spec.volume_name)
        if volume is None:
            return VOLUME_MISSING
        if not reaches(volume, node):
            return NODE_CONFLICT
    return 0


def find_volume(
    cluster: ClusterState, claim: PersistentVolumeClaim, node: Node, taken: Sequence[str]
) -> PersistentVolume | None:
    smallest, name = None, class_of(claim.metadata, claim.spec.storage_class_name)
    for volume in sorted(cluster.objects(PersistentVolume), key=lambda each: (size_of(each), each.metadata.name)):
        spec = volume.spec
        if volume.metadata.name in taken or class_of(volume.metadata, spec.storage_class_name) != name:
            continue
        if spec.claim_ref is not None and not kept_for(volume, claim):
            continue
        if size_of(volume) < size_of_claim(claim) or volume.metadata.deletion_timestamp is not None:
            continue
        if (spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
            continue
        if (spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
            continue
        if kept_for(volume, claim):
            return volume if reaches(volume, node) else None
        if volume.status.phase != "Available" or not reaches(volume, node):
            continue
        if claim.spec.selector is not None and not label_selector(claim.spec.selector).matches(volume.metadata.labels):
            continue
        if set(claim.spec.access_modes) <= set(spec.access_modes) and smallest is None:
            smallest = volume
    return smallest


def provisioning(cluster: ClusterState, claim: PersistentVolumeClaim, node: Node) -> int:
    labels = node.metadata.labels
    storage_class = cluster.objects(StorageClass).get(class_of(claim.metadata, claim.spec.storage_class_name))
    if storage_class is None or storage_class.provisioner in ("", "kubernetes.io/no-provisioner"):
        return BIND_CONFLICT
    terms = storage_class.allowed_topologies
    allowed = [
        all(labels.get(each.key) in each.values for each in term.match_label_expressions)
        for term in terms
        if term.match_label_expressions
    ]
    if terms and not any(allowed):
        return BIND_CONFLICT
    driver = cluster.objects(CSIDriver).get(storage_class.provisioner)
    size = claim.spec.resources.requests.get("storage")
    if driver is None or not driver.spec.storage_capacity or size is None:
        return 0
    for room in cluster.objects(CSIStorageCapacity):
        limit = room.maximum_volume_size if room.maximum_volume_size is not None else room.capacity
        near = room.node_topology is not None and label_selector(room.node_topology).matches(labels)
        if room.storage_class_name == storage_class.metadata.name and near:
            if limit is not None and value(limit) >= value(size):
                return 0
    return NOT_ENOUGH_SPACE


def reaches(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    required: NodeSelector | None = affinity.required if affinity is not None else None
    return required is None or NodeSelectorTerms(required.node_selector_terms).matches(node.metadata.labels, "")


def kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    by = volume.spec.claim_ref
    metadata = claim.metadata
    same = by is not None and (by.name, by.namespace) == (metadata.name, metadata.namespace)
    return same and by is not None and by.uid in ("", metadata.uid)


def class_of(metadata: ObjectMeta, named: str | None) -> str:
    return metadata.annotations.get("volume.beta.kubernetes.io/storage-class", named or "")


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    annotations: Mapping[str, str] = claim.metadata.annotations
    return annotations.get("volume.kubernetes.io/selected-node")


def size_of(volume: PersistentVolume) -> int:
    return nano(volume.spec.capacity.get("storage", 0))


def size_of_claim(claim: PersistentVolumeClaim) -> int:
    return nano(claim.spec.resources.requests.get("storage", 0))
