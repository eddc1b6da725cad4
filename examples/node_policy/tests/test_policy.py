"""NodePolicies: the pods each node accepts, the events that wake rejected ones, and the status."""

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


def test_pods_of_other_namespaces_are_rejected() -> None:
    message = scenario("web").run().message_of("web")
    assert "1 node(s) are not for namespace default by policy licensed" in message


def test_node_takes_as_many_pods_as_the_policy_allows() -> None:
    result = scenario().run()
    bound = [pod.metadata.name for pod in SOLVERS if result.node_of(f"solvers/{pod.metadata.name}")]
    assert len(bound) == 2
    (waits,) = {pod.metadata.name for pod in SOLVERS} - {*bound}
    assert "1 node(s) have all 2 pods that policy licensed allows" in result.message_of(f"solvers/{waits}")


def test_status_counts_pods_and_requeues_no_pod() -> None:
    result = scenario().run()
    assert result.cluster.read(NodePolicy, "licensed").status.pods == 2
    assert len(result.decisions) == 3


def test_changed_or_deleted_policy_requeues_pending_pods() -> None:
    opened = patch(LICENSED, {"spec": {"namespaces": ["solvers", "default"]}})
    assert scenario("web").at(10, opened).run().node_of("web") == "node"
    assert scenario("web").at(10, delete(LICENSED)).run().node_of("web") == "node"


def test_ended_pod_makes_room() -> None:
    first, *others = SOLVERS
    result = scenario().at(10, delete(first)).run()
    assert [result.node_of(f"solvers/{pod.metadata.name}") for pod in others] == ["node", "node"]


def test_nodes_without_policy_accept_all_pods() -> None:
    result = scenario("web").at(0, create(make_node("free"))).run()
    assert result.node_of("web") == "free"


class TestContract(PluginContract):
    plugin = NodePolicies
    nodes = [NODE]
    pods = SOLVERS
    objects = [LICENSED]
