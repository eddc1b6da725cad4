"""The four scoring strategies, with the numbers of scheduler-plugins."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kframework_numa import NodeResourceTopology, NodeResourceTopologyMatch
from kframework_numa.claims import Amounts, ContainerClaim, ZoneClaim, sum_amounts
from kframework_numa.scoring import ZONE_SCORES, least_numa_nodes, score_zones
from kframework_numa.testing import guaranteed_pod, report
from kframework_numa.topology import NumaTopology, parse_topology

from kframework.objects import Pod, RawQuantity
from kframework.testing import Scenario, make_node, make_pod

#: Two sockets of two zones each.
FAR, NEAR, SELF = 20, 12, 10
SOCKETS = [[SELF, NEAR, FAR, FAR], [NEAR, SELF, FAR, FAR], [FAR, FAR, SELF, NEAR], [FAR, FAR, NEAR, SELF]]


def claim(*containers: Amounts) -> ZoneClaim:
    return ZoneClaim(True, tuple(map(ContainerClaim, containers)), sum_amounts(containers))


def zones(*available: Amounts, scope: str = "container", costs: Sequence[Sequence[int]] = ()) -> NumaTopology:
    # The amounts are the scheduler's: milli-CPU and bytes.
    written: list[dict[str, RawQuantity]] = [
        {name: f"{amount}m" if name == "cpu" else amount for name, amount in each.items()} for each in available
    ]
    return parse_topology(report("node", *written, scope=scope, costs=costs))


@pytest.mark.parametrize(
    ("strategy", "weights", "score"),
    [
        ("LeastAllocated", {}, (75 + 50) // 2),
        ("LeastAllocated", {"cpu": 3}, (3 * 75 + 50) // 4),
        ("MostAllocated", {}, (25 + 50) // 2),
        ("MostAllocated", {"memory": 3}, (25 + 3 * 50) // 4),
        ("BalancedAllocation", {}, 96),  # 100 * (1 - variance of 0.25 and 0.5)
    ],
)
def test_score_of_one_zone(strategy: str, weights: dict[str, int], score: int) -> None:
    asked, zone = {"cpu": 1000, "memory": 500}, {"cpu": 4000, "memory": 1000}
    assert score_zones(claim(asked), zones(zone), ZONE_SCORES[strategy], weights) == score


@pytest.mark.parametrize("strategy", ZONE_SCORES)
def test_worst_zone_that_fits_counts(strategy: str) -> None:
    asked, small, large, full = (
        {"cpu": 1000, "memory": 10},
        {"cpu": 2000, "memory": 30},
        {"cpu": 9000, "memory": 90},
        {"cpu": 0},
    )
    alone = [score_zones(claim(asked), zones(zone), ZONE_SCORES[strategy], {}) for zone in (small, large)]
    assert all(alone)
    assert score_zones(claim(asked), zones(large, full, small), ZONE_SCORES[strategy], {}) == min(alone)


def test_scope_of_containers_takes_their_mean_and_that_of_pods_the_sum() -> None:
    asked = claim({"cpu": 1000}, {"cpu": 3000})
    least = ZONE_SCORES["LeastAllocated"]
    assert score_zones(asked, zones({"cpu": 4000}), least, {}) == (75 + 25) // 2
    assert score_zones(asked, zones({"cpu": 5000}, scope="pod"), least, {}) == 20


def test_devices_that_no_zone_reports_do_not_make_zones_unfit() -> None:
    asked = {"cpu": 1000, "memory": 500, "example.com/nic": 1}
    scored = score_zones(claim(asked), zones({"cpu": 4000, "memory": 1000}), ZONE_SCORES["BalancedAllocation"], {})
    assert scored == 85  # 100 * (1 - variance of 0.25, 0.5 and 1)


def test_one_resource_is_always_balanced() -> None:
    assert score_zones(claim({"cpu": 1}), zones({"cpu": 9}), ZONE_SCORES["BalancedAllocation"], {}) == 100


@pytest.mark.parametrize(
    ("cpu", "free", "score"),
    [
        (1000, (2000, 2000, 2000, 2000), 100 - 12 + 6),
        (3000, (2000, 2000, 2000, 2000), 100 - 24 + 6),
        (3000, (2000, 0, 2000, 0), 100 - 24),  # two zones, and others are nearer to each other
        (8000, (2000, 2000, 2000, 2000), 100 - 48 + 6),
        (9000, (2000, 2000, 2000, 2000), 0),
    ],
)
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_fewer_zones_are_better_and_near_ones(cpu: int, free: tuple[int, ...], score: int, scope: str) -> None:
    topology = zones(*({"cpu": each} for each in free), costs=SOCKETS, scope=scope)
    assert least_numa_nodes(claim({"cpu": cpu}), topology) == score


def test_containers_that_come_first_take_their_zones() -> None:
    topology = zones({"cpu": 2000}, {"cpu": 2000}, costs=[[SELF, NEAR], [NEAR, SELF]])
    assert least_numa_nodes(claim({"cpu": 2000}, {"cpu": 2000}), topology) == 100 - 12 + 6
    assert least_numa_nodes(claim({"cpu": 1000}, {"cpu": 3000}), topology) == 100 - 24 + 6
    assert least_numa_nodes(claim({"cpu": 3000}, {"cpu": 2000}), topology) == 0
    assert least_numa_nodes(claim({"example.com/nic": 1}), topology) == 100


def two_zones(node_name: str, cpus: int, policy: str) -> NodeResourceTopology:
    zone: dict[str, RawQuantity] = {"cpu": cpus, "memory": f"{cpus}Gi"}
    return report(node_name, zone, zone, policy=policy)


@pytest.mark.parametrize(
    ("strategy", "best"), [("LeastAllocated", "large"), ("MostAllocated", "small"), ("LeastNUMANodes", "large")]
)
def test_strategy_of_the_configuration_chooses_the_node(strategy: str, best: str) -> None:
    policy = "restricted" if strategy == "LeastNUMANodes" else "single-numa-node"
    asked = 6 if strategy == "LeastNUMANodes" else 3
    reports = [
        two_zones("small", 4, policy),
        two_zones("large", 8, policy),
    ]
    result = Scenario(
        nodes=[make_node(name, cpu=16, memory="16Gi") for name in ("small", "large")],
        objects=reports,
        pods=[guaranteed_pod("pod", {"cpu": asked})],
        plugins=[NodeResourceTopologyMatch],
        args={"NodeResourceTopologyMatch": {"scoringStrategy": {"type": strategy}}},
        weights={"NodeResourceTopologyMatch": 100},
    ).run(until=10)
    assert result.node_of("pod") == best


def test_zones_of_pods_that_share_cpus_are_alike() -> None:
    gpu = "example.com/gpu"
    reports = [report(name, {"cpu": 4, "memory": "8Gi", gpu: gpus}) for name, gpus in (("small", 1), ("large", 8))]

    def scores(pod: Pod) -> set[int]:
        nodes = [make_node(each.metadata.name, cpu=8, memory="16Gi", allocatable={gpu: 8}) for each in reports]
        result = Scenario(nodes=nodes, objects=reports, pods=[pod], plugins=[NodeResourceTopologyMatch]).run(until=10)
        return {score for _, score in result.decisions[0].best_nodes}

    assert len(scores(make_pod("burstable", cpu=1, requests={gpu: 1}))) == 1
    assert len(scores(guaranteed_pod("guaranteed", {"cpu": 1, gpu: 1}))) == 2
