"""The plugins of contrib_plugins schedule a mixed cluster together, with the configuration that their README shows."""

from __future__ import annotations

from collections import Counter

import pytest
from kframework_capacity_scheduling.testing import quota
from kframework_coscheduling.pod_groups import LABEL
from kframework_numa.testing import guaranteed_pod, report

from kframework import Plugin
from kframework.objects import ApiObject, Node, ObjectMeta, Pod
from kframework.testing import Scenario, ScenarioResult, make_node, make_pod
from tests.contract.plugins import placing
from tests.docs.blocks import blocks
from tests.examples.clean_environment import ROOT
from tests.support.gangs import group
from tests.support.selectors import service

pytestmark = pytest.mark.slow

README = (ROOT / "contrib_plugins/README.md").read_text()
CONFIG = next(block.text for block in blocks(README) if block.file == "together.yaml")
GPU = "nvidia.com/gpu"
#: How large the gangs are; those of `lab` fit into its quota of 64 CPUs, those of `shop` do not all fit into its 40.
GANGS = {"lab": [8, 8, 16, 32], "shop": [16, 16, 16]}


def nodes() -> list[Node]:
    """Make 1,000 nodes in three zones, every tenth with GPUs."""
    return [
        make_node(f"n{number}", cpu=16, zone="xyz"[number % 3], allocatable={GPU: 8} if number % 10 == 0 else {})
        for number in range(1000)
    ]


def gang_pods() -> list[Pod]:
    return [
        make_pod(f"gang-{number}-{member}", namespace=team, cpu=1, labels={LABEL: f"gang-{number}"})
        for team, sizes in GANGS.items()
        for number, size in enumerate(sizes)
        for member in range(size)
    ]


def objects() -> list[ApiObject]:
    groups = [
        group(f"gang-{number}", size, namespace=team)
        for team, sizes in GANGS.items()
        for number, size in enumerate(sizes)
    ]
    services = [
        service({"app": f"web-{number}"}, ObjectMeta(name=f"web-{number}", namespace="default")) for number in range(10)
    ]
    halves = [report(f"n{number}", {"cpu": 8}, {"cpu": 8}, policy="single-numa-node") for number in range(1, 1000, 2)]
    return [*groups, *services, *halves, quota("lab", min=64, max=64), quota("shop", min=40, max=40)]


@pytest.fixture(scope="module")
def result() -> ScenarioResult:
    web = [make_pod(f"web-{n}", cpu="500m", labels={"app": f"web-{n % 10}"}) for n in range(300)]
    training = [make_pod(f"train-{n}", cpu=1, requests={GPU: 2 ** (n % 4)}) for n in range(120)]
    aligned = [guaranteed_pod(f"aligned-{n}", {"cpu": 6 if n % 2 else 12}) for n in range(100)]
    plugins: list[type[Plugin]] = [plugin for name, plugin in placing().items() if f"name: {name}" in CONFIG]
    world = Scenario(
        nodes=nodes(), pods=[*web, *training, *aligned, *gang_pods()], objects=objects(), plugins=plugins, config=CONFIG
    )
    return world.run(until=120)


def bound(result: ScenarioResult) -> list[Pod]:
    return [pod for pod in result.cluster.objects(Pod) if pod.spec.node_name]


def test_every_pod_without_a_quota_has_a_node(result: ScenarioResult) -> None:
    counts = Counter(pod.metadata.name.partition("-")[0] for pod in bound(result))
    assert (counts["web"], counts["train"], counts["aligned"]) == (300, 120, 100)


def test_pods_are_where_a_zone_holds_them(result: ScenarioResult) -> None:
    wide = {f"aligned-{number}" for number in range(0, 100, 2)}
    nodes = [int(pod.spec.node_name[1:]) for pod in bound(result) if pod.metadata.name in wide]
    assert len(nodes) == 50
    assert not any(number % 2 for number in nodes)  # the odd ones have zones of 8 CPUs


def test_gangs_are_whole_within_their_quotas(result: ScenarioResult) -> None:
    members = Counter(
        (pod.metadata.namespace, pod.metadata.labels[LABEL]) for pod in bound(result) if LABEL in pod.metadata.labels
    )
    assert [members["lab", f"gang-{number}"] for number in range(4)] == GANGS["lab"]
    assert sorted(members["shop", f"gang-{number}"] for number in range(3)) == [0, 16, 16]


def test_gpu_nodes_are_left_to_pods_with_gpus_and_filled_up(result: ScenarioResult) -> None:
    with_gpus = {pod.spec.node_name for pod in bound(result) if pod.metadata.name.startswith("train")}
    others = {pod.spec.node_name for pod in bound(result) if not pod.metadata.name.startswith("train")}
    assert not any(int(name[1:]) % 10 == 0 for name in others)
    # 120 pods ask for 450 GPUs, which 57 full nodes would have.
    assert len(with_gpus) <= 65


def test_pods_of_a_service_are_in_all_zones_alike(result: ScenarioResult) -> None:
    for number in range(10):
        zones = Counter(
            int(pod.spec.node_name[1:]) % 3
            for pod in bound(result)
            if pod.metadata.labels.get("app") == f"web-{number}"
        )
        assert max(zones.values()) - min(zones.values()) <= 2
