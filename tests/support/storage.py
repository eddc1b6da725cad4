"""Claims, volumes and storage classes in few words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kframework.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    NodeSelector,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    Volume,
    VolumeNodeAffinity,
)

__all__ = [
    "affinity",
    "capacity",
    "claim",
    "claim_volumes",
    "driver",
    "ephemeral",
    "label_affinity",
    "migrated_csi_node",
    "owned_by_pod",
    "reference",
    "storage_class",
    "volume",
]

T = TypeVar("T")

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def claim(
    name: str = "data",
    of: str | None = "local",
    size: str | None = "1Gi",
    *,
    bound: str = "",
    selected: str | None = None,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    version: str = "",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """Make a claim to `size` of a class; `bound` to a volume, or with a `selected` node."""
    said = dict(annotations or {})
    if bound:
        said["pv.kubernetes.io/bind-completed"] = "yes"
    if selected is not None:
        said["volume.kubernetes.io/selected-node"] = selected
    about = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": said}
    about |= {"resourceVersion": version} | dict(metadata or {})
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size} if size else {}}}
    stated = wanted | {"volumeName": bound, "storageClassName": of} | spec
    return _read({"metadata": about, "spec": stated, "status": {"phase": phase}}, PersistentVolumeClaim)


def owned_by_pod(of: PersistentVolumeClaim, by: Pod) -> PersistentVolumeClaim:
    """Return the claim as its pod's own."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=by.metadata.name, uid=by.metadata.uid, controller=True)
    return replace(of, metadata=replace(of.metadata, owner_references=(owner,)))


def volume(
    name: str = "disk",
    of: str = "local",
    size: str = "1Gi",
    *,
    on: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    kept_for: Mapping[str, str] | None = None,
    phase: str = "Available",
    version: str = "",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolume:
    """Make a volume; `on` is the `affinity` that says from where it is reached, `kept_for` a claim's `reference`."""
    stated = {"capacity": {"storage": size}, "storageClassName": of, "accessModes": ["ReadWriteOnce"]} | spec
    if on is not None:
        stated["nodeAffinity"] = on
    if kept_for is not None:
        stated["claimRef"] = kept_for
    about = {"name": name, "labels": dict(labels or {}), "resourceVersion": version} | dict(metadata or {})
    return _read({"metadata": about, "spec": stated, "status": {"phase": phase}}, PersistentVolume)


def reference(name: str = "data", uid: str | None = None, namespace: str = "default") -> dict[str, str]:
    """Point to a claim; an empty uid is what an author writes."""
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}" if uid is None else uid}


def affinity(*terms: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for nodes that one of these terms matches, as they stand in YAML."""
    return {"required": {"nodeSelectorTerms": list(terms)}}


def label_affinity(key: str, *values: str) -> dict[str, Any]:
    """Ask for nodes with one of these values of a label."""
    return affinity({"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]})


def storage_class(
    name: str = "local",
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str | None = "WaitForFirstConsumer",
    *,
    allowed: Sequence[Mapping[str, Sequence[str]]] = (),
    default: bool = False,
) -> StorageClass:
    """Make a class; each of the `allowed` topologies maps labels to values."""
    terms = [
        {"matchLabelExpressions": [{"key": key, "values": list(values)} for key, values in term.items()]}
        for term in allowed
    ]
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"name": name, "annotations": annotations}
    stated = {"metadata": metadata, "provisioner": provisioner, "allowedTopologies": terms, "volumeBindingMode": mode}
    return _read(stated, StorageClass)


def driver(name: str, *, counts: bool | None = True) -> CSIDriver:
    """Make a driver that tells, or does not tell, how much room it has."""
    return _read({"metadata": {"name": name}, "spec": {"storageCapacity": counts}}, CSIDriver)


def capacity(
    name: str = "room", of: str = "csi", size: str | None = "10Gi", *, most: str | None = None, **labels: str
) -> CSIStorageCapacity:
    """Say how much room a class has near the nodes of these labels (`topology_kubernetes_io_zone` and the like)."""
    known = {re.sub(r"\W", "_", key): key for key in (HOSTNAME, ZONE)}
    topology = {"matchLabels": {known.get(key, key): value for key, value in labels.items()}}
    stated = {"metadata": {"name": name}, "storageClassName": of, "nodeTopology": topology}
    return _read(stated | {"capacity": size, "maximumVolumeSize": most}, CSIStorageCapacity)


def migrated_csi_node(node_name: str, *plugins: str) -> CSINode:
    """Make a CSINode that says which in-tree plugins are migrated."""
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
    return CSINode(metadata=ObjectMeta(name=node_name, annotations=annotations))


def claim_volumes(*names: str) -> list[Volume]:
    """Make a pod's volumes of these claims."""
    return [_read({"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}}, Volume) for name in names]


def ephemeral(name: str, of: str = "local", size: str = "1Gi") -> Volume:
    """Make a pod's ephemeral volume."""
    spec = {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return _read({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}, Volume)


def node_selector_of(stated: Mapping[str, Any]) -> NodeSelector | None:
    """Return the node selector of an `affinity`."""
    return _read(stated, VolumeNodeAffinity).required


def _read(stated: object, kind: type[T]) -> T:
    return msgspec.convert(stated, kind)
