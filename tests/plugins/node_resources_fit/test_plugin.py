from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import floor, trunc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework import ActionType, Code, Status, unresolvable, unschedulable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import ApiObject, Container, DeviceClass, Node, Pod, RawQuantity
from kframework.plugins.node_resources_fit.args import NodeResourcesFitArgs
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit, after_class_change, after_pod_change
from kframework.state.cluster import ClusterState
from kframework.testing import make_container, make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, on_node, pending, scored
from tests.support.device_objects import claim_with_devices, device_class, resource_slice

GPU, HUGE = "example.com/gpu", "hugepages-2Mi"
OF_CLASS = "deviceclass.resource.kubernetes.io/gpu"
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, HUGE)
MEBI = 1024**2

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
U, UU = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def scoring(
    strategy: str, weights: Mapping[str, int] | None = None, shape: Mapping[int, int] | None = None
) -> NodeResourcesFitArgs:
    """Make the Args of a strategy; `shape` is {utilization: score}."""
    block: dict[str, object] = {"type": strategy}
    if weights:
        block["resources"] = [{"name": name, "weight": weight} for name, weight in weights.items()]
    if shape:
        points = [{"utilization": x, "score": y} for x, y in sorted(shape.items())]
        block["requestedToCapacityRatio"] = {"shape": points}
    return NodeResourcesFitArgs.model_validate({"scoringStrategy": block})


# -- the rules, slow and obvious, for pods of plain containers with amounts in plain numbers ---------------------------


def amount(raw: RawQuantity) -> int:
    return int(str(raw).removesuffix("m"))


def takes(pod: Pod, resource: str, default: int = 0) -> int:
    return sum(amount(container.resources.requests.get(resource, default)) for container in pod.spec.containers)


def offers(node: Node, resource: str) -> int:
    return amount(node.status.allocatable.get(resource, 0))


def rejection(node: Node, others: Sequence[Pod], pod: Pod, ignored: str) -> Status | None:
    reasons = ["Too many pods"] if len(others) + 1 > offers(node, "pods") else []
    hopeless = False
    for resource in RESOURCES:
        wanted, offered = takes(pod, resource), offers(node, resource)
        free = offered - sum(takes(other, resource) for other in others)
        if wanted > 0 and wanted > free and resource != ignored:
            reasons.append(f"Insufficient {resource}")
            hopeless = hopeless or wanted > offered
    if not reasons:
        return None
    return unresolvable(*reasons) if hopeless else unschedulable(*reasons)


def grade(node: Node, others: Sequence[Pod], pod: Pod, args: NodeResourcesFitArgs) -> int:
    strategy = args.scoring_strategy
    assert strategy is not None
    scores: list[tuple[int, int]] = []
    for resource in strategy.resources:
        default = {"cpu": 100, "memory": 200 * MEBI}.get(resource.name, 0)
        wanted, offered = takes(pod, resource.name, default), offers(node, resource.name)
        unwanted = resource.name in (GPU, HUGE) and wanted == 0
        if offered == 0 or unwanted or resource.name == "pods":
            continue
        used = Fraction(wanted + sum(takes(other, resource.name, default) for other in others), offered)
        used = min(used, Fraction(1))
        if strategy.requested_to_capacity_ratio is not None:
            points = [(point.utilization, point.score * 10) for point in strategy.requested_to_capacity_ratio.shape]
            score = on_line(points, floor(used * 100))
        else:
            score = floor((used if strategy.type == "MostAllocated" else 1 - used) * 100)
        if score > 0 or strategy.type != "RequestedToCapacityRatio":
            scores.append((score, resource.weight))
    if not scores:
        return 0
    mean = Fraction(sum(score * weight for score, weight in scores), sum(weight for _, weight in scores))
    return floor(mean + Fraction(1, 2)) if strategy.type == "RequestedToCapacityRatio" else floor(mean)


