"""Which pods a node with NUMA zones gets, by the policy and the scope of its topology manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from kframework_numa import NodeResourceTopology, NodeResourceTopologyMatch
from kframework_numa.testing import PUBLISHED, Amounts, guaranteed_pod, publish, report
from msgspec.structs import replace

from kframework import ConfigError
from kframework.objects import Node, Pod, RawQuantity
from kframework.testing import Scenario, make_container, make_node, make_pod

GPU = "example.com/gpu"
MEMORY: dict[str, RawQuantity] = {"memory": "8Gi"}
OF_NODE: dict[str, RawQuantity] = {"example.com/nic": 8, "ephemeral-storage": "9Gi", "hugepages-2Mi": "9Gi"}


def node() -> Node:
    return make_node("node", cpu=64, memory="64Gi", allocatable={GPU: 8, **OF_NODE})


def decide(pod: Pod, *objects: NodeResourceTopology) -> str:
    """Return "" if the pod gets the node, else why not."""
    result = Scenario(
        nodes=[node()], objects=objects, pods=[pod], plugins=[NodeResourceTopologyMatch], config=PUBLISHED
    ).run(until=10)
    return "" if result.node_of(pod.metadata.name) else result.message_of(pod.metadata.name)


def check(decided: str, message: str) -> None:
    assert message in decided if message else decided == ""


def zones(*cpus: RawQuantity, **more: str) -> NodeResourceTopology:
    return report("node", *({"cpu": cpu, **MEMORY} for cpu in cpus), **more)  # type: ignore[arg-type]  # texts, as all that is given here


@pytest.mark.parametrize(
    ("containers", "scope", "message"),
    [
        ([{"cpu": 4}], "container", ""),
        ([{"cpu": 5}], "container", "cannot align container"),
        ([{"cpu": 3}, {"cpu": 3}], "container", ""),
        ([{"cpu": 3}, {"cpu": 3}], "pod", "cannot align pod"),
        ([{"cpu": 2}, {"cpu": 2}], "pod", ""),
        ([{"cpu": 3}, {"cpu": 3}, {"cpu": 2}], "container", "cannot align container"),
        ([{"cpu": "500m"}], "pod", ""),
        ([{"cpu": 1, "memory": "9Gi"}], "pod", "cannot align pod"),
    ],
)
def test_single_numa_node_needs_one_zone_for_each_container_or_for_the_pod(
    containers: Sequence[Amounts], scope: str, message: str
) -> None:
    check(decide(guaranteed_pod("pod", *containers), zones(4, 4, scope=scope)), message)


def test_all_resources_of_a_container_come_from_the_same_zone() -> None:
    apart = report("node", {"cpu": 8, **MEMORY, GPU: 0}, {"cpu": 1, **MEMORY, GPU: 2})
    assert "cannot align container" in decide(guaranteed_pod("pod", {"cpu": 2, GPU: 1}), apart)
    assert decide(guaranteed_pod("pod", {"cpu": 1, GPU: 1}), apart) == ""


def test_init_containers_run_one_after_the_other_and_sidecars_stay() -> None:
    serial = guaranteed_pod("pod", {"cpu": 4}, init=[{"cpu": 4}, {"cpu": 4}])
    assert decide(serial, zones(4)) == ""
    assert "cannot align init container" in decide(guaranteed_pod("pod", {"cpu": 1}, init=[{"cpu": 5}]), zones(4))
    asked: dict[str, RawQuantity] = {"cpu": 3, "memory": "1Gi"}
    sidecar = make_container("side", requests=asked, limits=asked, sidecar=True)
    main = make_container("main", requests=asked, limits=asked)
    pod = make_pod("pod", containers=[main], init_containers=[sidecar])
    assert "cannot align container" in decide(pod, zones(4))
    assert decide(pod, zones(4, 4)) == ""
    assert "cannot align sidecar container" in decide(pod, zones(2))


@pytest.mark.parametrize(
    ("policy", "asked", "fits"),
    [
        ("restricted", 6, True),  # two zones, as few as it needs on the empty node
        ("restricted", 3, False),  # one zone would do on the empty node, and no zone has it any more
        ("restricted", 9, False),
        ("single-numa-node", 6, False),
        ("best-effort", 9, True),
        ("none", 9, True),
    ],
)
def test_policies(policy: str, asked: int, fits: bool) -> None:
    half: dict[str, RawQuantity] = {"cpu": 2, **MEMORY}
    partly_used = report("node", half, half, half, half, allocatable=[{"cpu": 4, **MEMORY}] * 4, policy=policy)
    free = zones(4, 4, policy=policy)
    assert (decide(guaranteed_pod("pod", {"cpu": asked}), partly_used if asked == 3 else free) == "") is fits


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("SingleNUMANodePodLevel", "cannot align pod"),
        ("SingleNUMANodeContainerLevel", "cannot align container"),
        ("RestrictedPodLevel", ""),
        ("BestEffortContainerLevel", ""),
    ],
)
def test_deprecated_policies_are_understood_and_attributes_go_first(old: str, message: str) -> None:
    new = zones(4, 4)
    deprecated = NodeResourceTopology(metadata=new.metadata, zones=new.zones, topology_policies=(old,))
    both = NodeResourceTopology(
        metadata=new.metadata, zones=new.zones, attributes=new.attributes, topology_policies=("BestEffortPodLevel",)
    )
    pod = guaranteed_pod("pod", {"cpu": 5})
    check(decide(pod, deprecated), message)
    assert "cannot align container" in decide(pod, both)


def test_pods_that_share_cpus_need_a_zone_for_devices_only() -> None:
    full = report("node", {"cpu": 0, **MEMORY, GPU: 2}, {"cpu": 0, **MEMORY, GPU: 2})
    assert decide(make_pod("burstable", cpu=4), full) == ""
    assert decide(make_pod("besteffort", cpu=None, memory=None), full) == ""
    assert decide(make_pod("burstable", cpu=4, requests={GPU: 2}), full) == ""
    assert "cannot align container" in decide(make_pod("burstable", cpu=4, requests={GPU: 3}), full)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cpu": 1, "example.com/nic": 2}, ""),
        ({"cpu": 1, "ephemeral-storage": "1Gi"}, ""),
        ({"cpu": 1, "hugepages-2Mi": "4Mi"}, "cannot align container"),
    ],
)
def test_resources_without_zones_are_of_the_node_except_memory(asked: Mapping[str, RawQuantity], message: str) -> None:
    check(decide(guaranteed_pod("pod", asked), zones(4)), message)


def test_node_without_a_report_and_other_zones_are_as_without_the_plugin() -> None:
    pod = guaranteed_pod("pod", {"cpu": 9})
    assert decide(pod) == ""
    assert decide(pod, report("other", {"cpu": 1})) == ""


def test_report_with_nonsense_is_ignored_and_named(caplog: pytest.LogCaptureFixture) -> None:
    assert decide(guaranteed_pod("pod", {"cpu": 9}), zones("four")) == ""
    assert "NodeResourceTopology node is ignored" in caplog.text


def test_waiting_pod_is_tried_when_the_report_shows_room() -> None:
    pod = guaranteed_pod("pod", {"cpu": 3})
    scenario = Scenario(
        nodes=[node()], objects=[zones(2)], pods=[pod], plugins=[NodeResourceTopologyMatch], config=PUBLISHED
    )
    result = scenario.at(60, publish(zones(1))).at(90, publish(zones(4))).run(until=120)
    assert result.node_of("pod") == "node"
    assert len(result.decisions) == 2, "a report of too little wakes nothing"


@pytest.mark.parametrize(("left", "evicted"), [(1, ()), (4, ("default/weak",))])
def test_no_pod_is_evicted_where_the_zones_would_still_be_too_small(left: int, evicted: tuple[str, ...]) -> None:
    """A victim's zone is not free before the node reports it: only room that a report shows makes eviction help."""
    weak = make_pod("weak", cpu=62, node_name="node")
    strong = guaranteed_pod("strong", {"cpu": 3})
    strong = replace(strong, spec=replace(strong.spec, priority=9))
    result = Scenario(
        nodes=[node()],
        objects=[zones(left)],
        pods=[weak, strong],
        plugins=[NodeResourceTopologyMatch],
        config=PUBLISHED,
    ).run(until=10)
    assert result.decisions_on("strong")[0].victims == evicted


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"preemptionMode": "Enabled"}, "preemptionMode"),
        ({"cacheResyncPeriodSeconds": -1}, "cacheResyncPeriodSeconds"),
        ({"scoringStrategy": {"type": "Best"}}, "scoringStrategy"),
        ({"cache": {"resyncMethod": "Never"}}, "resyncMethod"),
    ],
)
def test_invalid_args_are_named(args: Mapping[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Scenario(plugins=[NodeResourceTopologyMatch], args={"NodeResourceTopologyMatch": args}).run()
