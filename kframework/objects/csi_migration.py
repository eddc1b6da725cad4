"""Translate volumes of in-tree plugins, and their topology, to CSI drivers, by the rules of csi-translation-lib."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from kframework.objects.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kframework.objects.pod import Volume
from kframework.objects.storage import (
    AzureDisk,
    CSINode,
    CSISource,
    PersistentVolume,
    VolumeNodeAffinity,
    VolumeSources,
)

_EBS, _GCE_PD, _CINDER = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/cinder"
_AZURE_DISK, _AZURE_FILE = "kubernetes.io/azure-disk", "kubernetes.io/azure-file"
_VSPHERE, _PORTWORX = "kubernetes.io/vsphere-volume", "kubernetes.io/portworx-volume"

#: The CSI driver of each in-tree plugin that has one.
DRIVERS: Mapping[str, str] = MappingProxyType(
    {
        _EBS: "ebs.csi.aws.com",
        _GCE_PD: "pd.csi.storage.gke.io",
        _CINDER: "cinder.csi.openstack.org",
        _AZURE_DISK: "disk.csi.azure.com",
        _AZURE_FILE: "file.csi.azure.com",
        _VSPHERE: "csi.vsphere.vmware.com",
        _PORTWORX: "pxd.portworx.com",
    }
)
#: The plugins that kube-scheduler takes for migrated, on every node that has a CSINode.
_MIGRATED = frozenset({_EBS, _GCE_PD, _CINDER, _AZURE_DISK, _PORTWORX})

_SOURCES = (
    ("aws_elastic_block_store", _EBS),
    ("gce_persistent_disk", _GCE_PD),
    ("cinder", _CINDER),
    ("azure_disk", _AZURE_DISK),
    ("azure_file", _AZURE_FILE),
    ("vsphere_volume", _VSPHERE),
    ("portworx_volume", _PORTWORX),
)
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_ZONE, _BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
#: By plugin, the node label under which its CSI driver knows zones; others have no zone labels of their own.
_ZONE_LABELS = {
    _EBS: "topology.ebs.csi.aws.com/zone",
    _GCE_PD: "topology.gke.io/zone",
    _CINDER: "topology.cinder.csi.openstack.org/zone",
}
#: On a CSINode: the in-tree plugins whose work CSI drivers do there.
_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_UNKNOWN = "UNSPECIFIED"
_EBS_VOLUME = re.compile(r"vol-[^/]*")


class TranslationError(ValueError):
    """Raised for an in-tree volume that no CSI driver can serve; in kube-scheduler's words."""


def in_tree_plugin(source: VolumeSources) -> str | None:
    return next((plugin for field, plugin in _SOURCES if getattr(source, field) is not None), None)


def migrated_plugin(source: VolumeSources) -> str | None:
    """Name the in-tree plugin of a volume if kube-scheduler takes it for migrated."""
    plugin = in_tree_plugin(source)
    return plugin if plugin in _MIGRATED else None


def volume_driver(provisioner: str) -> str:
    """Return the CSI driver of a provisioner: itself unless it is an in-tree plugin, empty if no driver replaces it."""
    if provisioner not in DRIVERS:
        return provisioner
    return DRIVERS[provisioner] if provisioner in _MIGRATED else ""


def translate_inline_volume(volume: Volume) -> CSISource | None:
    """Return driver and handle of a pod's in-tree volume; None if its plugin is not migrated, or TranslationError."""
    return _translate(volume, "")


def translate_volume(volume: PersistentVolume) -> CSISource | None:
    """Return driver and handle of an in-tree volume; None if its plugin is not migrated, or TranslationError."""
    labels = volume.metadata.labels
    return _translate(volume.spec, labels.get(_BETA_ZONE) or labels.get(_ZONE, ""))


