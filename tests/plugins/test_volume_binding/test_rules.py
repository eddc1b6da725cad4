"""What VolumeBinding says of pods and nodes, and which events wake those that it holds back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from kframework import NOTHING, ActionType, Code, CycleState, Skip, Status, unresolvable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import (
    ApiObject,
    CSIDriver,
    CSINode,
    CSISource,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    Volume,
)
from kframework.plugins.volume_binding import (
    REASONS,
    VolumeBinding,
    VolumeBindingArgs,
    after_capacity_change,
    after_claim_change,
    after_class_change,
    after_csi_node_change,
    after_driver_change,
)
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod, stub_handle
from kframework.testing.single_plugin import build_profile
from kframework.values.feature_gates import FeatureGates
from tests.plugins.asking import cluster_of, filtered, pending
from tests.support.storage import (
    HOSTNAME,
    capacity,
    claim,
    claim_volumes,
    driver,
    ephemeral,
    label_affinity,
    migrated_csi_node,
    storage_class,
    volume,
)

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
NO_NODE, NO_VOLUME, NO_ROOM, MISSING = REASONS.values()


def cluster_with(objects: Iterable[ApiObject]) -> ClusterState:
    cluster = cluster_of([make_node("a"), make_node("b")])
    for each in objects:
        cluster.objects(type(each)).put(each.metadata, each)
    return cluster


def plugin_of(cluster: ClusterState) -> VolumeBinding:
    plugin = build_profile(VolumeBinding, {}, cluster).plugins["VolumeBinding"]
    assert isinstance(plugin, VolumeBinding)
    return plugin


def using(*names: str, volumes: Sequence[Volume] = ()) -> Pod:
    return make_pod("web", volumes=[*claim_volumes(*names), *volumes])


UNBOUND = unresolvable("pod has unbound immediate PersistentVolumeClaims")


@pytest.mark.parametrize(
    ("objects", "pod", "answer"),
    [
        ([], make_pod("web"), Skip),
        ([], using(volumes=[Volume(name="c", csi=CSISource(driver="d"))]), Skip),
        ([claim(namespace="other")], using("data"), unresolvable('persistentvolumeclaim "data" not found')),
        # The first volume that is wrong says so.
        ([claim("one", phase="Lost")], using("other", "one"), unresolvable('persistentvolumeclaim "other" not found')),
        (
            [claim(annotations={"volume.beta.kubernetes.io/storage-class": "local"}, of="x"), storage_class()],
            using("data"),
            None,
        ),
        # Named but not bound yet.
        ([claim(volumeName="v"), storage_class()], using("data"), UNBOUND),
        ([claim(annotations={"pv.kubernetes.io/bind-completed": "yes"}), storage_class()], using("data"), None),
        (
            [claim(of="odd"), storage_class("odd", mode=None)],
            using("data"),
            Status(Code.ERROR, ('VolumeBindingMode not set for StorageClass "odd"',)),
        ),
        (
            [claim("one", of=""), claim("two", of="odd"), storage_class("odd", mode=None)],
            using("one", "two"),
            Status(Code.ERROR, ('VolumeBindingMode not set for StorageClass "odd"',)),
        ),
    ],
)
def test_claims_that_cannot_be_used(objects: Sequence[ApiObject], pod: Pod, answer: Status | None) -> None:
    cluster = cluster_with(objects)
    assert plugin_of(cluster).pre_filter(CycleState(), pending(pod, cluster), cluster.nodes) == answer


@pytest.mark.parametrize(
    ("volumes", "signature"),
    [
        ([], NOTHING),
        ([Volume(name="c", csi=CSISource(driver="d"))], NOTHING),
        (claim_volumes("data"), None),
        ([ephemeral("s")], None),
    ],
)
def test_pods_without_claims_share_their_answers(volumes: Sequence[Volume], signature: object) -> None:
    assert plugin_of(cluster_with([])).sign(pending(make_pod(volumes=volumes))) == signature


@pytest.mark.parametrize(
    ("objects", "reasons"),
    [
        ([claim(bound="v"), volume("v")], {}),
        ([claim(bound="v"), volume("v", on=label_affinity(HOSTNAME, "a"))], {"b": [NO_NODE]}),
        ([claim(bound="v")], {"a": [MISSING], "b": [MISSING]}),
        ([claim(), storage_class(), volume("v", on=label_affinity(HOSTNAME, "b"))], {"a": [NO_VOLUME]}),
        (
            [
                claim(of="csi", size="5Gi"),
                storage_class("csi", "csi.example.com"),
                driver("csi.example.com"),
                capacity(size="4Gi"),
                capacity("more", kubernetes_io_hostname="b"),
            ],
            {"a": [NO_ROOM]},
        ),
    ],
)
def test_nodes_are_rejected_with_reasons(objects: Sequence[ApiObject], reasons: dict[str, list[str]]) -> None:
    cluster = cluster_with(objects)
    expected = {name: unresolvable(*texts) for name, texts in reasons.items()}
    assert filtered(plugin_of(cluster), cluster, using("data")) == expected


def test_all_problems_are_reported_in_order() -> None:
    objects = [
        claim("one", bound="none"),
        claim("two"),
        claim("three", bound="v"),
        volume("v", phase="Bound"),
        storage_class(),
    ]
    cluster = cluster_with(objects)
    expected = unresolvable(NO_VOLUME, MISSING)
    assert filtered(plugin_of(cluster), cluster, using("one", "two", "three")) == {"a": expected, "b": expected}


def test_claim_that_does_not_parse_is_an_error() -> None:
    nonsense = claim(selector={"matchExpressions": [{"key": "x", "operator": "Like"}]})
    cluster, state = cluster_with([nonsense, storage_class()]), CycleState()
    plugin, pod, node = plugin_of(cluster), pending(using("data"), cluster), cluster.nodes.find("a")
    assert node is not None and plugin.pre_filter(state, pod, cluster.nodes) is None
    status = plugin.filter(state, pod, node)
    assert status is not None and status.code == Code.ERROR and "unknown operator 'Like'" in status.message


def test_scores_are_skipped_in_1_36() -> None:
    plugin = VolumeBinding(VolumeBindingArgs(), stub_handle(feature_gates=FeatureGates("1.36")))
    nodes = plugin.handle.nodes
    assert plugin.pre_score(CycleState(), pending(using("data")), nodes, nodes.order) is Skip


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    change = ActionType.ADD | ActionType.UPDATE
    assert plugin_of(cluster_with([])).events_to_register() == [
        ClusterEvent("storage.k8s.io/StorageClass", change, after_class_change),
        ClusterEvent("PersistentVolumeClaim", change, after_claim_change),
        ClusterEvent("PersistentVolume", change | ActionType.DELETE),
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
        ClusterEvent("storage.k8s.io/CSINode", change | ActionType.DELETE, after_csi_node_change),
        ClusterEvent("storage.k8s.io/CSIDriver", ActionType.UPDATE | ActionType.DELETE, after_driver_change),
        ClusterEvent("storage.k8s.io/CSIStorageCapacity", change, after_capacity_change),
    ]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, storage_class(), QUEUE),
        (storage_class(), storage_class(default=True), SKIP),
        (storage_class(), storage_class(allowed=[{"zone": ["a"]}]), QUEUE),
    ],
)
def test_class_wakes(old: StorageClass | None, new: StorageClass, hint: QueueingHint) -> None:
    assert after_class_change(pending(using("data")), old, new) is hint


@pytest.mark.parametrize(
    ("new", "hint"),
    [
        (claim(), QUEUE),
        (claim(namespace="other"), SKIP),
        (claim("other"), SKIP),
        (claim("web-scratch"), QUEUE),
        (claim("scratch"), SKIP),
    ],
)
def test_claim_wakes_its_pods(new: PersistentVolumeClaim, hint: QueueingHint) -> None:
    pod = pending(using("data", volumes=[ephemeral("scratch"), Volume(name="plain")]))
    assert [after_claim_change(pod, old, new) for old in (None, new)] == [hint, hint]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, migrated_csi_node("n"), QUEUE),
        (migrated_csi_node("n"), migrated_csi_node("n"), SKIP),
        (migrated_csi_node("n", "x"), migrated_csi_node("n", "x", "y"), QUEUE),
        (migrated_csi_node("n", "x"), None, QUEUE),
        (migrated_csi_node("n"), None, SKIP),
    ],
)
def test_csi_node_wakes(old: CSINode | None, new: CSINode | None, hint: QueueingHint) -> None:
    assert after_csi_node_change(pending(using("data")), old, new) is hint


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (driver("d"), driver("d", counts=False), QUEUE),
        (driver("d"), driver("d", counts=None), QUEUE),
        (driver("d"), driver("d"), SKIP),
        (driver("d", counts=False), driver("d"), SKIP),
        (driver("d", counts=None), driver("d", counts=False), SKIP),
        (driver("d"), None, QUEUE),
        (driver("d", counts=False), None, SKIP),
    ],
)
def test_driver_wakes(before: CSIDriver, after: CSIDriver | None, hint: QueueingHint) -> None:
    assert after_driver_change(pending(using("data")), before, after) is hint


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, capacity(size=None), QUEUE),
        (capacity(size="1Gi"), capacity(size="2Gi"), QUEUE),
        (capacity(size="1Gi"), capacity(size="1024Mi"), SKIP),
        (capacity(size="2Gi"), capacity(size="1Gi"), SKIP),
        (capacity(size=None), capacity(size="1Gi"), QUEUE),
        (capacity(size="1Gi"), capacity(size=None), SKIP),
        (capacity(size="9Gi", most="1Gi"), capacity(size="9Gi", most="2Gi"), QUEUE),
        (capacity(size="1Gi", most="1Gi"), capacity(size="2Gi", most="1Gi"), SKIP),
    ],
)
def test_room_for_volumes_wakes_the_pod(
    old: CSIStorageCapacity | None, new: CSIStorageCapacity, hint: QueueingHint
) -> None:
    assert after_capacity_change(pending(using("data")), old, new) is hint
