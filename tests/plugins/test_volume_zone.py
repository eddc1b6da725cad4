from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import NOTHING, ActionType, CycleState, Skip, Status, unresolvable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import ApiObject, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from kframework.plugins.volume_zone import (
    REASON,
    VolumeZone,
    after_claim_change,
    after_class_addition,
    after_volume_change,
)
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from kframework.testing.single_plugin import build_profile
from tests.plugins.asking import cluster_of, filtered, pending
from tests.support.storage import claim, claim_volumes, ephemeral, storage_class, volume

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
ELSEWHERE = unresolvable(REASON)
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def plugin_of(cluster: ClusterState) -> VolumeZone:
    plugin = build_profile(VolumeZone, {}, cluster).plugins["VolumeZone"]
    assert isinstance(plugin, VolumeZone)
    return plugin


def cluster_with(objects: Sequence[ApiObject], nodes: Sequence[Node] = ()) -> ClusterState:
    cluster = cluster_of(nodes)
    for each in objects:
        cluster.objects(type(each)).put(each.metadata, each)
    return cluster


def using(*names: str) -> Pod:
    return make_pod("web", volumes=claim_volumes(*names))


# -- the rule, slow and obvious ----------------------------------------------------------------------------------------


def fits(node: Mapping[str, str], volumes: Sequence[Mapping[str, str]]) -> bool:
    if not {ZONE, REGION, OLD_ZONE, OLD_REGION} & node.keys():
        return True
    for labels in volumes:
        for key, text in labels.items():
            values = [value.strip() for value in text.split("__")]
            if "" in values:
                continue
            mine = node.get(key)
            if mine is None and key in (OLD_ZONE, OLD_REGION):
                mine = node.get(ZONE if key == OLD_ZONE else REGION)
            if mine not in values:
                return False
    return True


KEYS = st.sampled_from([ZONE, REGION, OLD_ZONE, OLD_REGION])
LABELS = st.dictionaries(KEYS, st.sampled_from(["a", "b", ""]), max_size=3)
MANY = st.dictionaries(KEYS, st.sampled_from(["a", "b", "a__b", "b__c", "a__", "", "a __b"]), max_size=2)


@given(st.lists(LABELS, min_size=1, max_size=12), st.lists(MANY, min_size=1, max_size=2))
def test_zones_of_volumes_keep_nodes_out(nodes: list[dict[str, str]], volumes: list[dict[str, str]]) -> None:
    disks = [volume(f"v{number}", labels=labels) for number, labels in enumerate(volumes)]
    claims = [claim(f"c{number}", bound=f"v{number}") for number in range(len(volumes))]
    made = [make_node(f"n{number}", labels=labels) for number, labels in enumerate(nodes)]
    cluster = cluster_with([*disks, *claims], made)
    expected = {f"n{number}": ELSEWHERE for number, labels in enumerate(nodes) if not fits(labels, volumes)}
    pod = using(*(each.metadata.name for each in claims))
    assert filtered(plugin_of(cluster), cluster, pod) == expected


@pytest.mark.parametrize(
    ("objects", "names", "answer"),
    [
        ([], [], Skip),
        ([claim(bound="v"), volume("v")], ["data"], Skip),
        ([claim(bound="v"), volume("v", labels={ZONE: "__"})], ["data"], Skip),
        ([claim(bound="v"), volume("v", labels={ZONE: "a"})], ["data"], None),
        ([claim(volumeName="v"), volume("v", labels={ZONE: "a"})], ["data"], None),
        ([], [""], unresolvable("PersistentVolumeClaim had no name")),
        ([], ["data"], unresolvable('persistentvolumeclaim "data" not found')),
        ([claim(bound="v")], ["data"], unresolvable('persistentvolume "v" not found')),
        ([claim(of=None)], ["data"], unresolvable("PersistentVolumeClaim had no pv name and storageClass name")),
        ([claim(of="ghost")], ["data"], unresolvable('storageclass.storage.k8s.io "ghost" not found')),
        (
            [claim(), storage_class(mode=None)],
            ["data"],
            unresolvable('VolumeBindingMode not set for StorageClass "local"'),
        ),
        ([claim(), storage_class(mode="Immediate")], ["data"], unresolvable("PersistentVolume had no name")),
        ([claim(), storage_class()], ["data"], Skip),
        (
            [claim(), storage_class(), claim("disk", bound="v"), volume("v", labels={ZONE: "a"})],
            ["data", "disk"],
            None,
        ),
    ],
)
def test_claims_that_cannot_be_used(objects: Sequence[ApiObject], names: Sequence[str], answer: Status | None) -> None:
    cluster = cluster_with(objects, [make_node("n", labels={ZONE: "a"})])
    plugin, pod = plugin_of(cluster), pending(using(*names), cluster)
    assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == answer
    # A profile may have the plugin at Filter alone: there each node answers what PreFilter would have.
    (node,) = cluster.nodes
    alone = answer if answer is not None and answer.is_rejected else None
    assert plugin.filter(CycleState(), pod, node) == alone
    bits = int(plugin.filter_nodes(CycleState(), pod, cluster.nodes, cluster.nodes.order)[0])
    assert (plugin.filter_status(pod, bits) if bits else None) == alone


def test_ephemeral_volumes_are_not_looked_at() -> None:
    cluster = cluster_with([])
    pod = pending(make_pod(volumes=[ephemeral("scratch")]), cluster)
    assert plugin_of(cluster).pre_filter(CycleState(), pod, cluster.nodes) == Skip
    assert plugin_of(cluster).sign(pod) is NOTHING is plugin_of(cluster).sign(pending(make_pod()))
    assert plugin_of(cluster).sign(pending(using("data"))) is None


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    change = ActionType.ADD | ActionType.UPDATE
    assert plugin_of(cluster_with([])).events_to_register() == [
        ClusterEvent("storage.k8s.io/StorageClass", ActionType.ADD, after_class_addition),
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
        ClusterEvent("PersistentVolumeClaim", change, after_claim_change),
        ClusterEvent("PersistentVolume", change, after_volume_change),
    ]


@pytest.mark.parametrize(
    ("new", "hint"),
    [(storage_class(), QUEUE), (storage_class(mode="Immediate"), SKIP), (storage_class(mode=None), SKIP)],
)
def test_class_wakes(new: StorageClass, hint: QueueingHint) -> None:
    assert after_class_addition(pending(using("data")), None, new) is hint


@pytest.mark.parametrize(
    ("new", "hint"),
    [(claim(), QUEUE), (claim("other"), SKIP), (claim(namespace="other"), SKIP), (claim("web-scratch"), SKIP)],
)
def test_claim_wakes_its_pods(new: PersistentVolumeClaim, hint: QueueingHint) -> None:
    pod = pending(make_pod("web", volumes=[*claim_volumes("data"), ephemeral("scratch")]))
    assert after_claim_change(pod, None, new) is hint


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, volume(), QUEUE),
        (volume(), volume(labels={"media": "ssd"}), SKIP),
        (volume(), volume(labels={ZONE: "a"}), QUEUE),
        (volume(labels={ZONE: "a__b"}), volume(labels={ZONE: "b__a"}), SKIP),
        (volume(labels={ZONE: "a"}), volume(labels={OLD_ZONE: "a"}), QUEUE),
        (volume(), volume(labels={ZONE: "a__"}), SKIP),
    ],
)
def test_volume_wakes(old: PersistentVolume | None, new: PersistentVolume, hint: QueueingHint) -> None:
    assert after_volume_change(pending(using("data")), old, new) is hint