def _translate(source: VolumeSources, zones: str) -> CSISource | None:
    """Translate a source; `zones` is the label's value, which only the handles of Google disks contain."""
    plugin = migrated_plugin(source)
    if plugin is None:
        return None
    handle = ""
    if source.aws_elastic_block_store is not None:
        handle = _ebs_handle(source.aws_elastic_block_store.volume_id)
    elif source.gce_persistent_disk is not None:
        handle = f"projects/{_UNKNOWN}/{_gce_location(zones)}/disks/{source.gce_persistent_disk.pd_name}"
    elif source.cinder is not None:
        handle = source.cinder.volume_id
    elif source.azure_disk is not None:
        handle = _azure_handle(source.azure_disk)
    elif source.portworx_volume is not None:
        handle = source.portworx_volume.volume_id
    return CSISource(driver=DRIVERS[plugin], volume_handle=handle)


def _ebs_handle(volume_id: str) -> str:
    """Return the volume's id at Amazon, which may be written as a URL with its zone: `aws://<zone>/<id>`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    try:
        handle = unquote(urlsplit(volume_id).path).strip("/")
    except ValueError:
        handle = ""
    if not _EBS_VOLUME.fullmatch(handle):
        what = "failed to translate Kubernetes ID to EBS Volume ID"
        raise TranslationError(f"{what} Invalid format for AWS volume ({volume_id})")
    return handle


def _azure_handle(disk: AzureDisk) -> str:
    if disk.kind is not None and disk.kind.lower() != "managed":
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    return disk.disk_uri


def _gce_location(label: str) -> str:
    """Return the zone of a disk, or the region of one that lies in several zones."""
    zones = label.split("__")
    if len(zones) == 1:
        return f"zones/{label or _UNKNOWN}"
    what = "failed to get region from zones"
    malformed = next((zone for zone in zones if zone.count("-") != 2), None)
    if malformed is not None:
        raise TranslationError(
            f"{what}: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {malformed}"
        )
    regions = {zone.rpartition("-")[0] for zone in zones}
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(f"{what}: multiple or no regions gotten from zones, got: map[{listed}]")
    return f"regions/{regions.pop()}"


# --- zones ------------------------------------------------------------------------------------------------------------


def migrated_plugins(csi_node: CSINode) -> frozenset[str]:
    return frozenset(filter(None, csi_node.metadata.annotations.get(_MIGRATED_PLUGINS, "").split(",")))


def node_affinity_after_migration(volume: PersistentVolume, plugin: str) -> VolumeNodeAffinity | None:
    """Return the node affinity of a volume of this migrated plugin in the labels of its CSI driver.

    The zones are those of its node affinity; without any, those of its labels are appended to it.
    """
    if plugin not in _ZONE_LABELS:
        return volume.spec.node_affinity
    selector = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    terms = selector.node_selector_terms if selector is not None else ()
    zone, region = _labels_in_use(volume, terms)
    valued = {each.key for term in terms for each in term.match_expressions if each.values}
    renamed = {region: _REGION} if region in valued else {}
    zones: tuple[str, ...] = ()
    if zone in valued:
        renamed[zone] = _ZONE_LABELS[plugin]
    else:
        names = {name.strip() for name in volume.metadata.labels.get(zone, "").split("__")}
        zones = tuple(sorted(filter(None, names)))
    if zones:
        added = NodeSelectorRequirement(key=_ZONE_LABELS[plugin], operator="In", values=zones)
        unzoned = terms or (NodeSelectorTerm(),)
        terms = tuple(replace(term, match_expressions=(*term.match_expressions, added)) for term in unzoned)
    elif selector is None:
        return volume.spec.node_affinity
    return VolumeNodeAffinity(
        required=NodeSelector(node_selector_terms=tuple(_rename_keys(term, renamed) for term in terms))
    )


def _labels_in_use(volume: PersistentVolume, terms: tuple[NodeSelectorTerm, ...]) -> tuple[str, str]:
    used = {each.key for term in terms for each in term.match_expressions}
    for keys in (used, volume.metadata.labels.keys()):
        if _ZONE in keys:
            return _ZONE, _REGION
        if _BETA_ZONE in keys:
            return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _rename_keys(term: NodeSelectorTerm, renamed: dict[str, str]) -> NodeSelectorTerm:
    expressions = tuple(replace(each, key=renamed.get(each.key, each.key)) for each in term.match_expressions)
    return replace(term, match_expressions=expressions)
