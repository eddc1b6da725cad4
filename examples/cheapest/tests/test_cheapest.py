"""Cheapest: where pods cost least, what they refuse to pay, and what wakes them."""

from __future__ import annotations

import pytest
from cheapest import MAX_PER_HOUR, Cheapest

from kframework import ConfigError, Simulation
from kframework.testing import PluginContract, Scenario, check_plugin, create, make_node, make_pod, patch

TYPE, CAPACITY = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"
ARGS = {"prices": {"small": 0.1, "large": 0.4}, "defaultPrice": 1, "spotFactor": 0.5}

#: A cpu costs 0.05 an hour on the small node, and half of that as spot and on the large one.
SMALL = make_node("small", cpu=2, memory="8Gi", labels={TYPE: "small"})
SPOT = make_node("spot", cpu=2, memory="8Gi", labels={TYPE: "small", CAPACITY: "spot"})
LARGE = make_node("large", cpu=16, memory="64Gi", labels={TYPE: "large"})
LEAN = make_node("lean", cpu=16, memory="8Gi", labels={TYPE: "large"})
UNKNOWN = make_node("unknown", cpu=16, memory="64Gi", labels={TYPE: "new"})
NODES = {node.metadata.name: node for node in (SMALL, SPOT, LARGE, LEAN, UNKNOWN)}


def scenario(*nodes: str, limit: str | None = None, cpu: str = "1", memory: str = "1Gi") -> Scenario:
    labels = {} if limit is None else {MAX_PER_HOUR: limit}
    return Scenario(
        nodes=[NODES[name] for name in nodes],
        pods=[make_pod("web", cpu=cpu, memory=memory, labels=labels)],
        plugins=[Cheapest],
        args={"Cheapest": ARGS},
        weights={"Cheapest": 50},
    )


@pytest.mark.parametrize(
    ("nodes", "memory", "cheapest"),
    [
        (("small", "large"), "1Gi", "large"),  # four times the price, eight times the cpu
        (("small", "spot"), "1Gi", "spot"),
        (("small", "lean"), "6Gi", "small"),  # here memory is what the pod takes most of
        (("small", "unknown"), "1Gi", "small"),
    ],
)
def test_cheapest_node_is_preferred(nodes: tuple[str, ...], memory: str, cheapest: str) -> None:
    assert scenario(*nodes, memory=memory).run().node_of("web") == cheapest


@pytest.mark.parametrize(("limit", "node"), [("0.05", "small"), ("0.0499", None), ("1e9", "small"), ("0", None)])
def test_pod_is_not_bound_above_its_price_limit(limit: str, node: str | None) -> None:
    result = scenario("small", limit=limit).run()
    assert result.node_of("web") == node
    assert (f"1 node(s) cost the pod more than {limit} an hour" in result.message_of("web")) == (node is None)


@pytest.mark.parametrize("limit", ["", "cheap", "nan", "-1"])
def test_pod_with_invalid_limit_is_unschedulable_until_corrected(limit: str) -> None:
    assert f"label {MAX_PER_HOUR} must be a number" in scenario("small", limit=limit).run().message_of("web")
    mended = patch(make_pod("web"), {"metadata": {"labels": {MAX_PER_HOUR: "1"}}})
    assert scenario("small", limit=limit).at(60, mended).run().node_of("web") == "small"


def test_cheaper_node_requeues_pending_pods() -> None:
    assert scenario("small", limit="0.03").at(60, create(LARGE)).run().node_of("web") == "large"
    cheaper = patch(SMALL, {"metadata": {"labels": {CAPACITY: "spot"}}})
    assert scenario("small", limit="0.03").at(60, cheaper).run().node_of("web") == "small"


def test_affordable_requests_are_suggested() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "Cheapest"}]}},
                "pluginConfig": [{"name": "Cheapest", "args": ARGS}],
            }
        ],
    }
    pod = make_pod("web", cpu=1, memory="1Gi", labels={MAX_PER_HOUR: "0.03"})
    with Simulation([SMALL, pod], config, plugins=[Cheapest]) as simulation:
        assert "lower the pod's cpu request from 1 to 600m" in str(simulation.run().explain("web"))


@pytest.mark.parametrize("args", [{}, {"prices": {}}, {"prices": {"small": -1}, "defaultPrice": 1}])
def test_invalid_prices_are_rejected(args: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="rice"):
        Scenario(plugins=[Cheapest], args={"Cheapest": args}).run()


class TestContract(PluginContract):
    plugin = Cheapest
    args = ARGS
    examples = 6
    nodes = tuple(NODES.values())
    pods = tuple(make_pod(f"pays-{limit}", labels={MAX_PER_HOUR: limit}) for limit in ("0.01", "0.1", "much"))


def test_contract_is_checked_with_expensive_and_cheap_nodes() -> None:
    reached = check_plugin(Cheapest, args=ARGS, nodes=TestContract.nodes, pods=TestContract.pods, examples=2)
    assert reached.passes and reached.reasons["node(s) cost the pod more than 0.01 an hour"]
