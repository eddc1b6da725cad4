"""The indexes over storage: what is found in them is tried in test_pod_volumes.py; here, that nothing stays behind."""

from __future__ import annotations

from random import Random

import pytest

from kframework.objects import CSINode, CSIStorageCapacity, PersistentVolume
from kframework.state.cluster import ClusterState
from kframework.state.volumes.volumes import Candidates, Storage, VolumesByClass, VolumeTopology, max_volume_size
from tests.support.storage import (
    HOSTNAME,
    affinity,
    capacity,
    claim,
    label_affinity,
    migrated_csi_node,
    reference,
    volume,
)

VERSIONS = [
    volume("v"),
    volume("v", "other", "5Gi"),
    volume("v", on=label_affinity(HOSTNAME, "a", "b", "a")),
    volume("v", on=label_affinity("zone", "a")),
    volume("v", on=affinity({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})),
    volume("v", kept_for=reference()),
    volume("v", on=label_affinity("zone", "a"), kept_for=reference(uid="")),
]


def test_deleted_volumes_leave_no_memory() -> None:
    random, cluster = Random(0), ClusterState()
    store = cluster.objects(PersistentVolume)
    index = store.index(VolumesByClass)
    kept = volume("w", size="5Gi")
    store.put(kept.metadata, kept)
    for _ in range(100):
        version = random.choice(VERSIONS)
        store.put(version.metadata, version)
        if random.random() < 0.3:
            store.remove(version.metadata)
        rebuilt = VolumesByClass(store)
        for name in ("local", "other"):
            mine, other = index[name], rebuilt[name]
            assert (mine.anywhere, mine.by_label, mine.elsewhere, mine.reserved) == (
                other.anywhere,
                other.by_label,
                other.elsewhere,
                other.reserved,
            )
    store.remove(VERSIONS[0].metadata)
    assert [name for _, name, _ in index["local"].anywhere] == ["w"] and list(index["local"].topologies) == ["w"]
    assert not index["other"].topologies


def test_class_without_volumes_has_none() -> None:
    cluster = ClusterState()
    nobody = Storage(cluster).by_class["none"]
    assert Candidates(nobody, claim(of="none")).find_best({}, set()) is None


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ([volume("v")], set()),
        ([volume("v", on=label_affinity("zone", "a"))], {"zone"}),
        ([volume("v", on=label_affinity("zone", "a"), phase="Released")], set()),
        (
            [volume("v", on=label_affinity("zone", "a")), volume("w", on=label_affinity(HOSTNAME, "a"))],
            {"zone", HOSTNAME},
        ),
        ([volume("v", on=affinity())], set()),
        ([volume("v", on=affinity({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}))], {"zone"}),
        ([volume("v", on=label_affinity("zone", "a"), kept_for=reference("other"))], set()),
        ([volume("v", on=label_affinity("zone", "a"), kept_for=reference())], {"zone"}),
        ([volume("v", kept_for=reference())], set()),
    ],
)
def test_labels_on_which_the_choice_depends(given: list[PersistentVolume], labels: set[str]) -> None:
    cluster = ClusterState()
    for each in given:
        cluster.objects(PersistentVolume).put(each.metadata, each)
    assert Candidates(Storage(cluster).by_class["local"], claim()).labels == labels


def test_room_comes_and_goes() -> None:
    cluster = ClusterState()
    store, rooms = cluster.objects(CSIStorageCapacity), Storage(cluster).capacities

    def enough(size: int) -> list[bool]:
        return [free.topology.includes({"zone": "a"}) for free in rooms.with_room("csi", size)]

    assert enough(1) == []
    store.put(capacity().metadata, capacity(size="1Ki", zone="a"))
    assert (enough(1024), enough(1025)) == ([True], [])
    store.put(capacity("more").metadata, capacity("more", size="2Ki", zone="b"))
    assert (enough(1024), enough(1025)) == ([True, False], [False])
    store.put(capacity().metadata, capacity(size=None))
    assert enough(1024) == [False]
    store.remove(capacity("more").metadata)
    assert enough(1) == []


@pytest.mark.parametrize(
    ("room", "limit"),
    [
        (capacity(size=None), None),
        (capacity(size="1Ki"), 1024),
        (capacity(size="1Ki", most="0"), 0),
        (capacity(size=None, most="0.5Ki"), 512),
    ],
)
def test_largest_volume_is_found(room: CSIStorageCapacity, limit: int | None) -> None:
    assert max_volume_size(room) == limit


def test_migrations_are_followed() -> None:
    cluster = ClusterState()
    store = cluster.objects(CSINode)
    store.put(migrated_csi_node("early", "x").metadata, migrated_csi_node("early", "x"))
    migrations = Storage(cluster).migrations
    assert list(migrations.nodes("x")) == ["early"]
    store.put(migrated_csi_node("late", "x", "y").metadata, migrated_csi_node("late", "x", "y"))
    store.put(migrated_csi_node("early").metadata, migrated_csi_node("early"))
    assert (list(migrations.nodes("x")), list(migrations.nodes("y"))) == (["late"], ["late"])
    store.remove(migrated_csi_node("late").metadata)
    assert (list(migrations.nodes("x")), "late" in migrations.nodes("y")) == ([], False)


def test_callers_share_the_indexes() -> None:
    cluster = ClusterState()
    one, other = Storage(cluster), Storage(cluster)
    assert one.by_class is other.by_class and one.capacities is other.capacities
    assert one.migrations is other.migrations
    assert VolumeTopology.from_node_affinity(None).anywhere