def on_line(points: Sequence[tuple[int, int]], x: int) -> int:
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + trunc(Fraction((y1 - y0) * (x - x0), x1 - x0))
    return points[-1][1]


# -- compared on random clusters ---------------------------------------------------------------------------------------


def amounts(cpu: int, size: int, few: int) -> st.SearchStrategy[dict[str, RawQuantity]]:
    """Draw some amount of each resource, or none."""
    sizes, counts = st.integers(0, size), st.integers(0, few)
    known: dict[str, st.SearchStrategy[RawQuantity]] = {
        "cpu": st.integers(0, cpu).map("{}m".format),
        "memory": sizes,
        "ephemeral-storage": sizes,
        GPU: counts,
        HUGE: counts,
    }
    return st.fixed_dictionaries({}, optional=known)


CONTAINERS = st.lists(
    amounts(1000, 1000 * MEBI, 2).map(lambda requests: make_container(requests=requests)), min_size=1, max_size=2
)
PODS = CONTAINERS.map(lambda containers: make_pod(containers=containers))
#: Of each node what it offers, how many pods it allows, and the containers of the pods on it.
NODES = st.tuples(amounts(4000, 4000 * MEBI, 6), st.none() | st.integers(0, 4), st.lists(CONTAINERS, max_size=4))
Drawn = Sequence[tuple[dict[str, RawQuantity], int | None, list[list[Container]]]]

WEIGHTS = st.dictionaries(st.sampled_from([*RESOURCES, "pods", "unknown"]), st.integers(1, 100), min_size=1)
SHAPES = st.dictionaries(st.integers(0, 100), st.integers(0, 10), min_size=1, max_size=4)
ARGS = st.one_of(
    st.builds(scoring, st.sampled_from(["LeastAllocated", "MostAllocated"]), WEIGHTS),
    st.builds(scoring, st.just("RequestedToCapacityRatio"), WEIGHTS, SHAPES),
)
IGNORING = st.sampled_from(
    [
        ("", NodeResourcesFitArgs()),
        (GPU, NodeResourcesFitArgs(ignored_resources=(GPU, HUGE, "cpu"))),
        (GPU, NodeResourcesFitArgs(ignored_resource_groups=("example.com", "memory"))),
    ]
)


def build(drawn: Drawn) -> list[tuple[Node, list[Pod]]]:
    cluster = []
    for place, (offered, pods, held) in enumerate(drawn):
        name = f"n{place}"
        on_it = [make_pod(f"{name}-{n}", containers=each, node_name=name) for n, each in enumerate(held)]
        cluster.append((make_node(name, cpu=None, memory=None, pods=pods, allocatable=offered), on_it))
    return cluster


def in_any_order(status: Status) -> Status:
    """Scalar resources are named in the pod's own order."""
    return Status(status.code, tuple(sorted(status.reasons)))


@given(st.lists(NODES, max_size=5), PODS, IGNORING)
def test_node_is_rejected_for_all_that_it_lacks(
    drawn: Drawn, pod: Pod, ignoring: tuple[str, NodeResourcesFitArgs]
) -> None:
    cluster = build(drawn)
    ignored, args = ignoring
    rejections = {node.metadata.name: rejection(node, others, pod, ignored) for node, others in cluster}
    state = cluster_of((node for node, _ in cluster), (pod for _, others in cluster for pod in others))
    found = filtered(made(NodeResourcesFit, args), state, pod)
    assert {name: in_any_order(status) for name, status in found.items()} == {
        name: in_any_order(status) for name, status in rejections.items() if status
    }


@given(st.lists(NODES, max_size=5), PODS, ARGS)
def test_use_of_a_node_is_its_score(drawn: Drawn, pod: Pod, args: NodeResourcesFitArgs) -> None:
    cluster = build(drawn)
    state = cluster_of((node for node, _ in cluster), (pod for _, others in cluster for pod in others))
    expected = {node.metadata.name: grade(node, others, pod, args) for node, others in cluster}
    assert scored(made(NodeResourcesFit, args), state, pod) == expected


