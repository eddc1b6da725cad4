"""One node, with and without the pods nominated to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pytest

from kframework import (
    CycleState,
    NodeInfo,
    PendingPod,
    Plugin,
    PodInfo,
    StateKey,
    Status,
    error,
    hookimpl,
    unschedulable,
)
from kframework.core.cycle.rejections import (
    add_nominated_pods,
    filter_assuming_nominated_pods,
    filter_with_nominated_pods,
)
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeTable
from kframework.testing import make_node
from tests.support.objects import pod
from tests.support.searches import build_profile

SEEN = StateKey[tuple[str, ...]]("seen")


class Alone(Plugin):
    """Rejects a node on which other pods are, but one that is marked as needing others where none are."""

    name = "Alone"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> None:
        state[SEEN] = ()

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        state[SEEN] = (*state[SEEN], other.name)
        return error("cannot take it in") if other.name == "odd" else None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        assert len(state[SEEN]) == len(node.pods)
        crowded = bool(node.pods) != (pod.labels.get("needs") == "others")
        return unschedulable("crowded" if node.pods else "empty") if crowded else None


class Asked(NamedTuple):
    """A question, spelt out."""

    cluster: ClusterState
    nodes: NodeTable
    profile: Profile
    pod: PendingPod
    filters: tuple[FilterStep, ...]


def asked(nominated: Iterable[tuple[str, int]] = (), **labels: str) -> Asked:
    cluster = ClusterState()
    for name in "ab":
        cluster.put_node(make_node(name))
    for name, priority in nominated:
        cluster.nominator.nominate(PendingPod(pod(name, priority=priority), cluster.interner), "a")
    profile = build_profile(Alone)
    pending = PendingPod(pod("incoming", priority=5, labels=labels), cluster.interner)
    return Asked(cluster, cluster.nodes, profile, pending, profile.filters)


@pytest.mark.parametrize(
    ("nominated", "names"),
    [
        ([], []),
        ([("less", 4)], []),
        ([("equal", 5), ("less", 4), ("more", 6)], ["equal", "more"]),
    ],
)
def test_room_is_left_to_pods_that_are_at_least_as_important(
    nominated: list[tuple[str, int]], names: list[str]
) -> None:
    question = asked(nominated)
    found = question.cluster.nominator.nominated_pods_for_node(question.pod, "a")
    assert [other.name for other in found] == names


@pytest.mark.parametrize(
    ("labels", "nominated", "beside", "both"),
    [
        ({}, ["one"], "crowded", "crowded"),
        ({"needs": "others"}, ["one", "two"], None, "empty"),
        ({}, ["odd"], "cannot take it in", "cannot take it in"),
    ],
)
def test_pod_must_fit_with_and_without_nominated_pods(
    labels: dict[str, str], nominated: list[str], beside: str | None, both: str
) -> None:
    question = asked([(name, 9) for name in nominated], **labels)
    state = CycleState()
    state[SEEN] = ()
    node = question.nodes[0]
    first = filter_assuming_nominated_pods(question, question.filters, state, node)
    second = filter_with_nominated_pods(question, question.filters, state, node)
    assert (first is None) == (beside is None)
    assert first is None or beside is None or beside in first.message
    assert second is not None and both in second.message
    assert state[SEEN] == () and not node.pods and not question.cluster.statements


def test_node_without_nominated_pods_is_filtered_once() -> None:
    question = asked()
    state = CycleState()
    state[SEEN] = ()
    assert filter_with_nominated_pods(question, question.filters, state, question.nodes[0]) is None


def test_nominated_pods_are_removed_with_the_statement() -> None:
    question = asked([("one", 9)])
    state = CycleState()
    state[SEEN] = ()
    node = question.nodes[0]
    pods = question.cluster.nominator.nominated_pods_for_node(question.pod, node.name)
    with question.cluster.statement() as what_if:
        taken_in = add_nominated_pods(what_if, question, state, node, pods)
        assert isinstance(taken_in, CycleState) and taken_in[SEEN] == ("one",)
        assert [other.name for other in node.pods] == ["one"]
    assert not question.nodes[0].pods
