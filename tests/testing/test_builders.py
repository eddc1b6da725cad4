"""The builders make what a cluster file would hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework.objects import OwnerReference, Taint, Toleration
from kframework.objects.requests import allocatable, fit_requests
from kframework.testing import (
    make_container,
    make_node,
    make_pod,
    make_taint,
    make_toleration,
    node_info,
    node_table,
    pending_pod,
)


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("dedicated=gpu:NoSchedule", Taint(key="dedicated", value="gpu", effect="NoSchedule")),
        ("example.com/spot:PreferNoSchedule", Taint(key="example.com/spot", effect="PreferNoSchedule")),
        ("empty=:NoExecute", Taint(key="empty", effect="NoExecute")),
    ],
)
def test_taints_are_parsed_as_by_kubectl(text: str, taint: Taint) -> None:
    assert make_taint(text) == taint


@pytest.mark.parametrize(
    ("text", "key", "operator", "value", "effect"),
    [
        ("dedicated=gpu:NoSchedule", "dedicated", "Equal", "gpu", "NoSchedule"),
        ("dedicated=gpu", "dedicated", "Equal", "gpu", ""),
        ("dedicated=", "dedicated", "Equal", "", ""),
        ("dedicated:NoExecute", "dedicated", "Exists", "", "NoExecute"),
        ("dedicated:Exists", "dedicated", "Exists", "", ""),
        ("dedicated", "dedicated", "Exists", "", ""),
        (":NoSchedule", "", "Exists", "", "NoSchedule"),
        (":Exists", "", "Exists", "", ""),
    ],
)
def test_tolerations_are_parsed(text: str, key: str, operator: str, value: str, effect: str) -> None:
    assert make_toleration(text) == Toleration(key=key, operator=operator, value=value, effect=effect)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (make_taint, ""),
        (make_taint, "dedicated"),
        (make_taint, "dedicated=gpu"),
        (make_taint, "dedicated:Sometimes"),
        (make_taint, ":NoSchedule"),
        (make_taint, "a=b=c:NoSchedule"),
        (make_toleration, ""),
        (make_toleration, "=gpu"),
        (make_toleration, "dedicated:"),
        (make_toleration, "dedicated:Sometimes"),
        (make_toleration, "dedicated=gpu:Exists"),
        (make_toleration, "a:b:NoSchedule"),
    ],
)
def test_invalid_texts_are_rejected_with_the_valid_forms(make: Callable[[str], object], text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a (taint|toleration): write key.*NoSchedule\|PreferNoSchedule\|NoExecute"
    ):
        make(text)


def test_plain_pod_is_pending_with_small_requests() -> None:
    pod = make_pod()
    assert (pod.metadata.namespace, pod.metadata.name) == ("default", "pod")
    assert fit_requests(pod.spec) == {"cpu": 100, "memory": 128 * 1024**2}
    assert (pod.status.phase, pod.spec.scheduler_name) == ("Pending", "default-scheduler")


def test_requests_add_to_cpu_and_memory_unless_none() -> None:
    pod = make_pod(cpu="1.5", memory=None, requests={"nvidia.com/gpu": 2}, overhead={"cpu": "250m"})
    assert fit_requests(pod.spec) == {"cpu": 1750, "nvidia.com/gpu": 2}


def test_containers_replace_the_default_container() -> None:
    sidecar = make_container("proxy", cpu="50m", sidecar=True)
    pod = make_pod(containers=[make_container("a", cpu=1), make_container("b", cpu=2)], init_containers=[sidecar])
    assert fit_requests(pod.spec) == {"cpu": 3050}
    assert [container.name for container in pod.spec.containers] == ["a", "b"]


def test_pod_builder_sets_every_field() -> None:
    owner = OwnerReference(kind="ReplicaSet", name="web", controller=True)
    pod = make_pod(
        "web-1",
        namespace="shop",
        labels={"app": "web"},
        annotations={"note": "x"},
        owner=owner,
        image="nginx:1",
        host_ports=[80],
        node_name="n1",
        node_selector={"disk": "ssd"},
        tolerations=["a=b:NoSchedule", Toleration(key="c", operator="Exists")],
        gates=["first", "second"],
        priority=7,
        preemption_policy="Never",
        scheduler_name="mine",
        nominated_node_name="n2",
        start_time="2026-01-01T00:00:00Z",
        deletion_timestamp="2026-01-02T00:00:00Z",
    )
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    assert (metadata.namespace, metadata.labels, metadata.annotations) == ("shop", {"app": "web"}, {"note": "x"})
    assert (metadata.owner_references, metadata.deletion_timestamp) == ((owner,), "2026-01-02T00:00:00Z")
    (container,) = spec.containers
    assert (container.image, [port.host_port for port in container.ports]) == ("nginx:1", [80])
    assert (spec.node_name, spec.node_selector, spec.priority) == ("n1", {"disk": "ssd"}, 7)
    assert spec.tolerations == (make_toleration("a=b:NoSchedule"), make_toleration("c"))
    assert [gate.name for gate in spec.scheduling_gates] == ["first", "second"]
    assert (spec.preemption_policy, spec.scheduler_name) == ("Never", "mine")
    assert (status.phase, status.nominated_node_name, status.start_time) == ("Running", "n2", "2026-01-01T00:00:00Z")


def test_plain_node_has_its_hostname_label() -> None:
    node = make_node("n1", zone="a", labels={"disk": "ssd"})
    assert allocatable(node) == {"cpu": 4000, "memory": 16 * 1024**3, "pods": 110}
    assert node.status.capacity == node.status.allocatable
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "n1",
        "topology.kubernetes.io/zone": "a",
        "disk": "ssd",
    }


def test_node_builder_sets_every_field() -> None:
    node = make_node(
        "n1",
        annotations={"note": "x"},
        cpu="2500m",
        memory=None,
        pods=3,
        allocatable={"nvidia.com/gpu": 2},
        taints=["a:NoSchedule", Taint(key="b", effect="NoExecute")],
        unschedulable=True,
        images={"nginx:1": 1000},
    )
    assert allocatable(node) == {"cpu": 2500, "pods": 3, "nvidia.com/gpu": 2}
    assert node.metadata.annotations == {"note": "x"}
    assert node.spec.taints == (make_taint("a:NoSchedule"), make_taint("b:NoExecute"))
    assert node.spec.unschedulable
    assert [(image.names, image.size_bytes) for image in node.status.images] == [(("nginx:1",), 1000)]


def test_uids_follow_from_the_names() -> None:
    pods = [make_pod("a"), make_pod("b"), make_pod("a", namespace="other")]
    uids = {pod.metadata.uid for pod in pods} | {make_node("a").metadata.uid}
    assert len(uids) == 4
    assert make_pod("a", cpu=2).metadata.uid == pods[0].metadata.uid


def test_node_info_has_the_given_pods() -> None:
    node = node_info(make_node("n1", cpu=4), pods=[make_pod("a", cpu=1), make_pod("b", cpu=1, node_name="elsewhere")])
    assert [(pod.name, pod.node_name) for pod in node.pods] == [("a", "n1"), ("b", "n1")]
    assert (node.requested("cpu"), node.allocatable("cpu")) == (2000, 4000)


def test_node_table_has_the_pods_that_name_its_nodes() -> None:
    nodes = node_table([make_node("n1"), make_node("n2")], pods=[make_pod("a", node_name="n2"), make_pod("b")])
    assert {node.name: [pod.name for pod in node.pods] for node in nodes} == {"n1": [], "n2": ["a"]}
    assert nodes.requested("pods")[nodes.order].tolist() == [0, 1]


def test_pending_pod_is_unassigned() -> None:
    pod = pending_pod(make_pod("web", labels={"app": "web"}, priority=7))
    assert (pod.key, pod.labels, pod.priority, pod.object) == (
        "default/web",
        {"app": "web"},
        7,
        make_pod("web", labels={"app": "web"}, priority=7),
    )


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        (node_info(make_node("n1")).labels, "node n1: metadata.labels"),
        (pending_pod(make_pod("web")).annotations, "pod default/web: metadata.annotations"),
        (node_table([make_node("n2")])[0].annotations, "node n2: metadata.annotations"),
    ],
)
def test_hook_arguments_are_read_only(labels: dict[str, str], what: str) -> None:
    with pytest.raises(TypeError, match=f"{what} is read-only, and written to in .*test_builders.py:"):
        labels["a"] = "b"
