from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, unresolvable
from kframework.framework.events import ClusterEvent
from kframework.plugins.node_name import NodeName
from kframework.testing import make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, pending

ELSEWHERE = unresolvable("node(s) didn't match the requested node name")


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.sampled_from(["", "a", "b", "nowhere"]))
def test_only_the_named_node_will_do(names: list[str], wanted: str) -> None:
    cluster = cluster_of(make_node(name) for name in names)
    expected = {name: ELSEWHERE for name in names if wanted and name != wanted}
    assert filtered(made(NodeName), cluster, make_pod(node_name=wanted)) == expected


@pytest.mark.parametrize("wanted", ["", "a"])
def test_pods_that_name_the_same_node_share_their_answers(wanted: str) -> None:
    assert made(NodeName).sign(pending(make_pod(node_name=wanted))) == wanted


def test_node_that_is_assumed_for_a_pod_is_not_one_it_names() -> None:
    cluster = cluster_of([make_node("a")])
    pod = pending(make_pod(), cluster)
    cluster.assume(pod, "a")
    assert made(NodeName).sign(pod) == ""


def test_new_node_wakes_the_pod() -> None:
    assert made(NodeName).events_to_register() == [ClusterEvent("Node", ActionType.ADD)]
