"""What would make room for a pod."""

from __future__ import annotations

from kframework import CycleState
from kframework.explain.remedies.suggestions import changes_pod
from kframework.framework.suggestions import UNFIXABLE, Proposal, free_resource, lower_request
from kframework.objects import ApiObject, DeviceClass, Pod
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.node_resources_fit.suggestions import Shortage, shortages
from kframework.testing import make_node, make_pod, pending_pod
from tests.plugins.asking import cluster_of, made
from tests.plugins.asking import pending as of_cluster
from tests.support.device_objects import device_class
from tests.support.remedies import make_engine, pending, suggest, suggest_deletion


def proposed(pod: Pod, *objects: ApiObject) -> list[Proposal]:
    return [each for each in suggest("NodeResourcesFit", pod, *objects) if not changes_pod(each)]


def lowered(pod: Pod, *objects: ApiObject) -> list[Proposal]:
    return [each for each in suggest("NodeResourcesFit", pod, *objects) if changes_pod(each)]


def test_shortages_reckon_with_pods_that_are_nominated() -> None:
    engine = make_engine([make_node("a", cpu=4, memory="1Gi", pods=2), make_pod("x", node_name="a", cpu=1)])
    asked = [("cpu", 2000), ("memory", 2 << 30), ("pods", 1)]
    nominated = pending(engine, make_pod("nominated", cpu=2, memory=None))
    small = Shortage("memory", (1 << 30) + (128 << 20), 2 << 30, possible=False)
    node = engine.cluster.nodes.find("a")
    assert node is not None
    assert shortages(node, asked, []) == [small]
    assert shortages(node, asked, [nominated]) == [
        Shortage("cpu", 1000, 2000, possible=True),
        small,
        Shortage("pods", 1, 1, possible=True),
    ]


def holder(name: str, cpu: str, memory: str, **fields: object) -> Pod:
    return make_pod(name, node_name="a", cpu=cpu, memory=memory, **fields)  # type: ignore[arg-type]  # fields of a pod


def examples(*pods: Pod, cpu: int = 2) -> tuple[str, ...]:
    ((freed,),) = proposed(make_pod(cpu=cpu, memory=None), make_node("a", memory="99Gi"), *pods)
    return tuple(each.target.pod for each in freed.examples)


def test_examples_are_the_least_important_then_the_smallest_that_suffice() -> None:
    small, large = holder("small", "1", "1Mi"), holder("large", "3", "1Mi")
    important = holder("important", "1", "1Mi", priority=9)
    assert examples(small, large) == ("default/large",)
    assert examples(important, large) == ("default/large",)
    assert examples(holder("one", "2", "1Mi"), holder("other", "1500m", "1Mi")) == ("default/other",)
    assert examples(holder("one", "1500m", "1Mi"), holder("other", "2500m", "1Mi"), cpu=3) == (
        "default/other",
        "default/one",
    )


def test_pods_that_are_leaving_already_are_no_examples() -> None:
    leaving = holder("leaving", "4", "1Mi", deletion_timestamp="2026-01-01T00:00:00Z")
    assert examples(leaving) == ()


def test_pod_is_deleted_where_it_serves_for_several_resources() -> None:
    big, small = holder("big", "3", "12Gi"), holder("small", "100m", "1Gi")
    whole, freed = proposed(make_pod(cpu=2, memory="8Gi"), make_node("a"), big, small)
    assert whole == (suggest_deletion(big),)
    assert [change.text.split(" on ")[0] for change in freed] == ["free 1100m cpu", "free 5Gi memory"]


def test_resource_beyond_the_allocatable_cannot_be_freed() -> None:
    pod, full = make_pod(cpu=2, memory="32Gi"), holder("full", "4", "1Gi")
    assert proposed(pod, make_node("a"), full) == []
    everything, only_memory = lowered(pod, make_node("a"), full)
    memory = lower_request("memory", 17 << 30, 15 << 30)
    assert everything == (lower_request("cpu", 2000, 0), memory)
    assert only_memory == (memory, free_resource("a", "cpu", 2000, [pending_pod(full)]))


def test_no_request_makes_room_for_one_more_pod() -> None:
    full = (make_node("a", pods=1), holder("only", "1", "1Mi"))
    assert proposed(make_pod(), *full) == [(free_resource("a", "pods", 1, [pending_pod(full[1])]),)]
    assert lowered(make_pod(), *full) == []
    assert proposed(make_pod(), make_node("a", pods=0)) == []


def test_resource_backed_by_devices_is_missing_nowhere() -> None:
    pod = make_pod(cpu=2, memory=None, requests={"example.com/gpu": 1})
    node, holding = make_node("a", cpu=2), holder("x", "1", "1Mi")
    assert proposed(pod, node, holding, device_class("gpu", "example.com/gpu")) == [
        (free_resource("a", "cpu", 1000, [pending_pod(holding)]),)
    ]
    assert proposed(pod, node, holding) == []


def test_nodes_that_lack_what_may_be_devices_are_as_near_as_others() -> None:
    nodes = [make_node("none", cpu=2), make_node("some", cpu=2, allocatable={"example.com/gpu": 1})]
    cluster = cluster_of(nodes, [make_pod(f"on-{name}", node_name=name, cpu=1) for name in ("none", "some")])
    plugin, state = made(NodeResourcesFit, handle=cluster), CycleState()
    pod = of_cluster(make_pod(cpu=2, memory=None, requests={"example.com/gpu": 1}), cluster)

    def efforts() -> list[float]:
        plugin.pre_filter(state, pod, cluster.nodes)
        return [float(each) for each in plugin.suggest_nodes(state, pod, cluster.nodes, cluster.nodes.order)]

    none, some = efforts()
    assert none > UNFIXABLE > some
    backing = device_class("gpu", "example.com/gpu")
    cluster.objects(DeviceClass).put(backing.metadata, backing)
    assert efforts() == [some, some]