HALF_FULL = make_pod("there", cpu=2, memory="2Gi", node_name="n", requests={GPU: 1})


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        pytest.param(make_pod(cpu=2, memory="2Gi", requests={GPU: 1}), None, id="all that is free"),
        pytest.param(make_pod(cpu=3), unschedulable("Insufficient cpu"), id="if the other went"),
        pytest.param(make_pod(cpu=5), unresolvable("Insufficient cpu"), id="never"),
        pytest.param(
            make_pod(requests={GPU: 2}, cpu=9, memory="3Gi"),
            unresolvable("Insufficient cpu", "Insufficient memory", f"Insufficient {GPU}"),
            id="one never, all in order",
        ),
        pytest.param(
            make_pod(requests={"b.io/x": 1, "a.io/x": 1, "ephemeral-storage": 1}),
            unresolvable("Insufficient ephemeral-storage", "Insufficient b.io/x", "Insufficient a.io/x"),
            id="what no node offers",
        ),
        pytest.param(make_pod(requests={"b.io/x": 0, "ephemeral-storage": 0}), None, id="zero of what is not there"),
        pytest.param(make_pod(requests={"unheard-of": 1}), None, id="what is no resource"),
        pytest.param(make_pod(cpu=None, memory=None), None, id="nothing"),
        pytest.param(make_pod(cpu=1, overhead={"cpu": "1500m"}), unschedulable("Insufficient cpu"), id="overhead"),
    ],
)
def test_room_on_a_half_full_node_is_scored(pod: Pod, status: Status | None) -> None:
    node = make_node("n", cpu=4, memory="4Gi", allocatable={GPU: 2})
    assert filtered(made(NodeResourcesFit), cluster_of([node], [HALF_FULL]), pod) == ({"n": status} if status else {})


@pytest.mark.parametrize(
    ("resource", "ignored"),
    [
        ("example.com/gpu", True),
        ("example.com/other", False),
        ("acme.io/anything", True),
        ("node.kubernetes.io/acme", False),
        ("hugepages-2Mi", False),
        ("cpu", False),
    ],
)
def test_only_extended_resources_can_be_ignored(resource: str, ignored: bool) -> None:
    names = ("example.com/gpu", "node.kubernetes.io/acme", "hugepages-2Mi", "cpu")
    args = NodeResourcesFitArgs(ignored_resources=names, ignored_resource_groups=("acme.io", "node.kubernetes.io"))
    state = cluster_of([make_node("n", cpu=None)])
    found = filtered(made(NodeResourcesFit, args), state, make_pod(cpu=None, requests={resource: 1}))
    assert found == ({} if ignored else {"n": unresolvable(f"Insufficient {resource}")})


def test_resource_that_a_node_comes_to_offer_is_seen() -> None:
    state, plugin, pod = cluster_of([make_node("n")]), made(NodeResourcesFit), make_pod(requests={GPU: 1})
    assert filtered(plugin, state, pod) == {"n": unresolvable(f"Insufficient {GPU}")}
    state.put_node(make_node("n", allocatable={GPU: 1}))
    assert filtered(plugin, state, pod) == {}


