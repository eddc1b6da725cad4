"""Sources of volumes that a scheduler distinguishes, in pods and in PersistentVolumes alike (core/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiStruct


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
