"""Bindings to nodes without room are rejected, whichever scheduler they come from."""

from __future__ import annotations

import pytest

from kframework.clock import SystemClock
from kframework.errors import ClusterError
from kframework.in_memory.binding_admission import BindingAdmission
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod


def cluster_with(*objects: Node | Pod) -> tuple[MemoryCluster, BindingAdmission]:
    cluster = MemoryCluster(SystemClock(), objects)
    return cluster, BindingAdmission(cluster)


def bind(cluster: MemoryCluster, pod: Pod, node: str = "a") -> None:
    cluster.assign("default", pod.metadata.name, "", node)


@pytest.mark.parametrize(
    ("node", "pods", "missing"),
    [
        (make_node("a", cpu=2), [make_pod("one", cpu=2), make_pod("two", cpu=1)], "cpu"),
        (make_node("a", pods=1), [make_pod("one"), make_pod("two")], "pods"),
        (make_node("a"), [make_pod("one", host_ports=[80]), make_pod("two", host_ports=[80])], "host ports"),
        (make_node("a", cpu=1), [make_pod("one", cpu=1, node_name="a"), make_pod("two")], "cpu"),
    ],
    ids=["resources", "pods", "ports", "a pod that runs already"],
)
def test_second_binding_to_the_last_room_is_rejected(node: Node, pods: list[Pod], missing: str) -> None:
    cluster, admission = cluster_with(node, *pods)
    if not pods[0].spec.node_name:
        bind(cluster, pods[0])
    with pytest.raises(ClusterError, match=f'pods "two" is forbidden: node a has not enough {missing} left') as refused:
        bind(cluster, pods[1])
    assert refused.value.status == 403
    assert (admission.rejected, admission.late) == (1, 0)
    assert cluster.read(Pod, "two").spec.node_name == ""


@pytest.mark.parametrize("ending", ["deletion", "success"])
def test_room_of_a_pod_that_ended_is_free(ending: str) -> None:
    cluster, _ = cluster_with(
        make_node("a", cpu=1), make_pod("old", cpu=1, node_name="a", host_ports=[80]), make_pod("new", cpu=1)
    )
    if ending == "deletion":
        cluster.remove(Pod, "old", grace=0)
    else:
        cluster.merge(Pod, "old", {"status": {"phase": "Succeeded"}})
    bind(cluster, make_pod("new", host_ports=[80]))
    assert cluster.read(Pod, "new").spec.node_name == "a"


def test_a_larger_node_has_more_room() -> None:
    cluster, _ = cluster_with(make_node("a", cpu=1), make_pod("one", cpu=1), make_pod("two", cpu=1))
    bind(cluster, make_pod("one"))
    cluster.merge(Node, "a", {"status": {"allocatable": {"cpu": "2"}}})
    bind(cluster, make_pod("two"))
    assert cluster.read(Pod, "two").spec.node_name == "a"


def test_what_a_node_does_not_list_is_not_checked() -> None:
    node, pod = make_node("a", cpu=1), make_pod("one", requests={"example.com/card": 1})
    cluster, _ = cluster_with(node, pod, make_pod("two"))
    bind(cluster, pod)
    bind(cluster, make_pod("two"), "gone")
    assert [each.spec.node_name for each in cluster.objects(Pod)] == ["a", "gone"]


def test_binding_of_a_bound_pod_is_the_api_servers_conflict() -> None:
    cluster, admission = cluster_with(make_node("a", cpu=1), make_node("b"), make_pod("one", cpu=1))
    bind(cluster, make_pod("one"))
    with pytest.raises(ClusterError, match="already assigned") as refused:
        bind(cluster, make_pod("one"))
    assert refused.value.status == 409
    assert (admission.rejected, admission.late) == (0, 1)
