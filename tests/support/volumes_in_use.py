"""Claims, volumes and what drivers tell of nodes, in few words; and what NodeVolumeLimits says, worked out slowly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kframework.objects import (
    AttachedVolume,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSISource,
    EphemeralSource,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSource,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Pod,
    StorageClass,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeNodeResources,
)
from kframework.objects.csi_migration import (
    TranslationError,
    in_tree_plugin,
    translate_inline_volume,
    translate_volume,
    volume_driver,
)
from kframework.objects.meta import ApiObject
from kframework.state.cluster import ClusterState
from kframework.testing import make_pod

__all__ = [
    "attachment",
    "claim",
    "csi_node",
    "csi_volume",
    "ephemeral",
    "put",
    "slow_answer",
    "storage_class",
    "using",
    "volume",
]

EXCEEDED = "node(s) exceed max volume count"


def claim(
    name: str,
    volume_name: str = "",
    *,
    namespace: str = "default",
    storage_class: str | None = None,
    modes: Iterable[str] = ("ReadWriteOnce",),
    owner: str = "",
) -> PersistentVolumeClaim:
    """Make a claim; `owner` is the uid of the pod for whose ephemeral volume it is."""
    owners = (OwnerReference(kind="Pod", uid=owner, controller=True),) if owner else ()
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace=namespace, owner_references=owners),
        spec=PersistentVolumeClaimSpec(
            volume_name=volume_name, storage_class_name=storage_class, access_modes=tuple(modes)
        ),
    )


def volume(name: str, spec: PersistentVolumeSpec, **labels: str) -> PersistentVolume:
    """Make a volume."""
    return PersistentVolume(metadata=ObjectMeta(name=name, labels=labels), spec=spec)


def csi_volume(name: str, driver: str = "a", handle: str = "") -> PersistentVolume:
    """Make a volume of a CSI driver; its handle is its name by default."""
    return volume(name, PersistentVolumeSpec(csi=CSISource(driver=driver, volume_handle=handle or name)))


def storage_class(name: str, provisioner: str) -> StorageClass:
    """Make a storage class."""
    return StorageClass(metadata=ObjectMeta(name=name), provisioner=provisioner)


def csi_node(name: str, limits: Mapping[str, int | None]) -> CSINode:
    """Make a CSINode with these drivers and limits."""
    drivers = [
        CSINodeDriver(name=driver, allocatable=None if limit is None else VolumeNodeResources(count=limit))
        for driver, limit in limits.items()
    ]
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=tuple(drivers)))


def attachment(name: str, node_name: str, volume_name: str | None, attacher: str = "a") -> VolumeAttachment:
    """Make a VolumeAttachment; without a volume's name it is that of an inline volume."""
    source = AttachedVolume(persistent_volume_name=volume_name)
    spec = VolumeAttachmentSpec(attacher=attacher, node_name=node_name, source=source)
    return VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec)


def ephemeral(name: str) -> Volume:
    """Make an ephemeral volume."""
    return Volume(name=name, ephemeral=EphemeralSource())


def using(*volumes: str | Volume, name: str = "pod", node_name: str = "", namespace: str = "default") -> Pod:
    """Make a pod with these volumes, claims by their names."""
    made = tuple(
        Volume(name=f"v{place}", persistent_volume_claim=PersistentVolumeClaimSource(claim_name=each))
        if isinstance(each, str)
        else each
        for place, each in enumerate(volumes)
    )
    return make_pod(name, namespace=namespace, node_name=node_name, volumes=made)


def put(cluster: ClusterState, *objects: ApiObject) -> None:
    """Tell the cluster of these objects."""
    for obj in objects:
        cluster.objects(type(obj)).put(obj.metadata, obj)


class _Missing(Exception):
    """A claim of the pod is not there."""


class _Broken(Exception):
    """A volume cannot be made sense of."""


