"""Volumes and their sources, claims, and the self-description of CSI drivers (core/v1 and storage.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, LabelSelector, ObjectMeta, RawQuantity, ResourceList
from kframework.objects.node import NodeSelector


class OpaqueSource(ApiStruct, frozen=True, kw_only=True):
    """A source whose presence alone matters to a scheduler (configMap, secret, emptyDir, ...)."""


class PersistentVolumeClaimSource(ApiStruct, frozen=True, kw_only=True):
    """The claim, in the pod's own namespace, that provides the volume."""

    claim_name: str = ""
    read_only: bool = False


class ImageSource(ApiStruct, frozen=True, kw_only=True):
    """An OCI image mounted as a volume."""

    reference: str = ""
    pull_policy: str = ""


class LocalSource(ApiStruct, frozen=True, kw_only=True):
    """A directory or disk of one node."""

    path: str = ""


class CSISource(ApiStruct, frozen=True, kw_only=True):
    """A volume of a CSI driver; the handle is set in PersistentVolumes only."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False


class GCEPersistentDisk(ApiStruct, frozen=True, kw_only=True):
    """A disk of Google Compute Engine."""

    pd_name: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStore(ApiStruct, frozen=True, kw_only=True):
    """A disk of Amazon EBS."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    partition: int = 0
    read_only: bool = False


class AzureDisk(ApiStruct, frozen=True, kw_only=True):
    """A disk of Azure."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None
    read_only: bool = False


class AzureFile(ApiStruct, frozen=True, kw_only=True):
    """A file share of Azure."""

    share_name: str = ""
    secret_name: str = ""
    read_only: bool = False


class Cinder(ApiStruct, frozen=True, kw_only=True):
    """A disk of OpenStack."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class VsphereVolume(ApiStruct, frozen=True, kw_only=True):
    """A disk of vSphere."""

    volume_path: str = ""


class Portworx(ApiStruct, frozen=True, kw_only=True):
    """A volume of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class ISCSI(ApiStruct, frozen=True, kw_only=True):
    """A disk reached over iSCSI."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class RBD(ApiStruct, frozen=True, kw_only=True):
    """A Ceph block device."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class VolumeSources(ApiStruct, frozen=True, kw_only=True):
    """The sources that volumes of pods and PersistentVolumes have in common; at most one is set."""

    csi: CSISource | None = None
    host_path: OpaqueSource | None = None
    nfs: OpaqueSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: Portworx | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None


class ObjectReference(ApiStruct, frozen=True, kw_only=True):
    """A pointer to another object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class VolumeNodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(VolumeSources, frozen=True, kw_only=True):
    """The `spec` of a volume; exactly one source is set."""

    capacity: ResourceList = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    persistent_volume_reclaim_policy: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    local: LocalSource | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a volume."""

    phase: str = ""


class PersistentVolume(ApiObject, frozen=True, kw_only=True):
    """A piece of storage."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class VolumeResources(ApiStruct, frozen=True, kw_only=True):
    """The storage that a claim requests (`requests.storage`)."""

    requests: ResourceList = msgspec.field(default_factory=dict)
    limits: ResourceList = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a claim; no `storage_class_name` means the default class, an empty one means none."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a claim."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = msgspec.field(default_factory=dict)


class PersistentVolumeClaim(ApiObject, frozen=True, kw_only=True):
    """A user's claim to a volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class PersistentVolumeClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The claim that is created for an ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class TopologySelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """A label and the values allowed for it."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Requirements that must all hold."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(ApiObject, frozen=True, kw_only=True):
    """A class of volumes: how they are provisioned and bound."""

    provisioner: str = ""
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    reclaim_policy: str | None = None
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(ApiStruct, frozen=True, kw_only=True):
    """The limit of a driver's volumes that a node can attach; None means no limit is known."""

    count: int | None = None


class CSINodeDriver(ApiStruct, frozen=True, kw_only=True):
    """A driver installed on a node."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a CSINode."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject, frozen=True, kw_only=True):
    """The CSI drivers of the node of the same name."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a CSI driver."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(ApiObject, frozen=True, kw_only=True):
    """A CSI driver deployed on the cluster."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject, frozen=True, kw_only=True):
    """The room a storage class has left in one part of the cluster; no `node_topology` means nowhere."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class AttachedVolume(ApiStruct, frozen=True, kw_only=True):
    """An attached volume: a PersistentVolume by name, or an inline volume's spec."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachedVolume = AttachedVolume()


class VolumeAttachmentStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of an attachment."""

    attached: bool = False


class VolumeAttachment(ApiObject, frozen=True, kw_only=True):
    """The intent to attach a volume to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
