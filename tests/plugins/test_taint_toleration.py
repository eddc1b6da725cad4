from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, unresolvable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import Node, Pod, Taint, Toleration
from kframework.plugins.taint_toleration import TaintToleration, after_node_change, after_toleration_change
from kframework.testing import make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, pending, scored

UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")
HARD, SOFT = ("NoSchedule", "NoExecute"), "PreferNoSchedule"

KEYS, VALUES = st.sampled_from("ab"), st.sampled_from(["", "x", "y"])
TAINTS = st.builds(Taint, key=KEYS, value=VALUES, effect=st.sampled_from([*HARD, SOFT]))
TOLERATIONS = st.builds(
    Toleration,
    key=KEYS | st.just(""),
    operator=st.sampled_from(["", "Equal", "Exists", "Lt", "Nonsense"]),
    value=VALUES,
    effect=st.sampled_from(["", *HARD, SOFT]),
)
NODES = st.lists(st.lists(TAINTS, max_size=3).map(tuple), max_size=6).map(
    lambda sets: [make_node(f"n{place}", taints=taints) for place, taints in enumerate(sets)]
)
PODS = st.lists(TOLERATIONS, max_size=3).map(lambda tolerations: make_pod(tolerations=tolerations))


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Say it as the documentation of Kubernetes does."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(node: Node, pod: Pod) -> list[Taint]:
    return [t for t in node.spec.taints if not any(covers(toleration, t) for toleration in pod.spec.tolerations)]


@given(NODES, PODS)
def test_hard_taints_reject_and_soft_ones_count(nodes: list[Node], pod: Pod) -> None:
    cluster, plugin = cluster_of(nodes), made(TaintToleration)
    against = {node.metadata.name: untolerated(node, pod) for node in nodes}
    rejected = {name: UNTOLERATED for name, taints in against.items() if any(t.effect in HARD for t in taints)}
    assert filtered(plugin, cluster, pod) == rejected
    soft = {name: sum(taint.effect == SOFT for taint in taints) for name, taints in against.items()}
    assert scored(plugin, cluster, pod) == soft


def test_taint_that_came_later_is_seen() -> None:
    cluster, plugin = cluster_of([make_node("n")]), made(TaintToleration)
    assert filtered(plugin, cluster, make_pod()) == {}
    cluster.put_node(make_node("n", taints=["new:NoSchedule"]))
    assert filtered(plugin, cluster, make_pod()) == {"n": UNTOLERATED}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ([], [], True),
        (["a", "b=x:NoSchedule"], ["b=x:NoSchedule", "a"], True),
        ([Toleration(key="a", value="x")], ["a=x"], True),
        ([Toleration(key="a", operator="Exists", toleration_seconds=5)], ["a"], True),
        (["a"], ["a:NoSchedule"], False),
        (["a=x"], ["a=y"], False),
        (["a="], ["a"], False),
    ],
)
def test_pods_with_the_same_tolerations_share_their_answers(
    one: list[str | Toleration], other: list[str | Toleration], alike: bool
) -> None:
    signatures = [made(TaintToleration).sign(pending(make_pod(tolerations=given))) for given in (one, other)]
    assert None not in signatures
    assert (signatures[0] == signatures[1]) is alike


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    assert made(TaintToleration).events_to_register() == [
        ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT, after_node_change),
        ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION, after_toleration_change),
    ]


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (None, [], QueueingHint.QUEUE),
        (None, ["a:NoSchedule"], QueueingHint.QUEUE),
        (None, ["b:NoSchedule"], QueueingHint.SKIP),
        (["b:NoSchedule"], [], QueueingHint.QUEUE),
        (["b:NoExecute"], ["b:PreferNoSchedule"], QueueingHint.QUEUE),
        (["b:NoExecute"], ["b:NoSchedule"], QueueingHint.SKIP),
        ([], ["a:NoSchedule"], QueueingHint.SKIP),
        (["b:PreferNoSchedule"], [], QueueingHint.SKIP),
        ([], ["b:NoSchedule"], QueueingHint.SKIP),
    ],
)
def test_node_wakes_the_pod_when_it_stops_keeping_it_away(
    before: list[str] | None, after: list[str], hint: QueueingHint
) -> None:
    old = None if before is None else make_node(taints=before)
    assert after_node_change(pending(make_pod(tolerations=["a"])), old, make_node(taints=after)) is hint


@pytest.mark.parametrize(("changed", "hint"), [("me", QueueingHint.QUEUE), ("another", QueueingHint.SKIP)])
def test_only_its_own_tolerations_wake_the_pod(changed: str, hint: QueueingHint) -> None:
    old, new = pending(make_pod(changed)), pending(make_pod(changed, tolerations=["a"]))
    assert after_toleration_change(pending(make_pod("me")), old, new) is hint
