"""What hypothesis draws is a cluster that a scheduler can live with."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings

from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Node, Pod
from kframework.testing import Scenario, StubClock, make_node, make_pod
from kframework.testing.strategies import (
    ClusterObjects,
    History,
    ObjectChange,
    clusters,
    histories,
    nodes,
    pods,
    schedule_history,
)


@given(pods("web"), nodes("there"))
def test_pods_and_nodes_have_the_names_they_are_given(pod: Pod, node: Node) -> None:
    assert (pod.metadata.name, pod.spec.node_name, node.metadata.name) == ("web", "", "there")


@pytest.mark.slow
@settings(max_examples=15)
@given(clusters(), histories())
def test_same_history_has_the_same_result(cluster: ClusterObjects, history: History) -> None:
    def decided() -> list[tuple[str, str, str]]:
        scenario = schedule_history(Scenario(nodes=cluster.nodes, pods=cluster.pods), history)
        return [(each.pod, each.node, each.message) for each in scenario.run(until=900.0).decisions]

    assert decided() == decided()


def test_object_changes_apply_to_any_cluster() -> None:
    cluster = MemoryCluster(StubClock())
    pod, node = make_pod("web"), make_node("a")
    for change in (
        ObjectChange(pod, is_deletion=True),
        ObjectChange(pod),
        ObjectChange(pod),
        ObjectChange(node),
        ObjectChange(node),
    ):
        change(cluster)
    assert [each.metadata.name for each in (*cluster.objects(Pod), *cluster.objects(Node))] == ["web", "a"]
    ObjectChange(pod, is_deletion=True)(cluster)
    assert not cluster.objects(Pod)
    assert repr(ObjectChange(pod, is_deletion=True)) == "<Pod default/web is deleted>"


def test_missing_hypothesis_is_reported_in_one_line() -> None:
    program = "import sys; sys.modules['hypothesis'] = None; import kframework.testing.strategies"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    line = "ImportError: kframework.testing.strategies needs hypothesis: pip install hypothesis"
    assert run.stderr.splitlines()[-1] == line
