from __future__ import annotations

import pytest

from kframework.objects import CSISource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Volume
from kframework.objects.csi_migration import (
    DRIVERS,
    TranslationError,
    in_tree_plugin,
    migrated_plugin,
    translate_inline_volume,
    translate_volume,
    volume_driver,
)
from kframework.objects.storage import (
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GCEPersistentDisk,
    OpaqueSource,
    Portworx,
    VsphereVolume,
)

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
DISK = PersistentVolumeSpec(gce_persistent_disk=GCEPersistentDisk(pd_name="disk"))


def ebs(volume_id: str) -> Volume:
    return Volume(name="data", aws_elastic_block_store=AWSElasticBlockStore(volume_id=volume_id))


def volume(spec: PersistentVolumeSpec, **labels: str) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name="pv", labels=labels), spec=spec)


@pytest.mark.parametrize(
    ("inline", "plugin", "driver", "handle"),
    [
        (ebs("vol-1"), "aws-ebs", "ebs.csi.aws.com", "vol-1"),
        (
            Volume(gce_persistent_disk=GCEPersistentDisk(pd_name="disk")),
            "gce-pd",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk",
        ),
        (Volume(cinder=Cinder(volume_id="c1")), "cinder", "cinder.csi.openstack.org", "c1"),
        (
            Volume(azure_disk=AzureDisk(disk_name="d", disk_uri="/subscriptions/s/d")),
            "azure-disk",
            "disk.csi.azure.com",
            "/subscriptions/s/d",
        ),
        (Volume(portworx_volume=Portworx(volume_id="p1")), "portworx-volume", "pxd.portworx.com", "p1"),
    ],
)
def test_volumes_of_migrated_plugins(inline: Volume, plugin: str, driver: str, handle: str) -> None:
    assert in_tree_plugin(inline) == migrated_plugin(inline) == f"kubernetes.io/{plugin}"
    assert translate_inline_volume(inline) == CSISource(driver=driver, volume_handle=handle)
    assert volume_driver(f"kubernetes.io/{plugin}") == DRIVERS[f"kubernetes.io/{plugin}"] == driver


@pytest.mark.parametrize(
    ("inline", "plugin", "driver"),
    [
        (Volume(azure_file=AzureFile(share_name="s")), "azure-file", "file.csi.azure.com"),
        (Volume(vsphere_volume=VsphereVolume(volume_path="[ds] d.vmdk")), "vsphere-volume", "csi.vsphere.vmware.com"),
    ],
)
def test_plugins_that_have_a_driver_but_do_not_count_as_migrated(inline: Volume, plugin: str, driver: str) -> None:
    assert in_tree_plugin(inline) == f"kubernetes.io/{plugin}"
    assert DRIVERS[f"kubernetes.io/{plugin}"] == driver
    assert migrated_plugin(inline) is None
    assert translate_inline_volume(inline) is None
    assert volume_driver(f"kubernetes.io/{plugin}") == ""


def test_other_volumes_have_no_driver_in_their_place() -> None:
    other = Volume(config_map=OpaqueSource(), nfs=OpaqueSource())
    assert in_tree_plugin(other) is None
    assert translate_inline_volume(other) is None
    assert translate_volume(volume(PersistentVolumeSpec(nfs=OpaqueSource()))) is None


def test_provisioner_that_is_no_in_tree_plugin_is_a_driver() -> None:
    assert volume_driver("ebs.csi.example.com") == "ebs.csi.example.com"


@pytest.mark.parametrize(
    ("volume_id", "handle"),
    [
        ("vol-1", "vol-1"),
        ("disk", "disk"),
        ("aws://eu-1a/vol-1", "vol-1"),
        ("aws:///vol-1/", "vol-1"),
        ("aws://eu-1a/disk", None),
        ("aws://eu-1a/a/vol-1", None),
        ("aws://[eu/vol-1", None),
        ("aws://", None),
    ],
)
def test_amazon_volume_may_be_written_as_a_url(volume_id: str, handle: str | None) -> None:
    if handle is None:
        with pytest.raises(TranslationError, match="Invalid format for AWS volume"):
            translate_inline_volume(ebs(volume_id))
    else:
        source = translate_inline_volume(ebs(volume_id))
        assert source is not None
        assert source.volume_handle == handle


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: "eu-west-1"}, "zones/eu-west-1"),
        ({ZONE: "odd"}, "zones/odd"),
        ({BETA_ZONE: "eu-west-1", ZONE: "eu-west-2"}, "zones/eu-west-1"),
        ({BETA_ZONE: "", ZONE: "eu-west-2"}, "zones/eu-west-2"),
        ({ZONE: "eu-west-1__eu-west-2"}, "regions/eu-west"),
    ],
)
def test_google_disk_is_known_by_its_zone_or_region(labels: dict[str, str], place: str) -> None:
    source = translate_volume(volume(DISK, **labels))
    assert source is not None
    assert source.volume_handle == f"projects/UNSPECIFIED/{place}/disks/disk"


ODD_ZONE = "zone in unexpected format, expected: {locale}-{region}-{zone}, got: "


@pytest.mark.parametrize(
    ("zones", "problem"),
    [
        ("us-east-1__eu-west-1", "multiple or no regions gotten from zones, got: map[eu-west:{} us-east:{}]"),
        ("eu-west-1__odd__odder", f"{ODD_ZONE}odd"),
        ("eu-west-1__", ODD_ZONE),
    ],
)
def test_zones_that_do_not_make_one_region_are_refused(zones: str, problem: str) -> None:
    with pytest.raises(TranslationError) as raised:
        translate_volume(volume(DISK, **{ZONE: zones}))
    assert str(raised.value) == f"failed to get region from zones: {problem}"


@pytest.mark.parametrize(("kind", "taken_over"), [(None, True), ("Managed", True), ("Shared", False)])
def test_only_managed_disks_of_azure_are_taken_over(kind: str | None, taken_over: bool) -> None:
    disk = Volume(azure_disk=AzureDisk(disk_uri="/subscriptions/s/d", kind=kind))
    if taken_over:
        assert translate_inline_volume(disk) is not None
    else:
        with pytest.raises(TranslationError, match=r"^kind\(Shared\) is not supported in csi migration$"):
            translate_inline_volume(disk)
