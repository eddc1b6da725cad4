from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, unresolvable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.plugins.node_unschedulable import NodeUnschedulable, after_node_change, after_toleration_change
from kframework.testing import make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, pending

CORDONED = unresolvable("node(s) were unschedulable")
KEY = "node.kubernetes.io/unschedulable"

TOLERATIONS = [
    ((), False),
    ((f"{KEY}:NoSchedule",), True),
    ((KEY,), True),
    ((f"{KEY}=:NoSchedule",), True),
    ((f"{KEY}=true:NoSchedule",), False),
    ((f"{KEY}:NoExecute",), False),
    ((":NoSchedule",), True),
    ((":Exists",), True),
    (("other",), False),
    (("other", KEY), True),
]


@given(st.lists(st.booleans()), st.sampled_from(TOLERATIONS))
def test_nodes_are_judged_one_by_one(cordoned: list[bool], case: tuple[tuple[str, ...], bool]) -> None:
    tolerations, tolerated = case
    cluster = cluster_of(make_node(f"n{place}", unschedulable=value) for place, value in enumerate(cordoned))
    expected = {f"n{place}": CORDONED for place, value in enumerate(cordoned) if value and not tolerated}
    assert filtered(made(NodeUnschedulable), cluster, make_pod(tolerations=tolerations)) == expected


def test_answer_does_not_change_with_the_table() -> None:
    cluster = cluster_of([make_node("n", unschedulable=True)])
    plugin, pod = made(NodeUnschedulable), pending(make_pod(), cluster)
    bits = plugin.filter_nodes(None, pod, cluster.nodes, slice(0, 1))  # type: ignore[arg-type]  # reads no state
    cluster.put_node(make_node("n"))
    assert bits.tolist() == [1]


@pytest.mark.parametrize(("tolerations", "tolerated"), TOLERATIONS)
def test_pods_are_alike_when_both_tolerate_or_neither(tolerations: tuple[str, ...], tolerated: bool) -> None:
    assert made(NodeUnschedulable).sign(pending(make_pod(tolerations=tolerations))) == tolerated


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    assert made(NodeUnschedulable).events_to_register() == [
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT, after_node_change),
        ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION, after_toleration_change),
    ]


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (None, False, QueueingHint.QUEUE),
        (None, True, QueueingHint.SKIP),
        (True, False, QueueingHint.QUEUE),
        (True, True, QueueingHint.SKIP),
        (False, False, QueueingHint.SKIP),
        (False, True, QueueingHint.SKIP),
    ],
)
def test_node_wakes_the_pod_when_it_becomes_schedulable(before: bool | None, after: bool, hint: QueueingHint) -> None:
    old = None if before is None else make_node(unschedulable=before)
    assert after_node_change(pending(make_pod()), old, make_node(unschedulable=after)) is hint


@pytest.mark.parametrize(
    ("changed", "tolerations", "hint"),
    [
        ("me", [KEY], QueueingHint.QUEUE),
        ("me", ["other"], QueueingHint.SKIP),
        ("another", [KEY], QueueingHint.SKIP),
    ],
)
def test_only_its_own_toleration_wakes_the_pod(changed: str, tolerations: list[str], hint: QueueingHint) -> None:
    old, new = pending(make_pod(changed)), pending(make_pod(changed, tolerations=tolerations))
    assert after_toleration_change(pending(make_pod("me")), old, new) is hint
