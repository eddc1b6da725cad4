"""The members of a group are counted by what has become of them, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kframework.objects import Pod, PodSchedulingGroup
from kframework.state.cluster import ClusterState
from kframework.state.pod_groups import PodGroups
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod

G = ("team", "g")


def states(groups: PodGroups) -> tuple[list[str], list[str], list[str]]:
    members = groups.members(*G)
    assert len(members) == len(members.unscheduled) + members.scheduled
    return list(members.unscheduled), list(members.assumed), list(members.assigned)


Step = Callable[[PodGroups], None]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], ([], [], [])),
        ([lambda g: g.add("a", G), lambda g: g.add("b", G)], (["a", "b"], [], [])),
        ([lambda g: g.assign("a", G)], ([], [], ["a"])),
        ([lambda g: g.add("a", G), lambda g: g.assign("a", G)], ([], [], ["a"])),
        ([lambda g: g.add("a", G), lambda g: g.assume("a")], ([], ["a"], [])),
        ([lambda g: g.add("a", G), lambda g: g.assume("a"), lambda g: g.forget("a")], (["a"], [], [])),
        ([lambda g: g.add("a", G), lambda g: g.assume("a"), lambda g: g.add("a", G)], ([], ["a"], [])),
        ([lambda g: g.add("a", G), lambda g: g.assume("a"), lambda g: g.assign("a", G)], ([], [], ["a"])),
        ([lambda g: g.assign("a", G), lambda g: g.forget("a")], ([], [], ["a"])),
        ([lambda g: g.assume("a"), lambda g: g.forget("a")], ([], [], [])),
        ([lambda g: g.add("a", G), lambda g: g.remove("a"), lambda g: g.forget("a")], ([], [], [])),
        ([lambda g: g.add("a", G), lambda g: g.assume("a"), lambda g: g.remove("a")], ([], [], [])),
    ],
)
def test_members_follow_their_pods(steps: list[Step], expected: tuple[list[str], list[str], list[str]]) -> None:
    groups = PodGroups()
    for step in steps:
        step(groups)
    assert states(groups) == expected


def test_group_without_pods_is_forgotten() -> None:
    groups = PodGroups()
    groups.add("a", G)
    groups.add("b", ("team", "h"))
    assert (list(groups), len(groups)) == ([G, ("team", "h")], 2)
    groups.remove("a")
    groups.remove("a")
    assert list(groups) == [("team", "h")] and groups.group_of == {"b": ("team", "h")}
    assert len(groups.members(*G)) == 0


def member(name: str, node: str = "") -> Pod:
    pod = make_pod(name, namespace="team", node_name=node)
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")))


def test_cluster_counts_a_member_where_it_is() -> None:
    state = ClusterState()
    state.put_node(make_node("n"))
    pod = PendingPod(member("a"), state.interner)
    state.groups.add(pod.uid, G)
    with state.statement() as what_if:
        what_if.assume(pod, "n")
        assert states(state.groups) == ([], [pod.uid], [])
    assert states(state.groups) == ([pod.uid], [], [])
    state.assume(pod, "n")
    assert state.confirm(pod, member("a", "n"))
    assert states(state.groups) == ([], [], [pod.uid])
    state.put_pod(member("b", "n"))
    assert state.groups.members(*G).scheduled == 2


def test_pods_of_different_groups_share_a_template() -> None:
    state = ClusterState()
    one, other = (PendingPod(pod, state.interner) for pod in (member("a"), make_pod("a", namespace="team")))
    assert one.template is other.template
    assert (one.group, other.group) == ("g", "")
    assert one.object.spec.scheduling_group == PodSchedulingGroup(pod_group_name="g")
    assert one.signature_fields != other.signature_fields and one.kind is not other.kind
