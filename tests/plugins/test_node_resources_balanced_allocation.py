from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import DeviceClass, Node, Pod, RawQuantity
from kframework.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from kframework.state.cluster import ClusterState
from kframework.testing import check_plugin, make_container, make_node, make_pod
from tests.plugins.asking import cluster_of, made, pending, scored
from tests.support.device_objects import claim_with_devices, device_class, resource_slice

GPU = "example.com/gpu"
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)


def over(*resources: str) -> NodeResourcesBalancedAllocationArgs:
    return NodeResourcesBalancedAllocationArgs.model_validate({"resources": [{"name": name} for name in resources]})


# -- the rule, slow and obvious, for pods of one container with plain numbers (milli-CPU for cpu) ----------------------


def amount(raw: RawQuantity) -> int:
    return int(str(raw).removesuffix("m"))


def takes(pod: Pod, resource: str) -> int:
    return amount(pod.spec.containers[0].resources.requests.get(resource, 0))


def evenness(node: Node, pods: Sequence[Pod], resources: Sequence[str]) -> int:
    fractions = []
    for resource in resources:
        offered = amount(node.status.allocatable.get(resource, 0))
        if offered:
            fractions.append(min(1.0, sum(takes(pod, resource) for pod in pods) / offered))
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    if len(fractions) > 2:
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


def grade(node: Node, others: Sequence[Pod], pod: Pod, resources: Sequence[str]) -> int:
    known = [resource for resource in resources if resource != GPU or takes(pod, GPU)]
    return 50 + (50 + evenness(node, [*others, pod], known) - evenness(node, others, known)) // 2


def amounts(cpu: int, size: int, few: int) -> st.SearchStrategy[dict[str, RawQuantity]]:
    sizes = st.integers(0, size)
    known: dict[str, st.SearchStrategy[RawQuantity]] = {
        "cpu": st.integers(0, cpu).map("{}m".format),
        "memory": sizes,
        "ephemeral-storage": sizes,
        GPU: st.integers(0, few),
    }
    return st.fixed_dictionaries({}, optional=known)


REQUESTS = amounts(3000, 5 << 30, 3)
NODES = st.tuples(amounts(8000, 16 << 30, 8), st.lists(REQUESTS, max_size=3))
Drawn = Sequence[tuple[dict[str, RawQuantity], list[dict[str, RawQuantity]]]]


def asking_for(requests: Mapping[str, RawQuantity], name: str = "pod", node_name: str = "") -> Pod:
    return make_pod(name, containers=[make_container(requests=requests)], node_name=node_name)


@given(st.lists(NODES, max_size=5), REQUESTS, st.lists(st.sampled_from([*RESOURCES, "pods"]), unique=True, min_size=1))
def test_pod_that_makes_the_use_of_a_node_more_even_likes_it(
    drawn: Drawn, requests: dict[str, RawQuantity], resources: list[str]
) -> None:
    pod, nodes, others = asking_for(requests), [], {}
    for place, (offered, held) in enumerate(drawn):
        name = f"n{place}"
        nodes.append(make_node(name, cpu=None, memory=None, allocatable=offered))
        others[name] = [asking_for(each, f"{name}-{number}", name) for number, each in enumerate(held)]
    cluster = cluster_of(nodes, (other for each in others.values() for other in each))
    weighed = [resource for resource in resources if resource != "pods"]
    expected = {node.metadata.name: grade(node, others[node.metadata.name], pod, weighed) for node in nodes}
    skipped = not any(takes(pod, resource) for resource in weighed)
    found = scored(made(NodeResourcesBalancedAllocation, over(*resources)), cluster, pod)
    assert found == ({} if skipped else expected)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (make_pod("a", labels={"x": "y"}), make_pod("b", tolerations=["t"]), True),
        (make_pod(cpu="1"), make_pod(cpu="1000m"), True),
        (make_pod(cpu="1"), make_pod(cpu="2"), False),
        (make_pod(cpu=None), make_pod(cpu="100m"), False),
    ],
)
def test_pods_with_the_same_requests_share_their_answers(one: Pod, other: Pod, alike: bool) -> None:
    plugin = made(NodeResourcesBalancedAllocation)
    assert (plugin.sign(pending(one)) == plugin.sign(pending(other))) is alike


def with_devices(*nodes: Node) -> ClusterState:
    """Build a cluster in which each node reaches four devices of a class; two are in use."""
    cluster = cluster_of(nodes)
    devices = resource_slice("p", dict.fromkeys("wxyz", "a100"), allNodes=True)
    for each in (device_class("gpu", GPU, model="a100"), devices, claim_with_devices("k", "p/w", "p/x")):
        cluster.objects(type(each)).put(each.metadata, each)
    return cluster


@pytest.mark.parametrize(
    ("offered", "requests", "score"),
    [
        pytest.param({}, {"cpu": 5, GPU: 1}, 50 + (50 + 87 - 75) // 2, id="two of four devices, then three"),
        pytest.param({}, {"cpu": 5}, 75, id="none asked for"),
        pytest.param({GPU: 2}, {"cpu": 5, GPU: 1}, 75, id="of a device plugin"),
        pytest.param({GPU: 0}, {"cpu": 5, GPU: 9}, 50 + (50 + 75 - 75) // 2, id="more than there are"),
    ],
)
def test_devices_that_back_a_resource_are_scored(
    offered: Mapping[str, RawQuantity], requests: dict[str, RawQuantity], score: int
) -> None:
    cluster = with_devices(make_node("n", cpu=10, allocatable=offered))
    plugin = made(NodeResourcesBalancedAllocation, over("cpu", GPU), handle=cluster)
    assert scored(plugin, cluster, asking_for(requests)) == {"n": score}


def test_nothing_is_remembered_of_a_pod_whose_devices_are_weighed() -> None:
    cluster = with_devices(make_node("n"))
    default, of_gpus = (
        made(NodeResourcesBalancedAllocation, over(*names), handle=cluster) for names in (("cpu",), RESOURCES)
    )
    pod, plain = pending(asking_for({GPU: 1}), cluster), pending(asking_for({GPU: 0, "cpu": 1}), cluster)
    assert (of_gpus.sign(pod), of_gpus.sign(plain)) == (None, plain.on_node)
    assert default.sign(pod) == pod.on_node
    cluster.objects(DeviceClass).remove(device_class("gpu").metadata)
    assert of_gpus.sign(pod) == pod.on_node


@pytest.mark.parametrize("resources", [["cpu", "memory"], ["cpu"], RESOURCES])
def test_contract_is_kept(resources: Sequence[str]) -> None:
    args = {"resources": [{"name": name} for name in resources]}
    nothing = make_pod(cpu=None, memory=None)
    found = check_plugin(NodeResourcesBalancedAllocation, args=args, pods=[nothing], examples=4)
    assert found.skips["pre_score"]
    assert found.scores[75]
    assert (min(found.scores) < 75 < max(found.scores)) is (len(resources) > 1)
