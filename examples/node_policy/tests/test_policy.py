"""NodePolicies: who may go where, what wakes those who may not, and what stands in the status."""

from __future__ import annotations

from node_policy import NodePolicies, NodePolicy, NodePolicySpec

from kframework import ObjectMeta
from kframework.testing import PluginContract, Scenario, create, delete, make_node, make_pod, patch

SPEC = NodePolicySpec(node_selector={"licence": "yes"}, namespaces=("solvers",), max_pods=2)
LICENSED = NodePolicy(metadata=ObjectMeta(name="licensed"), spec=SPEC)
NODE = make_node("node", labels={"licence": "yes"})
SOLVERS = [make_pod(f"solve-{i}", namespace="solvers") for i in range(3)]


def scenario(*pods: str) -> Scenario:
    made = [make_pod(name) for name in pods] or SOLVERS
    return Scenario(nodes=[NODE], pods=made, objects=[LICENSED], plugins=[NodePolicies])


def test_pods_of_other_namespaces_stay_away() -> None:
    message = scenario("web").run().message_of("web")
    assert "1 node(s) are not for namespace default by policy licensed" in message


def test_a_node_takes_as_many_as_the_policy_allows() -> None:
    result = scenario().run()
    bound = [pod.metadata.name for pod in SOLVERS if result.node_of(f"solvers/{pod.metadata.name}")]
    assert len(bound) == 2
    (waits,) = {pod.metadata.name for pod in SOLVERS} - {*bound}
    assert "1 node(s) have all 2 pods that policy licensed allows" in result.message_of(f"solvers/{waits}")


def test_the_status_says_how_many_there_are_and_wakes_nobody() -> None:
    result = scenario().run()
    assert result.cluster.read(NodePolicy, "licensed").status.pods == 2
    assert len(result.decisions) == 3


def test_a_change_of_the_policy_or_its_end_wakes_those_who_wait() -> None:
    opened = patch(LICENSED, {"spec": {"namespaces": ["solvers", "default"]}})
    assert scenario("web").at(10, opened).run().node_of("web") == "node"
    assert scenario("web").at(10, delete(LICENSED)).run().node_of("web") == "node"


def test_a_pod_that_ends_makes_room() -> None:
    first, *others = SOLVERS
    result = scenario().at(10, delete(first)).run()
    assert [result.node_of(f"solvers/{pod.metadata.name}") for pod in others] == ["node", "node"]


def test_nodes_without_a_policy_are_for_everybody() -> None:
    result = scenario("web").at(0, create(make_node("free"))).run()
    assert result.node_of("web") == "free"


class TestContract(PluginContract):
    plugin = NodePolicies
    nodes = [NODE]
    pods = SOLVERS
    objects = [LICENSED]
