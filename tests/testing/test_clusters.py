"""Random clusters meet everything that plugins look at, and one seed always makes the same ones."""

from __future__ import annotations

from random import Random

import msgspec

from kframework.objects import Node, ObjectMeta, PersistentVolume, Pod
from kframework.state.pods import PendingPod
from kframework.testing.clusters import RandomCluster, make_twin, random_node, random_pod
from tests.properties.expected_tables import stale_cells

CLUSTERS = 40


def story(seed: int) -> tuple[list[str], str]:
    """Tell what happens to a cluster, and how it looks in the end."""
    cluster = RandomCluster(Random(seed))
    reports = [cluster.change(lambda: None) for _ in range(30)]
    return reports, repr([(node, sorted(map(repr, node.pods))) for node in cluster.state.nodes])


def test_same_seed_makes_the_same_changes() -> None:
    assert story(1) == story(1) != story(2)


def test_every_kind_of_change_occurs() -> None:
    reports = ". ".join(sentence for seed in range(CLUSTERS) for sentence in story(seed)[0])
    ends = ("added", "changed", "removed", "ended", "forgotten", "committed", "rolled back", "after a check")
    assert [end for end in ends if f" {end}. " not in reports] == []
    assert " started on " in reports and " assumed on " in reports


def test_change_of_a_what_if_is_visible_inside_and_rolled_back() -> None:
    cluster = RandomCluster(Random(0))
    seen: list[int] = []
    for _ in range(100):
        cluster.change(lambda: seen.append(len(cluster.state.statements)))
        assert not cluster.state.statements
        assert stale_cells(cluster.state.nodes) == []
    assert seen and set(seen) == {1}


def test_clusters_are_small_and_large() -> None:
    sizes = [len(RandomCluster(Random(seed)).state.nodes) for seed in range(CLUSTERS)]
    assert min(sizes) < 4 and max(sizes) > 20


def test_given_objects_are_mixed_in() -> None:
    node = random_node(Random(0), "mine")
    pod = random_pod(Random(0), "mine")
    cluster = RandomCluster(Random(5), nodes=[node], pods=[pod])
    assert cluster.state.nodes.find("mine") is not None
    assert cluster.pending(2)[0].object == pod
    for _ in range(40):
        cluster.change(lambda: None)
    assert any(running.template is cluster.pending(0)[0].template for running in cluster.state.pods.values())


def test_twin_has_the_same_signature() -> None:
    for seed in range(CLUSTERS):
        for pod, twin in _pairs(RandomCluster(Random(seed)).pending(3)):
            assert pod.signature_fields == twin.signature_fields
            assert {pod.name, pod.uid} & {twin.name, twin.uid} == set()
            assert pod.object != twin.object


def _pairs(pods: list[PendingPod]) -> list[tuple[PendingPod, PendingPod]]:
    return list(zip(pods[::2], pods[1::2], strict=True))


def test_twin_is_a_copy() -> None:
    pod = random_pod(Random(0), "a")
    before = msgspec.json.encode(pod)
    assert make_twin(pod).metadata.name == "a-twin"
    assert msgspec.json.encode(pod) == before


def test_random_objects_are_valid_manifests() -> None:
    """Nothing in a random object is of a kind that a cluster file could not hold."""
    random = Random(0)
    for number in range(200):
        node, pod = random_node(random, f"n{number}"), random_pod(random, f"p{number}")
        assert msgspec.json.decode(msgspec.json.encode(node), type=Node) == node
        assert msgspec.json.decode(msgspec.json.encode(pod), type=Pod) == pod


def test_given_objects_of_other_kinds_are_created_and_deleted() -> None:
    versions = [PersistentVolume(metadata=ObjectMeta(name="disk", labels={"version": text})) for text in "ab"]
    cluster = RandomCluster(Random(0), objects=versions)
    store = cluster.state.objects(PersistentVolume)
    seen = []
    for _ in range(200):
        cluster.change(lambda: None)
        seen.append(store.get("disk"))
    assert all(version in seen for version in (*versions, None))