def test_no_resource_is_missed_however_many_a_pod_asks_for() -> None:
    names = [f"example.com/r{number}" for number in range(80)]
    pod, enough = make_pod(requests=dict.fromkeys(names, 2)), dict.fromkeys(names, 2)
    nodes = [make_node("n0", allocatable=enough | {names[3]: 1}), make_node("n1", allocatable=enough | {names[79]: 1})]
    found = filtered(made(NodeResourcesFit), cluster_of([*nodes, make_node("n2", allocatable=enough)]), pod)
    assert found["n0"] == unresolvable(f"Insufficient {names[3]}")
    assert f"Insufficient {names[79]}" in found["n1"].reasons
    assert found.keys() == {"n0", "n1"}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (make_pod("a", labels={"x": "y"}), make_pod("b", tolerations=["t"]), True),
        (make_pod(cpu="1"), make_pod(cpu="1000m"), True),
        (make_pod(cpu="1"), make_pod(cpu="2"), False),
        (make_pod(memory=None), make_pod(memory="200Mi"), False),
        (make_pod(containers=[make_container()]), make_pod(containers=[make_container(), make_container()]), False),
    ],
)
def test_pods_with_the_same_requests_share_their_answers(one: Pod, other: Pod, alike: bool) -> None:
    plugin = made(NodeResourcesFit)
    assert (plugin.sign(pending(one)) == plugin.sign(pending(other))) is alike


def test_amounts_beyond_floating_point_are_divided_exactly() -> None:
    offered = 9 * 10**16  # a hundred times that still fits int64
    state = cluster_of([make_node("n", allocatable={GPU: offered})])
    args = scoring("MostAllocated", {GPU: 1})
    assert offered / 2 - 1 == offered / 2
    assert scored(made(NodeResourcesFit, args), state, make_pod(requests={GPU: offered // 2 - 1})) == {"n": 49}


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    plugin = made(NodeResourcesFit)
    assert plugin.events_to_register() == [
        ClusterEvent("Pod", ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, after_pod_change),
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, plugin.after_node_change),
        ClusterEvent("resource.k8s.io/DeviceClass", ActionType.ADD | ActionType.UPDATE, after_class_change),
    ]


@pytest.mark.parametrize(
    ("deleted", "hint"),
    [
        (make_pod("other", node_name="n"), QUEUE),
        (make_pod("other", nominated_node_name="n"), QUEUE),
        (make_pod("other"), SKIP),
    ],
)
def test_deleted_pod_wakes_the_pod_when_it_held_room(deleted: Pod, hint: QueueingHint) -> None:
    assert after_pod_change(pending(make_pod("me")), on_node(deleted), None) is hint


@pytest.mark.parametrize(
    ("name", "node", "before", "after", "hint"),
    [
        pytest.param("me", "", {"cpu": 2}, {"cpu": 1}, QUEUE, id="itself"),
        pytest.param("other", "n", {"cpu": 2}, {"cpu": 1}, QUEUE, id="less of what it wants"),
        pytest.param("other", "n", {"cpu": 2}, {}, QUEUE, id="none of what it wants"),
        pytest.param("other", "n", {GPU: 2}, {GPU: 1}, QUEUE, id="a scalar"),
        pytest.param("other", "", {"cpu": 2}, {"cpu": 1}, SKIP, id="not on a node"),
        pytest.param("other", "n", {"memory": 2}, {"memory": 1}, SKIP, id="something else"),
        pytest.param("other", "n", {HUGE: 2}, {HUGE: 1}, SKIP, id="something it wants none of"),
        pytest.param("other", "n", {"cpu": 1, "memory": 2}, {"cpu": 2, "memory": 1}, SKIP, id="more of what it wants"),
    ],
)
def test_pod_that_shrinks_wakes_the_pod_when_that_frees_what_it_wants(
    name: str, node: str, before: dict[str, RawQuantity], after: dict[str, RawQuantity], hint: QueueingHint
) -> None:
    pod = pending(make_pod("me", cpu=1, memory=None, requests={GPU: 1, HUGE: 0}))
    old, new = (
        on_node(make_pod(name, cpu=None, memory=None, requests=requests, node_name=node))
        for requests in (before, after)
    )
    assert after_pod_change(pod, old, new) is hint


SMALL = make_node(cpu=1, memory="1Gi", pods=10)
IGNORED: dict[str, object] = {"ignoredResources": [GPU]}


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, make_node(cpu=2), QUEUE, id="new, with room"),
        pytest.param(None, SMALL, SKIP, id="new and too small"),
        pytest.param(None, make_node(cpu=2, pods=0), SKIP, id="new, but for no pods"),
        pytest.param(SMALL, make_node(cpu=2, memory="1Gi", pods=10), QUEUE, id="now with room"),
        pytest.param(make_node(cpu=2), make_node(cpu=3), QUEUE, id="more of what it wants"),
        pytest.param(make_node(cpu=2), make_node(cpu=2, pods=111), QUEUE, id="more pods"),
        pytest.param(make_node(cpu=2), make_node(cpu=2, memory="20Gi"), SKIP, id="more of something else"),
        pytest.param(
            make_node(cpu=2), make_node(cpu=2, allocatable={GPU: 1}), SKIP, id="more of what it wants none of"
        ),
        pytest.param(make_node(cpu=3), make_node(cpu=2), SKIP, id="less, though still enough"),
        pytest.param(make_node(cpu="500m"), make_node(cpu=1), SKIP, id="more, but not enough"),
    ],
)
def test_node_wakes_the_pod_when_it_could_hold_it_and_has_grown(
    before: Node | None, after: Node, hint: QueueingHint
) -> None:
    pod = pending(make_pod(cpu=2, memory=None, requests={GPU: 0}))
    assert made(NodeResourcesFit).after_node_change(pod, before, after) is hint


