from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kframework.state.chosen_pods import ChosenPods
from kframework.state.pods import PodInfo
from kframework.testing.clusters import RandomCluster


def important(pod: PodInfo) -> bool:
    return pod.priority > 0


@given(st.integers(0, 999), st.integers(1, 4))
def test_the_chosen_pods_are_those_of_the_nodes_whatever_happens(seed: int, at_once: int) -> None:
    cluster = RandomCluster(Random(seed))
    nodes, chosen = cluster.state.nodes, ChosenPods(cluster.state.nodes, important)
    found = chosen.by_row

    def compare() -> None:
        chosen.catch_up()
        truth = {node.row: {pod for pod in node.pods if important(pod)} for node in nodes}
        assert {row: pods for row, pods in truth.items() if pods} == {row: set(of) for row, of in found.items()}

    for _ in range(8):
        for _ in range(at_once):
            cluster.change(compare)
        compare()


def test_a_reader_far_behind_the_log_sees_all() -> None:
    cluster = RandomCluster(Random(1))
    nodes, chosen = cluster.state.nodes, ChosenPods(cluster.state.nodes, lambda pod: True)
    for _ in range(3):
        chosen.catch_up()
        assert {row: len(pods) for row, pods in chosen.by_row.items()} == {
            node.row: len(node.pods) for node in nodes if node.pods
        }
        for _ in range(2 * nodes.capacity):
            cluster.state.nodes.touch(0)
        cluster.change(lambda: None)
