"""The cluster in memory from its own side: what is loaded, and what takes its place."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework.errors import ClusterError
from kframework.in_memory.kind_store import Change
from kframework.in_memory.store import MemoryStore
from kframework.objects import ApiObject, Namespace, Node, ObjectMeta, Pod, PodSpec, PodStatus, PriorityClass
from kframework.testing import StubClock, make_node, make_pod


def pod(name: str, *, namespace: str = "default", node: str = "", phase: str = "", priority_class: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodSpec(node_name=node, priority_class_name=priority_class),
        status=PodStatus(phase=phase),
    )


def cluster(*objects: ApiObject) -> MemoryStore:
    return MemoryStore(StubClock(), objects)


def test_loading_creates_missing_namespaces() -> None:
    shop = Namespace(metadata=ObjectMeta(name="shop", labels={"tier": "a"}))
    memory = cluster(pod("a", namespace="shop"), pod("b", namespace="team"), shop)
    namespaces = {each.metadata.name: each for each in memory.objects(Namespace)}
    assert set(namespaces) == {"shop", "team", "default", "kube-node-lease", "kube-public", "kube-system"}
    assert namespaces["shop"].metadata.labels["tier"] == "a"
    assert namespaces["team"].metadata.labels == {"kubernetes.io/metadata.name": "team"}


def test_loading_uses_later_priority_classes() -> None:
    memory = cluster(pod("a", priority_class="high"), PriorityClass(metadata=ObjectMeta(name="high"), value=7))
    assert memory.read(Pod, "a", "default").spec.priority == 7


def test_loaded_running_pod_keeps_its_state() -> None:
    running = pod("a", node="n1", phase="Running")
    running = replace(running, metadata=replace(running.metadata, uid="mine", resource_version="9000"))
    (stored,) = cluster(running).objects(Pod)
    assert (stored.metadata.uid, stored.spec.node_name, stored.status.phase) == ("mine", "n1", "Running")
    assert stored.metadata.resource_version == "2"  # a cluster counts its own versions: the namespace came first


def test_loading_a_duplicate_is_an_error() -> None:
    with pytest.raises(ClusterError, match='pods "a" already exists'):
        cluster(pod("a"), pod("a"))


def test_all_objects_can_be_replaced() -> None:
    memory = cluster(make_node("a"), make_pod("web", namespace="shop"))
    result: list[Change] = []
    memory.subscribe([Node, Pod], result.append)
    before = memory.version
    memory.replace_all([make_node("b"), make_node("a")])
    assert [each.metadata.name for each in memory.objects(Node)] == ["b", "a"]
    assert memory.objects(Pod) == []
    assert memory.find(Namespace, "shop") is None
    assert memory.find(Namespace, "default") is not None
    assert [(each.subject.metadata.name, each.new is None) for each in result] == [
        *[("a", True), ("web", True)],
        *[("b", False), ("a", False)],
    ]
    assert [each.version for each in result] == sorted({each.version for each in result})
    assert result[0].version > before


def test_equal_labels_are_shared_within_one_cluster() -> None:
    one, other = cluster(pod("a"), pod("b")), cluster(pod("a"))
    labels = one.read(Pod, "a").metadata.labels
    assert labels is one.read(Pod, "b").metadata.labels
    labels["written"] = "by a faulty plugin"
    assert other.read(Pod, "a").metadata.labels == {} == cluster(pod("a")).read(Pod, "a").metadata.labels