@pytest.mark.parametrize(
    ("ignored", "before", "hint"),
    [({}, None, SKIP), (IGNORED, None, QUEUE), (IGNORED, SMALL, QUEUE), (IGNORED, make_node(cpu=2), SKIP)],
)
def test_ignored_resource_does_not_block_the_hint(
    ignored: dict[str, object], before: Node | None, hint: QueueingHint
) -> None:
    """Otherwise than in kube-scheduler, whose hint misses it on every node."""
    args = NodeResourcesFitArgs.model_validate(ignored)
    pod = pending(make_pod(cpu=2, requests={GPU: 1}))
    assert made(NodeResourcesFit, args).after_node_change(pod, before, make_node(cpu=2)) is hint


def with_devices(cluster: ClusterState, *objects: ApiObject) -> ClusterState:
    """Add classes, slices and claims to a cluster."""
    for each in objects:
        cluster.objects(type(each)).put(each.metadata, each)
    return cluster


#: Nodes that have no GPUs, none left of two, and devices only.
OFFERS = [make_node("none"), make_node("two", allocatable={GPU: 2}), make_node("zero", allocatable={GPU: 0})]
TWO_THERE = make_pod("there", node_name="two", requests={GPU: 2})


@pytest.mark.parametrize(
    ("backs", "resource", "insufficient"),
    [
        pytest.param(None, GPU, {"none": UU, "two": U, "zero": UU}, id="no class"),
        pytest.param(GPU, GPU, {"two": U}, id="a class"),
        pytest.param(None, OF_CLASS, {}, id="its own name"),
        pytest.param("example.com/other", GPU, {"none": UU, "two": U, "zero": UU}),
    ],
)
def test_resource_backed_by_devices_is_left_to_dynamic_resources(
    backs: str | None, resource: str, insufficient: Mapping[str, Code]
) -> None:
    cluster = with_devices(cluster_of(OFFERS, [TWO_THERE]), device_class("gpu", backs))
    found = filtered(made(NodeResourcesFit, handle=cluster), cluster, make_pod(requests={resource: 1}))
    assert found == {name: Status(code, (f"Insufficient {resource}",)) for name, code in insufficient.items()}


def test_node_that_offers_too_few_is_too_small_whatever_devices_it_has() -> None:
    cluster = with_devices(cluster_of(OFFERS), device_class("gpu", GPU), resource_slice("p", {"x": ""}, allNodes=True))
    found = filtered(made(NodeResourcesFit, handle=cluster), cluster, make_pod(cpu=99, requests={GPU: 3}))
    assert found == {
        "none": unresolvable("Insufficient cpu"),
        "two": unresolvable("Insufficient cpu", f"Insufficient {GPU}"),
        "zero": unresolvable("Insufficient cpu"),
    }


