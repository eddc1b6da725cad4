"""The counts of attached volumes; the slow rules in test_node_volume_limits check that they are right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework.objects import PersistentVolume, StorageClass
from kframework.objects.meta import ApiObject
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod
from kframework.state.volumes.attachments import Attachments
from kframework.state.volumes.volume_ids import VolumeId
from kframework.testing import make_node
from tests.support.volumes_in_use import attachment, claim, csi_node, csi_volume, ephemeral, put, storage_class, using

NEW = VolumeId("a", "new")


def cluster_of(limit: int = 2) -> ClusterState:
    """Build a cluster of a node `n` that can attach `limit` volumes, with a pod there that has one."""
    cluster = ClusterState()
    cluster.put_node(make_node("n"))
    put(cluster, csi_node("n", {"a": limit}), csi_volume("v1"), csi_volume("v2"), claim("c1", "v1"))
    cluster.put_pod(using("c1", name="there", node_name="n"))
    return cluster


def free(cluster: ClusterState, attachments: Attachments, driver: str = "a") -> int:
    """Count how many new volumes a node can attach, up to 9."""
    attachments.refresh()
    row = cluster.nodes.row("n")
    assert row is not None
    more = 0
    while more < 9 and not attachments.exceeds(row, driver, [VolumeId(driver, str(n)) for n in range(more + 1)]):
        more += 1
    wanted = [VolumeId(driver, str(n)) for n in range(more + 1)]
    assert bool(attachments.exceeding_rows(driver, wanted)[row]) is (more < 9)
    return more


def test_callers_of_the_same_stores_share_one_index() -> None:
    cluster, other = cluster_of(), cluster_of()
    assert Attachments.for_stores(cluster, cluster.nodes) is Attachments.for_stores(cluster, cluster.nodes)
    assert Attachments.for_stores(cluster, cluster.nodes) is not Attachments.for_stores(other, other.nodes)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda cluster: put(cluster, csi_node("n", {"a": 5})), 4),
        (lambda cluster: put(cluster, csi_node("n", {"b": 5})), 9),
        (lambda cluster: put(cluster, attachment("x", "n", "v2")), 0),
        (lambda cluster: put(cluster, attachment("x", "n", "v1")), 1),
        (lambda cluster: cluster.put_pod(using("c2", name="other", node_name="n")), 1),
        (lambda cluster: cluster.remove_pod(using(name="there").metadata.uid), 2),
        (lambda cluster: put(cluster, claim("c1")), 2),
        (lambda cluster: put(cluster, csi_volume("v1", driver="b")), 2),
        (lambda cluster: drop(cluster, claim("c1")), 2),
        (lambda cluster: drop(cluster, csi_volume("v1")), 2),
        (lambda cluster: drop(cluster, csi_node("n", {})), 9),
    ],
)
def test_every_change_is_seen(change: Callable[[ClusterState], object], left: int) -> None:
    cluster = cluster_of()
    attachments = Attachments(cluster, cluster.nodes)
    assert free(cluster, attachments) == 1
    change(cluster)
    assert free(cluster, attachments) == left == free(cluster, Attachments(cluster, cluster.nodes))


def test_object_that_comes_after_the_pod_is_counted() -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("n"))
    cluster.put_pod(using("c", ephemeral("data"), name="there", node_name="n"))
    attachments, uid = Attachments(cluster, cluster.nodes), using(name="there").metadata.uid
    put(cluster, csi_node("n", {"a": 4}))
    steps: list[tuple[ApiObject, int]] = [
        (claim("c", "v", storage_class="fast"), 4),
        (claim("there-data", owner=uid, storage_class="fast"), 4),
        (storage_class("fast", "a"), 2),
        (csi_volume("v", driver="b"), 3),
        (attachment("x", "n", "w"), 3),
        (csi_volume("w"), 2),
        (storage_class("fast", "b"), 3),
    ]
    for obj, left in steps:
        put(cluster, obj)
        assert free(cluster, attachments) == left
    for kind, obj in ((PersistentVolume, csi_volume("w")), (StorageClass, storage_class("fast", ""))):
        cluster.objects(kind).remove(obj.metadata)
    assert free(cluster, attachments) == 4


def test_volume_is_attached_once_for_all_its_users() -> None:
    cluster = cluster_of(limit=3)
    attachments = Attachments(cluster, cluster.nodes)
    cluster.put_pod(using("c1", "c1", name="other", node_name="n"))
    put(cluster, attachment("x", "n", "v1"))
    assert free(cluster, attachments) == 2
    for uid in [pod.uid for pod in cluster.nodes[0].pods]:
        cluster.remove_pod(uid)
        assert free(cluster, attachments) == 2
    drop(cluster, attachment("x", "n", "v1"))
    assert free(cluster, attachments) == 3


def test_volume_of_a_pod_there_is_not_new() -> None:
    cluster = cluster_of(limit=1)
    attachments = Attachments(cluster, cluster.nodes)
    attachments.refresh()
    old = VolumeId("a", "v1")
    for wanted, exceeds in ([old], False), ([old, NEW], True), ([NEW], True):
        assert attachments.exceeds(0, "a", wanted) is exceeds
        assert attachments.exceeding_rows("a", wanted)[0] == exceeds


def test_node_that_takes_the_row_of_another_has_its_own_limits_and_volumes() -> None:
    cluster = cluster_of()
    attachments = Attachments(cluster, cluster.nodes)
    put(cluster, attachment("x", "n", "v2"), csi_node("m", {"a": 7}))
    assert free(cluster, attachments) == 0
    cluster.remove_node("n")
    cluster.put_node(make_node("m"))
    attachments.refresh()
    assert cluster.nodes.row("m") == 0
    assert not attachments.exceeds(0, "a", [VolumeId("a", str(n)) for n in range(7)])
    assert attachments.exceeds(0, "a", [VolumeId("a", str(n)) for n in range(8)])


def test_fault_matters_where_there_are_limits() -> None:
    cluster = cluster_of()
    cluster.put_pod(using("", name="broken", node_name="n"))
    attachments = Attachments(cluster, cluster.nodes)
    attachments.refresh()
    assert attachments.errors[0].message == "PersistentVolumeClaim had no name"
    put(cluster, csi_node("n", {"a": None}))
    attachments.refresh()
    assert attachments.errors == {}


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("keep", [True, False])
def test_what_if_attaches_and_detaches(keep: bool, seen: bool) -> None:
    cluster = cluster_of()
    attachments, statement = Attachments(cluster, cluster.nodes), cluster.statement()
    put(cluster, claim("c2", "v2"), claim("c3", "v3"), csi_volume("v3"))
    assert free(cluster, attachments) == 1
    statement.assume(PendingPod(using("c2", "c3", name="new"), cluster.interner), "n")
    if seen:
        assert free(cluster, attachments) == 0
    (statement.commit if keep else statement.rollback)()
    assert free(cluster, attachments) == (0 if keep else 1)


def test_deleted_pods_leave_no_memory() -> None:
    cluster = cluster_of()
    attachments = Attachments(cluster, cluster.nodes)
    put(cluster, attachment("x", "n", "v2"))
    attachments.refresh()
    drop(cluster, attachment("x", "n", "v2"))
    cluster.remove_pod(using(name="there").metadata.uid)
    cluster.remove_node("n")
    attachments.refresh()
    assert not any(each._rows for each in (attachments._attached, attachments._used_by_pods, attachments._readers))
    assert attachments._by_node == {}


def drop(cluster: ClusterState, obj: ApiObject) -> None:
    cluster.objects(type(obj)).remove(obj.metadata)
