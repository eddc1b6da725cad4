"""Volumes from reservation to binding: what is assumed, written, waited for, and undone; every refusal in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kframework.objects import ApiObject, ObjectReference, PersistentVolume, PersistentVolumeClaim
from kframework.state.cluster import ClusterState
from kframework.state.objects import AssumptionError
from kframework.state.volumes.pod_volumes import PodVolumes
from kframework.state.volumes.volume_reservation import BindingError, VolumeReservation, claim_patch, volume_patch
from kframework.state.volumes.volumes import Storage
from kframework.testing import make_node
from tests.plugins.asking import cluster_of
from tests.support.storage import HOSTNAME, ZONE, claim, label_affinity, migrated_csi_node, reference, volume

SELECTED = "volume.kubernetes.io/selected-node"
BY_US = {"pv.kubernetes.io/bound-by-controller": "yes"}
DISK, DATA, NEW = volume(version="5"), claim(version="7"), claim("new", "csi", version="8")
FULL = ObjectReference(
    api_version="v1",
    kind="PersistentVolumeClaim",
    namespace="default",
    name="data",
    uid="uid-data",
    resource_version="7",
)


def cluster_with(*objects: ApiObject) -> ClusterState:
    cluster = cluster_of([make_node("n"), make_node("other")])
    for each in objects:
        put(cluster, each)
    return cluster


def put(cluster: ClusterState, subject: ApiObject) -> None:
    cluster.objects(type(subject)).put(subject.metadata, subject)


def reserved(cluster: ClusterState, disk: PersistentVolume = DISK) -> VolumeReservation:
    """Reserve the disk for `data`, and a volume to be made for `new`, on node n."""
    reservation = VolumeReservation(Storage(cluster), "n")
    reservation.assume(PodVolumes(((disk, DATA),), (NEW,)))
    return reservation


def complete(cluster: ClusterState, reservation: VolumeReservation) -> bool:
    node = cluster.nodes.find("n")
    assert node is not None
    return reservation.is_complete(node)


def test_volume_is_kept_and_a_claim_is_placed() -> None:
    cluster = cluster_with(DISK, DATA, NEW)
    reservation = reserved(cluster)
    disk = cluster.objects(PersistentVolume).get("disk")
    assert disk is not None and disk.spec.claim_ref == FULL and disk.metadata.annotations == BY_US
    placed = cluster.objects(PersistentVolumeClaim).get("new", "default")
    assert placed is not None and placed.metadata.annotations == {SELECTED: "n"}
    assert reservation.volumes == [(disk, DATA)] and reservation.claims == [placed]
    reservation.restore()
    assert cluster.objects(PersistentVolume).get("disk") == DISK
    assert cluster.objects(PersistentVolumeClaim).get("new", "default") == NEW


@pytest.mark.parametrize(
    ("kept_for", "annotations", "by"),
    [
        (None, BY_US, FULL),
        (reference(uid=""), {}, FULL),
        (reference(), {}, msgspec.convert(reference(), ObjectReference)),
    ],
)
def test_volume_that_its_author_keeps_for_the_claim(
    kept_for: Mapping[str, str] | None, annotations: Mapping[str, str], by: ObjectReference
) -> None:
    disk = volume(version="5", kept_for=kept_for)
    cluster = cluster_with(disk, DATA, NEW)
    ((kept, _),) = reserved(cluster, disk).volumes
    assert kept.metadata.annotations == annotations and kept.spec.claim_ref == by
    assert cluster.objects(PersistentVolume).get("disk") == kept


def test_object_changed_meanwhile_is_not_assumed() -> None:
    cluster = cluster_with(DISK, DATA, replace(NEW, metadata=replace(NEW.metadata, resource_version="9")))
    reservation = VolumeReservation(Storage(cluster), "n")
    with pytest.raises(AssumptionError, match=r'"default/new" is out of sync \(stored: 9, assume: 8\)'):
        reservation.assume(PodVolumes(((DISK, DATA),), (NEW,)))
    reservation.restore()
    assert cluster.objects(PersistentVolume).get("disk") == DISK


def test_written_object_is_restored_until_the_cluster_shows_it() -> None:
    cluster = cluster_with(DISK, DATA, NEW)
    reservation = reserved(cluster)
    ((kept, by),) = reservation.volumes
    written = replace(kept, metadata=replace(kept.metadata, resource_version="6"))
    reservation.volumes[0] = (written, by)
    reservation.restore()
    volumes = cluster.objects(PersistentVolume)
    assert volumes.get("disk") == DISK
    volumes.put(written.metadata, written)
    reservation.restore()
    assert volumes.get("disk") == written


def test_object_assumed_by_another_pod_is_not_restored() -> None:
    cluster = cluster_with(DISK, DATA, NEW)
    first = reserved(cluster)
    changed = replace(DISK, metadata=replace(DISK.metadata, resource_version="6"))
    volumes = cluster.objects(PersistentVolume)
    volumes.put(changed.metadata, changed)
    second = VolumeReservation(Storage(cluster), "m")
    second.assume(PodVolumes(((changed, DATA),), ()))
    first.restore()
    assert volumes.get("disk") != changed
    second.restore()
    assert volumes.get("disk") == changed


def test_patches_name_the_version_that_they_were_made_of() -> None:
    reservation = reserved(cluster_with(DISK, DATA, NEW))
    assert volume_patch(reservation.volumes[0][0]) == {
        "metadata": {"resourceVersion": "5", "annotations": BY_US},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "data",
                "uid": "uid-data",
                "resourceVersion": "7",
            }
        },
    }
    assert claim_patch(reservation.claims[0]) == {"metadata": {"resourceVersion": "8", "annotations": {SELECTED: "n"}}}


BOUND = claim(bound="disk", version="20")
MADE = claim("new", "csi", bound="pvc-1", selected="n", version="21")
KEPT = volume(kept_for=reference(), version="15", phase="Bound")


def written() -> tuple[ClusterState, VolumeReservation]:
    """Reserve, write both, and show what was written as versions 10 and 11."""
    cluster = cluster_with(DISK, DATA, NEW)
    reservation = reserved(cluster)
    ((kept, by),), (placed,) = reservation.volumes, reservation.claims
    reservation.volumes[0] = (replace(kept, metadata=replace(kept.metadata, resource_version="10")), by)
    reservation.claims[0] = replace(placed, metadata=replace(placed.metadata, resource_version="11"))
    return cluster, reservation


def test_reservation_is_complete_when_all_claims_are_bound() -> None:
    cluster, reservation = written()
    assert not complete(cluster, reservation)
    for shown in (KEPT, MADE, volume("pvc-1", "csi")):
        put(cluster, shown)
        assert not complete(cluster, reservation)
    put(cluster, BOUND)
    assert complete(cluster, reservation)


def test_claim_may_be_known_before_its_volume_is() -> None:
    cluster, reservation = written()
    for shown in (KEPT, BOUND, MADE):
        put(cluster, shown)
    assert not complete(cluster, reservation)
    put(cluster, volume("pvc-1", "csi"))
    assert complete(cluster, reservation)


def test_claim_without_the_mark_is_not_bound() -> None:
    cluster, reservation = written()
    for shown in (
        KEPT,
        BOUND,
        volume("pvc-1", "csi"),
        claim("new", "csi", volumeName="pvc-1", selected="n", version="12"),
    ):
        put(cluster, shown)
    assert not complete(cluster, reservation)


def test_object_older_than_the_write_is_ignored() -> None:
    cluster, reservation = written()
    put(cluster, volume(version="9"))
    put(cluster, BOUND)
    put(cluster, claim("new", "csi", version="9"))
    assert not complete(cluster, reservation)


@pytest.mark.parametrize(
    ("shown", "gone", "text"),
    [
        ([], [DISK], 'failed to check binding: persistentvolumes "disk" not found'),
        ([], [DATA], 'failed to check binding: persistentvolumeclaims "default/data" not found'),
        (
            [volume(version="15", kept_for=reference(), on=label_affinity(HOSTNAME, "other"))],
            [],
            'pv "disk" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
        ),
        ([volume(version="15")], [], 'ClaimRef got reset for pv "disk"'),
        ([volume(version="15", kept_for=reference(uid=""))], [], 'ClaimRef got reset for pv "disk"'),
        ([KEPT, BOUND], [NEW], 'failed to check provisioning pvc: persistentvolumeclaims "default/new" not found'),
        ([KEPT, BOUND, claim("new", "csi", version="12")], [], 'selectedNode annotation reset for PVC "new"'),
        (
            [KEPT, BOUND, claim("new", "csi", version="12", annotations={"a": "b"})],
            [],
            'provisioning failed for PVC "new"',
        ),
        (
            [KEPT, BOUND, claim("new", "csi", version="12", selected="other")],
            [],
            'provisioning failed for PVC "new"',
        ),
        (
            [KEPT, BOUND, MADE, volume("pvc-1", "csi", on=label_affinity(HOSTNAME, "other"))],
            [],
            'pv "pvc-1" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
        ),
        (
            [
                volume(
                    version="15",
                    kept_for=reference(),
                    on=label_affinity(ZONE, "z"),
                    awsElasticBlockStore={"volumeID": "vol-1"},
                ),
                migrated_csi_node("n", "kubernetes.io/aws-ebs"),
            ],
            [],
            'pv "disk" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
        ),
    ],
)
def test_reservation_fails_when_a_claim_cannot_be_bound(shown: list[Any], gone: list[Any], text: str) -> None:
    cluster, reservation = written()
    for each in shown:
        put(cluster, each)
    for each in gone:
        cluster.objects(type(each)).remove(each.metadata)
    with pytest.raises(BindingError) as caught:
        complete(cluster, reservation)
    assert str(caught.value) == text


def test_assumption_for_the_next_pod_is_not_taken_for_the_clusters_state() -> None:
    cluster, reservation = written()
    for shown in (KEPT, BOUND, MADE, volume("pvc-1", "csi")):
        put(cluster, shown)
    other = claim("new", "csi", selected="other", version="21")
    cluster.objects(PersistentVolumeClaim).assume(other.metadata, other)
    assert complete(cluster, reservation)