def test_classes_that_come_and_go_are_seen_at_once() -> None:
    cluster = cluster_of([make_node("n")])
    plugin, pod = made(NodeResourcesFit, handle=cluster), make_pod(requests={GPU: 1})
    for _ in range(2):
        assert filtered(plugin, cluster, pod) == {"n": unresolvable(f"Insufficient {GPU}")}
        with_devices(cluster, device_class("gpu", GPU))
        assert filtered(plugin, cluster, pod) == {}
        cluster.objects(DeviceClass).remove(device_class("gpu").metadata)


def test_pods_share_answers_as_long_as_the_same_may_be_devices() -> None:
    cluster = cluster_of([make_node("n")])
    plugin, other = made(NodeResourcesFit, handle=cluster), pending(make_pod(requests={HUGE: 1}), cluster)
    pods = [pending(make_pod(requests={GPU: 1}), cluster) for _ in range(2)]
    without = plugin.sign(pods[0]), plugin.sign(other)
    with_devices(cluster, device_class("gpu", GPU))
    assert plugin.sign(pods[0]) == plugin.sign(pods[1]) != without[0]
    assert plugin.sign(other) == without[1]
    cluster.objects(DeviceClass).remove(device_class("gpu").metadata)
    assert (plugin.sign(pods[0]), plugin.sign(other)) == without


def test_nothing_is_remembered_of_a_pod_whose_devices_are_scored() -> None:
    cluster = cluster_of([make_node("n")])
    plugin = made(NodeResourcesFit, scoring("MostAllocated", {"cpu": 1, GPU: 1}), handle=cluster)
    pod, plain = (pending(make_pod(requests=requests), cluster) for requests in ({GPU: 1}, {GPU: 0}))
    assert plugin.sign(pod) is not None
    with_devices(cluster, device_class("gpu", GPU))
    assert plugin.sign(pod) is None
    assert plugin.sign(plain) is not None


@pytest.mark.parametrize(
    ("strategy", "wanted", "scores"),
    [
        ("MostAllocated", 1, {"none": 75, "two": 100, "zero": 75}),
        ("LeastAllocated", 1, {"none": 25, "two": 0, "zero": 25}),
        ("MostAllocated", 2, {"none": 100, "two": 100, "zero": 100}),
        ("MostAllocated", 9, {"none": 100, "two": 100, "zero": 100}),
        ("MostAllocated", 0, {"none": 0, "two": 0, "zero": 0}),
    ],
)
def test_devices_in_use_are_scored_like_what_a_device_plugin_gives(
    strategy: str, wanted: int, scores: Mapping[str, int]
) -> None:
    there = make_pod("there", node_name="two", requests={GPU: 1})
    devices = resource_slice("p", dict.fromkeys("wxyz", ""), allNodes=True)
    cluster = with_devices(
        cluster_of(OFFERS, [there]), device_class("gpu", GPU), devices, claim_with_devices("k", "p/w", "p/x", "q/y")
    )
    plugin = made(NodeResourcesFit, scoring(strategy, {GPU: 1}), handle=cluster)
    assert scored(plugin, cluster, make_pod(requests={GPU: wanted})) == scores


