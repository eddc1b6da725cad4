"""What a pod's claims find on a node: every rule of FindPodVolumes as a table, and all against a slow reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import ApiObject, PersistentVolume, PersistentVolumeClaim
from kframework.objects.csi_migration import TranslationError
from kframework.objects.label_selectors import SelectorError
from kframework.state.cluster import ClusterState
from kframework.state.volumes.pod_volumes import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_MISSING,
    PodClaims,
)
from kframework.state.volumes.volumes import Storage
from kframework.testing import make_node
from tests.plugins.asking import cluster_of
from tests.state.slow_volumes import slow_find
from tests.support.storage import (
    HOSTNAME,
    affinity,
    capacity,
    claim,
    driver,
    label_affinity,
    migrated_csi_node,
    reference,
    storage_class,
    volume,
)

EBS = "kubernetes.io/aws-ebs"
#: Bits by node, and what its waiting claims get there: names of volumes, "+" for a claim to be provisioned.
Found = dict[str, tuple[int, str]]


def cluster_with(objects: Iterable[ApiObject]) -> ClusterState:
    """Two zones, a node each; classes whose volumes are made by hand, by a driver, and by one that counts its room."""
    nodes = [make_node("a", labels={"zone": "a"}), make_node("b", labels={"zone": "b"})]
    cluster = cluster_of(nodes)
    classes = [
        storage_class(),
        storage_class("csi", "csi.example.com"),
        storage_class("counted", "counted.example.com"),
    ]
    for each in (*classes, driver("counted.example.com"), *objects):
        cluster.objects(type(each)).put(each.metadata, each)
    return cluster


def split(claims: Iterable[PersistentVolumeClaim]) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim]]:
    claims = list(claims)
    return [each for each in claims if each.spec.volume_name], [each for each in claims if not each.spec.volume_name]


def found(cluster: ClusterState, claims: Sequence[PersistentVolumeClaim]) -> Found:
    """Ask both forms about all nodes, and the slow reference."""
    bound, waiting = split(claims)
    asked, nodes = PodClaims(Storage(cluster), bound, waiting), cluster.nodes
    answers: Found = {}
    columns = [asked.rejections(nodes, rows) for rows in (nodes.order, slice(0, nodes.capacity))]
    for place, row in enumerate(nodes.order.tolist()):
        node = nodes[row]
        bits, volumes = asked.find_volumes(node)
        pairs = [(kept.metadata.name, by.metadata.name) for kept, by in volumes.static]
        made = [each.metadata.name for each in volumes.provisioned]
        assert (bits, pairs, made) == slow_find(cluster, bound, waiting, node.object), node.name
        assert bits == columns[0][place] == columns[1][row], node.name
        answers[node.name] = (bits, " ".join([name for name, _ in pairs] + ["+"] * len(made)))
    return answers


LOCAL_A, LOCAL_B = volume("la", on=label_affinity("zone", "a")), volume("lb", on=label_affinity("zone", "b"))


@pytest.mark.parametrize(
    ("objects", "claims", "expected"),
    [
        # Bound claims: the first that is missing or out of reach says what is wrong.
        ([volume("v")], [claim(bound="v")], {"a": (0, ""), "b": (0, "")}),
        ([LOCAL_A], [claim(bound="la")], {"a": (0, ""), "b": (NODE_CONFLICT, "")}),
        ([], [claim(bound="none")], {"a": (VOLUME_MISSING, ""), "b": (VOLUME_MISSING, "")}),
        (
            [LOCAL_A],
            [claim(bound="la"), claim("other", bound="none")],
            {"a": (VOLUME_MISSING, ""), "b": (NODE_CONFLICT, "")},
        ),
        # Free volumes: the smallest that will do, where it is reached.
        ([LOCAL_A], [claim()], {"a": (0, "la"), "b": (BIND_CONFLICT, "+")}),
        ([LOCAL_A, LOCAL_B], [claim()], {"a": (0, "la"), "b": (0, "lb")}),
        ([volume("v5", size="5Gi"), volume("v2", size="2Gi"), volume("v9", size="9Gi")], [claim(size="2049Mi")], "v5"),
        ([volume("v5", size="5Gi"), volume("v2", size="2Gi")], [claim(size="6Gi")], None),
        ([volume("v5", size="5Gi"), volume("v2", size="2Gi")], [claim(size=None)], "v2"),
        ([volume("v2"), volume("v1")], [claim()], "v1"),
        ([volume("v", phase="")], [claim()], None),
        ([volume("v", phase="Released")], [claim()], None),
        ([volume("v", of="other")], [claim()], None),
        ([volume("v", metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}})], [claim()], None),
        ([volume("v", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], [claim()], None),
        ([volume("v", volumeMode="Block")], [claim()], None),
        ([volume("v", volumeMode="Filesystem")], [claim()], "v"),
        ([volume("v")], [claim(volumeMode="Block")], None),
        ([volume("v", volumeAttributesClassName="gold")], [claim()], None),
        ([volume("v", volumeAttributesClassName="gold")], [claim(volumeAttributesClassName="gold")], "v"),
        ([volume("v", volumeAttributesClassName="")], [claim()], "v"),
        ([volume("v")], [claim(accessModes=["ReadWriteOnce", "ReadOnlyMany"])], None),
        ([volume("v", accessModes=["ReadOnlyMany", "ReadWriteOnce"])], [claim()], "v"),
        ([volume("v")], [claim(selector={"matchLabels": {"media": "ssd"}})], None),
        ([volume("v", labels={"media": "ssd"})], [claim(selector={"matchLabels": {"media": "ssd"}})], "v"),
        # Volumes that are kept for somebody.
        ([volume("v", kept_for=reference("other"))], [claim()], None),
        ([volume("v", kept_for=reference(namespace="other"))], [claim()], None),
        ([volume("v", kept_for=reference(uid="another"))], [claim()], None),
        ([volume("v1"), volume("v9", size="9Gi", kept_for=reference())], [claim()], "v9"),
        ([volume("v1"), volume("v9", size="9Gi", kept_for=reference(uid=""))], [claim()], "v9"),
        ([volume("v", kept_for=reference(), phase="Bound", accessModes=[])], [claim()], "v"),
        ([volume("v", kept_for=reference(), size="1Mi")], [claim()], None),
        ([volume("v", kept_for=reference(), volumeMode="Block")], [claim()], None),
        (
            [volume("any"), volume("kept", kept_for=reference(), on=label_affinity("zone", "a"))],
            [claim()],
            {"a": (0, "kept"), "b": (BIND_CONFLICT, "+")},
        ),
        # Several claims: the smallest chooses first, and each volume is given once.
        ([volume("v1"), volume("v5", size="5Gi")], [claim("big", size="2Gi"), claim("small")], "v1 v5"),
        ([volume("v5", size="5Gi")], [claim("one"), claim("other")], {"a": (2, "v5 +"), "b": (2, "v5 +")}),
        ([LOCAL_A, volume("any")], [claim("one"), claim("other")], {"a": (0, "any la"), "b": (2, "any +")}),
        ([volume("v")], [claim(), claim()], {"a": (2, "v +"), "b": (2, "v +")}),
        # Claims for which a volume is to be made.
        ([], [claim(of="csi")], "+"),
        ([LOCAL_A], [claim(), claim("new", "csi")], {"a": (0, "la +"), "b": (BIND_CONFLICT, "+ +")}),
        ([], [claim(of="csi", selected="a")], {"a": (0, "+"), "b": (BIND_CONFLICT, "")}),
        ([volume("v", "csi")], [claim(of="csi", selected="a")], {"a": (0, "+"), "b": (BIND_CONFLICT, "")}),
        ([LOCAL_A], [claim(selected="a")], {"a": (BIND_CONFLICT, "+"), "b": (BIND_CONFLICT, "")}),
        ([], [claim(of="csi", selected="gone")], {"a": (BIND_CONFLICT, ""), "b": (BIND_CONFLICT, "")}),
        (
            [],
            [claim("one", "csi", selected="a"), claim("other", "csi", selected="b")],
            {"a": (BIND_CONFLICT, ""), "b": (BIND_CONFLICT, "")},
        ),
        (
            [storage_class("csi", "csi.example.com", allowed=[{"zone": ["b"]}])],
            [claim(of="csi")],
            {"a": (BIND_CONFLICT, "+"), "b": (0, "+")},
        ),
        ([storage_class("csi", "")], [claim(of="csi")], None),
        # Room.
        ([], [claim(of="counted")], {"a": (NOT_ENOUGH_SPACE, "+"), "b": (NOT_ENOUGH_SPACE, "+")}),
        ([], [claim(of="counted", size=None)], "+"),
        ([driver("counted.example.com", counts=False)], [claim(of="counted")], "+"),
        ([driver("counted.example.com", counts=None)], [claim(of="counted")], "+"),
        ([capacity(of="counted", zone="a")], [claim(of="counted")], {"a": (0, "+"), "b": (NOT_ENOUGH_SPACE, "+")}),
        ([capacity(of="counted")], [claim(of="counted", size="10Gi")], "+"),
        ([capacity(of="counted", most="5Gi")], [claim(of="counted", size="6Gi")], {"a": (4, "+"), "b": (4, "+")}),
        ([capacity(of="counted", size=None, most="9Gi")], [claim(of="counted", size="6Gi")], "+"),
        ([capacity(of="counted", size=None)], [claim(of="counted")], {"a": (4, "+"), "b": (4, "+")}),
        ([capacity(of="csi")], [claim(of="counted")], {"a": (4, "+"), "b": (4, "+")}),
        # Room is not added up over claims.
        ([capacity(of="counted", size="1Gi")], [claim("one", "counted"), claim("other", "counted")], "+ +"),
        (
            [storage_class("counted", "counted.example.com", allowed=[{"zone": ["b"]}])],
            [claim(of="counted")],
            {"a": (BIND_CONFLICT, "+"), "b": (NOT_ENOUGH_SPACE, "+")},
        ),
        # All that stands against a node is said.
        (
            [LOCAL_A],
            [claim("bound", bound="la"), claim("full", "counted")],
            {"a": (NOT_ENOUGH_SPACE, "+"), "b": (NODE_CONFLICT | NOT_ENOUGH_SPACE, "+")},
        ),
        (
            [],
            [claim("bound", bound="none"), claim("none")],
            {"a": (VOLUME_MISSING | BIND_CONFLICT, "+"), "b": (VOLUME_MISSING | BIND_CONFLICT, "+")},
        ),
    ],
)
def test_claims_find_the_expected_volumes(
    objects: Sequence[ApiObject], claims: Sequence[PersistentVolumeClaim], expected: Found | str | None
) -> None:
    """One text means all nodes, None no volume and no provisioner."""
    cluster = cluster_with(objects)
    if not isinstance(expected, dict):
        alike = (BIND_CONFLICT, " ".join("+" for _ in claims)) if expected is None else (0, expected)
        expected = {"a": alike, "b": alike}
    assert found(cluster, claims) == expected


# -- in-tree volumes that CSI drivers serve ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "reached"),
    [
        ([], ["old"]),
        ([migrated_csi_node("new", EBS)], ["old", "new"]),
        ([migrated_csi_node("new", "kubernetes.io/cinder", EBS)], ["old", "new"]),
        ([migrated_csi_node("new", "kubernetes.io/cinder")], ["old"]),
        ([migrated_csi_node("old", EBS), migrated_csi_node("new", EBS), migrated_csi_node("gone", EBS)], ["new"]),
    ],
)
def test_driver_has_zone_labels_of_its_own(objects: Sequence[ApiObject], reached: list[str]) -> None:
    zone = "topology.kubernetes.io/zone"
    cluster = cluster_of(
        [
            make_node("old", labels={zone: "z"}),
            make_node("new", labels={"topology.ebs.csi.aws.com/zone": "z"}),
            make_node("elsewhere", labels={zone: "y", "topology.ebs.csi.aws.com/zone": "y"}),
        ]
    )
    disk = volume("v", on=label_affinity(zone, "z"), awsElasticBlockStore={"volumeID": "vol-1"})
    for each in (disk, *objects):
        cluster.objects(type(each)).put(each.metadata, each)
    asked, nodes = PodClaims(Storage(cluster), [claim(bound="v")], []), cluster.nodes
    assert [node.name for node in nodes if not asked.find_volumes(node)[0]] == reached
    columns = zip(nodes.order.tolist(), asked.rejections(nodes, nodes.order).tolist(), strict=True)
    assert [nodes[row].name for row, bits in columns if not bits] == reached


@pytest.mark.parametrize(
    ("plugin", "source", "problem"),
    [
        (
            EBS,
            {"awsElasticBlockStore": {"volumeID": "aws://z/nonsense"}},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/nonsense)",
        ),
        (
            "kubernetes.io/azure-disk",
            {"azureDisk": {"diskURI": "/d", "kind": "Dedicated"}},
            "kind(Dedicated) is not supported in csi migration",
        ),
    ],
)
def test_volume_that_no_driver_can_serve_is_a_fault_where_one_should(
    plugin: str, source: Mapping[str, Any], problem: str
) -> None:
    cluster = cluster_with([volume("v", **source), migrated_csi_node("b", plugin)])
    asked = PodClaims(Storage(cluster), [claim(bound="v")], [])
    a, b = cluster.nodes.find("a"), cluster.nodes.find("b")
    assert a is not None and b is not None
    assert asked.find_volumes(a)[0] == 0
    for ask in (lambda: asked.find_volumes(b), lambda: asked.rejections(cluster.nodes, cluster.nodes.order)):
        with pytest.raises(TranslationError) as raised:
            ask()
        assert str(raised.value) == f"could not translate pv: {problem}"


def test_invalid_selector_is_a_fault_where_it_is_used() -> None:
    cluster = cluster_with([])
    nonsense = claim("nonsense", selector={"matchExpressions": [{"key": "x", "operator": "Like"}]})
    asked = PodClaims(Storage(cluster), [], [nonsense, claim("made", "csi", selected="b")])
    a, b = cluster.nodes.find("a"), cluster.nodes.find("b")
    assert a is not None and b is not None
    assert asked.find_volumes(a)[0] == BIND_CONFLICT
    rows = cluster.nodes.order[[node.name == "a" for node in cluster.nodes]]
    assert asked.rejections(cluster.nodes, rows).tolist() == [BIND_CONFLICT]
    for ask in (lambda: asked.find_volumes(b), lambda: asked.rejections(cluster.nodes, cluster.nodes.order)):
        with pytest.raises(
            SelectorError, match=r"^error creating internal label selector for claim: default/nonsense: "
        ):
            ask()


SIZES, CLASSES = (
    st.sampled_from(["1Gi", "1.5Gi", "2Gi", "2048Mi"]),
    st.sampled_from(["local", "local", "csi", "counted"]),
)
MODES = st.sampled_from([["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]])
PLACES: st.SearchStrategy[Mapping[str, Any] | None] = st.one_of(
    st.none(),
    st.builds(label_affinity, st.just(HOSTNAME), st.sampled_from("abc")),
    st.builds(label_affinity, st.just("zone"), st.just("a"), st.just("b")),
    st.just(affinity({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})),
    st.just(affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]})),
)
VOLUMES = st.builds(
    lambda name, of, size, on, modes, kept, phase, media, block: volume(
        name,
        of,
        size,
        on=on,
        accessModes=modes,
        kept_for=kept,
        phase=phase,
        labels={"media": media},
        volumeMode="Block" if block else None,
    ),
    st.sampled_from([f"v{number}" for number in range(8)]),
    CLASSES,
    SIZES,
    PLACES,
    MODES,
    st.sampled_from([None, None, None, reference("c0"), reference("c1", uid=""), reference("c2", uid="x")]),
    st.sampled_from(["Available", "Available", "Bound", ""]),
    st.sampled_from(["ssd", "hdd"]),
    st.sampled_from([False, False, False, True]),
)
CLAIMS = st.builds(
    lambda name, of, size, modes, bound, selected, media: claim(
        name,
        of,
        size,
        accessModes=modes,
        bound=bound,
        selected=selected if not bound else None,
        selector={"matchLabels": {"media": media}} if media else None,
    ),
    st.sampled_from(["c0", "c1", "c2", "c3"]),
    CLASSES,
    st.one_of(SIZES, st.none()),
    MODES,
    st.sampled_from(["", "", "", "v0", "v1"]),
    st.sampled_from([None, None, None, "a", "gone"]),
    st.sampled_from([None, None, "ssd"]),
)
OTHERS = st.one_of(
    st.builds(lambda size, zone: capacity(f"room-{zone}", "counted", size, zone=zone), SIZES, st.sampled_from("ab")),
    st.builds(
        lambda zones: storage_class("csi", "csi.example.com", allowed=[{"zone": zones}] if zones else ()),
        st.lists(st.sampled_from("ab"), max_size=2),
    ),
)
Change = Callable[[ClusterState], None]


def put(subject: ApiObject) -> Change:
    return lambda cluster: void(cluster.objects(type(subject)).put(subject.metadata, subject))


def removed(subject: ApiObject) -> Change:
    return lambda cluster: void(cluster.objects(type(subject)).remove(subject.metadata))


def assumed(subject: PersistentVolume) -> Change:
    def assume(cluster: ClusterState) -> None:
        store = cluster.objects(PersistentVolume)
        if store.latest(subject.metadata.name) is not None:
            store.assume(subject.metadata, subject)

    return assume


def restored(subject: PersistentVolume) -> Change:
    return lambda cluster: cluster.objects(PersistentVolume).restore(subject.metadata)


def void(answer: object) -> None:
    return None


CHANGES = st.one_of(
    st.builds(put, VOLUMES),
    st.builds(put, VOLUMES),
    st.builds(put, OTHERS),
    st.builds(removed, VOLUMES),
    st.builds(removed, OTHERS),
    st.builds(assumed, VOLUMES),
    st.builds(restored, VOLUMES),
)


@pytest.mark.slow
@given(st.lists(st.tuples(CHANGES, st.lists(CLAIMS, min_size=1, max_size=3)), min_size=1, max_size=12))
def test_slow_reference_finds_the_same_whatever_happens(
    course: list[tuple[Change, list[PersistentVolumeClaim]]],
) -> None:
    cluster = cluster_with([])
    cluster.put_node(make_node("c"))
    for change, claims in course:
        change(cluster)
        known = {each.metadata.name: each for each in claims}
        found(cluster, [known[each.metadata.name] for each in claims])
