"""FairQueue: whose turn it is, who gets ahead of whom, and what is remembered of pods that are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from fair_queue import FairQueue

from kframework import ConfigError
from kframework.objects import Pod
from kframework.testing import PluginContract, Scenario, ScenarioResult, create, delete, make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - &profile
    schedulerName: default-scheduler
    plugins: {queueSort: {enabled: [{name: FairQueue}], disabled: [{name: PrioritySort}]}}
    pluginConfig: [{name: FairQueue, args: {weights: WEIGHTS}}]
  - {<<: *profile, schedulerName: other}
"""


def pods(namespace: str, number: int, *, prefix: str = "pod", cpu: str = "1", priority: int = 0) -> list[Pod]:
    names = [f"{prefix}-{i}" for i in range(number)]
    return [make_pod(name, namespace=namespace, cpu=cpu, priority=priority) for name in names]


def scenario(*waiting: Pod, weights: Mapping[str, float] | None = None, cpu: int = 100) -> Scenario:
    config = CONFIG.replace("WEIGHTS", str(dict(weights or {})))
    return Scenario(nodes=[make_node("node", cpu=cpu)], pods=waiting, plugins=[FairQueue], config=config)


def turns(result: ScenarioResult) -> str:
    """Write down whose turn it was, a namespace with one letter."""
    return "".join(decision.pod.partition("/")[0] for decision in result.decisions)


def test_pods_do_not_wait_behind_all_pods_of_another_namespace() -> None:
    assert turns(scenario(*pods("a", 20), *pods("b", 2)).run()) == "abab" + 18 * "a"


def test_pods_of_a_namespace_are_served_in_order_of_arrival() -> None:
    result = scenario(*pods("a", 5)).run()
    assert [decision.pod for decision in result.decisions] == [f"a/pod-{i}" for i in range(5)]


@pytest.mark.parametrize(
    ("cpu", "weights", "of_a", "of_b"),
    [("1", {"a": 3}, 9, 3), ("1", {"b": 0.5}, 8, 4), ("2", {}, 4, 8), ("2", {"a": 2}, 6, 6)],
)
def test_cost_is_cpu_divided_by_namespace_weight(cpu: str, weights: dict[str, float], of_a: int, of_b: int) -> None:
    result = scenario(*pods("a", 12, cpu=cpu), *pods("b", 12), weights=weights).run()
    assert Counter(turns(result)[:12]) == {"a": of_a, "b": of_b}


def test_pods_without_requests_have_a_cost() -> None:
    assert turns(scenario(*pods("a", 4, cpu="0"), *pods("b", 4, cpu="0")).run()) == "abababab"


def test_pods_of_higher_priority_go_first_without_cost_to_others() -> None:
    urgent = pods("a", 3, prefix="urgent", priority=10)
    assert turns(scenario(*pods("a", 2), *pods("b", 2), *urgent).run()) == "aaa" + "abab"


@pytest.mark.parametrize("profile", ["default-scheduler", "other"])
def test_idle_namespace_gains_no_credit(profile: str) -> None:
    early = [make_pod(f"early-{i}", namespace="a", cpu=1, scheduler_name=profile) for i in range(9)]
    world = scenario(*early)
    for i in range(3):
        for namespace in "ab":
            world.at(60, create(make_pod(f"late-{i}", namespace=namespace, cpu=1, scheduler_name=profile)))
    assert turns(world.run())[9:] == "baba" + "ba"


def test_pod_keeps_its_key_while_others_come_and_go() -> None:
    large = make_pod("large", namespace="a", cpu=8)
    world = scenario(large, *pods("b", 4), cpu=4)
    for pod in pods("a", 2, prefix="late"):
        world.at(60, create(pod))
    result = world.at(60, create(make_node("room", cpu=16))).run()
    assert [decision.pod for decision in result.decisions][5:] == ["a/large", "a/late-0", "a/late-1"]


@pytest.mark.parametrize("priorities", [1, 300])
def test_deleted_pods_are_forgotten(priorities: int) -> None:
    world = scenario(cpu=1)
    for i in range(300):  # the first is bound, the others do not fit, and all go
        pod = make_pod(f"pod-{i}", namespace=f"team-{i}", cpu=1, priority=i % priorities)
        world.at(i, create(pod)).at(i + 0.5, delete(pod))
    plugin = world.run().plugins["FairQueue"]
    assert isinstance(plugin, FairQueue)
    assert len(plugin._keys) <= 103
    assert len(plugin._flows) <= 103
    assert sum(len(flows.finish_tags) + len(flows.waiting) for flows in plugin._flows.values()) <= 206


def test_zero_weight_is_rejected() -> None:
    with pytest.raises(ConfigError, match="weights"):
        scenario(weights={"a": 0}).run()


class TestContract(PluginContract):
    plugin = FairQueue
    args = {"weights": {"default": 2}}
    pods = (*pods("a", 3), *pods("b", 3, priority=10))