def test_node_without_devices_is_scored_by_the_rest() -> None:
    cluster = with_devices(cluster_of([make_node("n", cpu=10)]), device_class("gpu", GPU))
    plugin = made(NodeResourcesFit, scoring("MostAllocated", {"cpu": 1, GPU: 9}), handle=cluster)
    assert scored(plugin, cluster, make_pod(cpu=6, requests={GPU: 1})) == {"n": 60}


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, make_node(cpu=2), QUEUE, id="new, perhaps with devices"),
        pytest.param(None, make_node(cpu=1), SKIP, id="new, and too small for the rest"),
        pytest.param(None, make_node(cpu=2, allocatable={GPU: 1}), SKIP, id="new, with too few that are no devices"),
        pytest.param(make_node(cpu=3), make_node(cpu=2), QUEUE, id="less of the rest, though still enough"),
        pytest.param(make_node(allocatable={GPU: 1}), make_node(), QUEUE, id="no device plugin any more"),
    ],
)
def test_node_that_may_have_devices_always_wakes_the_pod(before: Node | None, after: Node, hint: QueueingHint) -> None:
    cluster = with_devices(ClusterState(), device_class("gpu", GPU))
    pod = pending(make_pod(cpu=2, memory=None, requests={GPU: 2}))
    assert made(NodeResourcesFit, handle=cluster).after_node_change(pod, before, after) is hint


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, device_class("gpu", GPU), QUEUE, id="new"),
        pytest.param(None, device_class("gpu"), QUEUE, id="new, with a name that the pod asks for"),
        pytest.param(None, device_class("other", "example.com/none"), SKIP, id="new, for what it wants none of"),
        pytest.param(None, device_class("other"), SKIP, id="new, for something else"),
        pytest.param(device_class("other"), device_class("other", GPU), QUEUE, id="now for what it wants"),
        pytest.param(device_class("other", GPU), device_class("other", GPU, model="x"), SKIP, id="as before"),
        pytest.param(device_class("other", GPU), device_class("other"), SKIP, id="no longer"),
        pytest.param(device_class("gpu", "a.io/b"), device_class("gpu", "b.io/c"), SKIP, id="now for something else"),
    ],
)
def test_device_class_wakes_the_pod_when_it_backs_the_requested_resource(
    before: DeviceClass | None, after: DeviceClass, hint: QueueingHint
) -> None:
    pod = pending(make_pod(requests={GPU: 1, OF_CLASS: 1, "example.com/none": 0}))
    assert after_class_change(pod, before, after) is hint


@given(st.lists(NODES, max_size=5), PODS, st.booleans(), st.integers(0, 3), ARGS)
def test_with_devices_all_forms_agree_with_the_rules(
    drawn: Drawn, pod: Pod, backed: bool, devices: int, args: NodeResourcesFitArgs
) -> None:
    cluster = build(drawn)
    state = cluster_of((node for node, _ in cluster), (pod for _, others in cluster for pod in others))
    offered = {f"d{number}": "" for number in range(devices)}
    with_devices(state, resource_slice("p", offered, allNodes=True), claim_with_devices("k", "p/d0", "p/d9"))
    with_devices(state, device_class("gpu", GPU if backed else None))
    rejections, grades = {}, {}
    for node, others in cluster:
        by_devices = backed and not offers(node, GPU)
        rejections[node.metadata.name] = rejection(node, others, pod, GPU if by_devices else "")
        shown = _with_devices_as_gpus(node, others, devices) if by_devices and devices else (node, others)
        grades[node.metadata.name] = grade(*shown, pod, args)
    plugin = made(NodeResourcesFit, args, handle=state)
    assert {name: in_any_order(status) for name, status in filtered(plugin, state, pod).items()} == {
        name: in_any_order(status) for name, status in rejections.items() if status
    }
    assert scored(plugin, state, pod) == grades


def _with_devices_as_gpus(node: Node, others: Sequence[Pod], devices: int) -> tuple[Node, Sequence[Pod]]:
    """Let the node offer its devices, with the first one in use, as a device plugin would."""
    status = replace(node.status, allocatable={**node.status.allocatable, GPU: devices})
    plain = [make_pod(containers=[_without_gpu(each) for each in other.spec.containers]) for other in others]
    return replace(node, status=status), [*plain, make_pod("user", cpu=0, memory=0, requests={GPU: 1})]


def _without_gpu(container: Container) -> Container:
    requests = {name: amount for name, amount in container.resources.requests.items() if name != GPU}
    return make_container(requests=requests)
