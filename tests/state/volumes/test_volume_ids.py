from __future__ import annotations

import pytest

from kframework.objects import (
    AWSElasticBlockStore,
    OpaqueSource,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kframework.state.cluster import ClusterState
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.state.volumes.volume_ids import ObjectKey, VolumeId, VolumeIds, claim_names, limited_volumes
from kframework.values.status import Code
from tests.support.volumes_in_use import attachment, claim, csi_volume, ephemeral, put, storage_class, using

EBS = Volume(name="ebs", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1"))
BROKEN = Volume(name="broken", aws_elastic_block_store=AWSElasticBlockStore(volume_id="aws://eu-1a/disk"))
SECRET = Volume(name="secret", secret=OpaqueSource())

INLINE = VolumeId("ebs.csi.aws.com", "vol-1")
CLAIM: ObjectKey = (PersistentVolumeClaim, "default", "c")


def info(*volumes: str | Volume) -> PodInfo:
    return PodInfo(using(*volumes), TemplateInterner())


def test_volumes_that_a_driver_may_have_to_attach() -> None:
    pod = info(SECRET, "data", EBS, ephemeral("scratch"), "log")
    assert [volume.name for volume in limited_volumes(pod)] == ["v1", "ebs", "scratch", "v4"]
    assert list(claim_names(pod)) == ["data", "pod-scratch", "log"]


@pytest.mark.parametrize(
    ("bound_to", "class_name", "volume", "read"),
    [
        ("v", "fast", VolumeId("a", "handle"), {(PersistentVolume, "", "v")}),
        ("", "fast", VolumeId("b", ("default", "c")), {(StorageClass, "", "fast")}),
        ("gone", "fast", VolumeId("b", ("default", "c")), {(PersistentVolume, "", "gone"), (StorageClass, "", "fast")}),
        ("", "missing", None, {(StorageClass, "", "missing")}),
        ("", None, None, set()),
    ],
)
def test_claim_and_what_it_was_known_by(
    bound_to: str, class_name: str | None, volume: VolumeId | None, read: set[ObjectKey]
) -> None:
    cluster = ClusterState()
    put(cluster, csi_volume("v", handle="handle"), storage_class("fast", "b"))
    put(cluster, claim("c", bound_to, storage_class=class_name))
    used = VolumeIds(cluster).pod_volumes(info("c"))
    assert used.ids == ({volume} if volume is not None else set())
    assert used.read == {CLAIM, *read}
    assert used.problems == ()


def test_claim_without_a_volume_is_like_no_volume() -> None:
    assert VolumeId("a", ("default", "c")) != VolumeId("a", "default/c")


def test_problems_are_in_the_order_of_the_volumes() -> None:
    cluster = ClusterState()
    put(cluster, claim("pod-foreign", owner="another"))
    used = VolumeIds(cluster).pod_volumes(info(EBS, "gone", BROKEN, ephemeral("foreign"), ""))
    assert used.ids == {INLINE}
    assert [(problem.status.code, problem.migrated) for problem in used.problems] == [
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, False),
        (Code.ERROR, True),
        (Code.ERROR, False),
        (Code.ERROR, False),
    ]
    assert used.error is used.problems[1].status
    assert used.read >= {(PersistentVolumeClaim, "default", "gone"), (PersistentVolumeClaim, "default", "pod-foreign")}


def test_missing_claim_is_no_fault_of_a_pod_on_a_node() -> None:
    assert VolumeIds(ClusterState()).pod_volumes(info("gone")).error is None


def test_attachments_name_existing_volumes() -> None:
    cluster = ClusterState()
    put(cluster, csi_volume("v", driver="a", handle="handle"))
    attachments: list[VolumeAttachment] = [
        attachment("1", "n", "v", attacher="b"),
        attachment("2", "n", "gone"),
        attachment("3", "n", None),
        attachment("4", "n", "v", attacher=""),
    ]
    used = VolumeIds(cluster).attached_volumes(attachments, [CLAIM])
    assert used.ids == {VolumeId("b", "handle")}
    assert used.read == {CLAIM, (PersistentVolume, "", "v"), (PersistentVolume, "", "gone")}
