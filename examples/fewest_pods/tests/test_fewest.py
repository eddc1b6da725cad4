"""FewestPods, asked as the scheduler asks it: a scenario is the real scheduler on a cluster in memory."""

from __future__ import annotations

from collections import Counter

import pytest
from fewest_pods import FewestPods

from kframework import ConfigError
from kframework.testing import PluginContract, Scenario, check_plugin, delete, make_node, make_pod


def test_pods_spread_by_count_regardless_of_requests() -> None:
    nodes = [make_node("small", cpu=4), make_node("large", cpu=64)]
    pods = [make_pod(f"web-{i}") for i in range(8)]
    result = Scenario(nodes=nodes, pods=pods, plugins=[FewestPods], weights={"FewestPods": 10}).run()
    assert Counter(result.node_of(pod.metadata.name) for pod in pods) == {"small": 4, "large": 4}


def test_full_node_is_rejected_with_a_reason() -> None:
    pods = [make_pod(f"web-{i}") for i in range(3)]
    result = Scenario(
        nodes=[make_node("a")], pods=pods, plugins=[FewestPods], args={"FewestPods": {"maxPodsPerNode": 2}}
    ).run()
    assert "1 node(s) ran 2 pods already." in result.message_of("web-2")


def test_deleted_pod_makes_room() -> None:
    first, second = make_pod("first", node_name="a"), make_pod("second")
    scenario = Scenario(
        nodes=[make_node("a")], pods=[first, second], plugins=[FewestPods], args={"FewestPods": {"maxPodsPerNode": 1}}
    )
    result = scenario.at(60, delete(first)).run()
    assert result.node_of("second") == "a"


def test_limit_below_one_is_rejected() -> None:
    scenario = Scenario(plugins=[FewestPods], args={"FewestPods": {"maxPodsPerNode": 0}})
    with pytest.raises(ConfigError, match="maxPodsPerNode"):
        scenario.run()


class TestContract(PluginContract):
    plugin = FewestPods
    args = {"maxPodsPerNode": 3}


def test_contract_is_checked_with_full_and_other_nodes() -> None:
    reached = check_plugin(FewestPods, args={"maxPodsPerNode": 3})
    assert reached.reasons["node(s) ran 3 pods already"]
    assert reached.passes