def slow_answer(cluster: ClusterState, pod: Pod, node_name: str, objects: Mapping[str, Pod]) -> tuple[str, str] | None:
    """Say what is wrong with a node: code and reason; the text of an error does not matter.

    `objects` are the pods of the cluster by uid.
    """
    node_info = cluster.nodes.find(node_name)
    assert node_info is not None
    on_node = cluster.objects(CSINode).latest(node_name)
    try:
        new = _volumes(cluster, pod, on_node is not None, is_new=True)
        if not new:
            return None
        limits = _limits(on_node)
        if not limits:
            return None
        of_pods: dict[str, str] = {}
        for info in node_info.pods:
            of_pods |= _volumes(cluster, objects[info.uid], csi=True, is_new=False)
    except _Missing as missing:
        return "UnschedulableAndUnresolvable", str(missing)
    except _Broken:
        return "Error", ""
    new = {name: driver for name, driver in new.items() if name not in of_pods}
    current = _attached(cluster, node_name) | of_pods
    for driver in set(new.values()):
        total = list(current.values()).count(driver) + list(new.values()).count(driver)
        if driver in limits and total > limits[driver]:
            return "Unschedulable", EXCEEDED
    return None


def _limits(on_node: CSINode | None) -> dict[str, int]:
    limits = {}
    for driver in on_node.spec.drivers if on_node is not None else ():
        if driver.allocatable is not None and driver.allocatable.count is not None:
            limits[driver.name] = driver.allocatable.count
    return limits


def _attached(cluster: ClusterState, node_name: str) -> dict[str, str]:
    found = {}
    for each in cluster.objects(VolumeAttachment):
        name = each.spec.source.persistent_volume_name
        volume = cluster.objects(PersistentVolume).latest(name) if name is not None else None
        if each.spec.node_name == node_name and each.spec.attacher and volume is not None and volume.spec.csi:
            found[f"{each.spec.attacher}/{volume.spec.csi.volume_handle}"] = each.spec.attacher
    return found


def _volumes(cluster: ClusterState, pod: Pod, csi: bool, *, is_new: bool) -> dict[str, str]:
    """Return the drivers of a pod's volumes by their unique names; `csi`: the node has a CSINode."""
    found: dict[str, str] = {}
    namespace, pod_name = pod.metadata.namespace, pod.metadata.name
    for each in pod.spec.volumes:
        if each.persistent_volume_claim is not None:
            name = each.persistent_volume_claim.claim_name
        elif each.ephemeral is not None:
            name = f"{pod_name}-{each.name}"
        else:
            if csi and in_tree_plugin(each) is not None:
                try:
                    source = translate_inline_volume(each)
                except TranslationError as problem:
                    raise _Broken from problem
                if source is not None:
                    found[f"{source.driver}/{source.volume_handle}"] = source.driver
            continue
        if not name:
            raise _Broken
        claimed = cluster.objects(PersistentVolumeClaim).latest(name, namespace)
        if claimed is None:
            if is_new:
                raise _Missing(f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found')
            continue
        owners = [owner.uid for owner in claimed.metadata.owner_references if owner.controller]
        if each.ephemeral is not None and owners != [pod.metadata.uid]:
            raise _Broken
        driver, handle = _driver_info(cluster, claimed)
        if driver and handle:
            found[f"{driver}/{handle}"] = driver
    return found


def _driver_info(cluster: ClusterState, claimed: PersistentVolumeClaim) -> tuple[str, str]:
    volume = cluster.objects(PersistentVolume).latest(claimed.spec.volume_name)
    if volume is not None:
        try:
            source = volume.spec.csi or translate_volume(volume)
        except TranslationError:
            source = None
        return (source.driver, source.volume_handle) if source is not None else ("", "")
    named = cluster.objects(StorageClass).latest(claimed.spec.storage_class_name or "")
    driver = volume_driver(named.provisioner) if named is not None else ""
    return driver, f"random-{claimed.metadata.namespace}/{claimed.metadata.name}"
