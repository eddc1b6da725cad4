"""What explanations say of a pod's PodGroup, and whether its remedies hold."""

from __future__ import annotations

from kframework.explain.explanation import State
from kframework.explain.text import format_explanation
from kframework.testing import make_pod
from tests.explain.explained_groups import explain, group_of, rack
from tests.support.groups import PLACEMENTS, TREES, below, gang, in_one, members, nodes, tree


def test_group_names_the_pod_that_failed_first_and_how_many_fit_together() -> None:
    group = group_of([*nodes(2, cpu=2), gang("blue", 3), *members("blue", 3, cpu="2")], "blue-0")
    assert (group.name, group.minimum, group.scheduled, group.pods, group.fits) == ("default/blue", 3, 0, 3, 2)
    assert (group.failed_first, group.reason) == ("default/blue-2", "0/2 nodes are available: 2 Insufficient cpu.")
    text = "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, "
    assert group.condition.startswith(text)


def test_pods_with_the_same_message_are_told_once_those_that_failed_by_themselves_first() -> None:
    pods = members("blue", 40, cpu="1")
    explanation = explain([*nodes(1, cpu=4), gang("blue", 39), *pods], "blue-0")
    assert explanation.group is not None
    first, others = explanation.group.members
    assert (first.pods, first.message) == (("default/blue-4", "default/blue-5"), explanation.group.reason)
    assert (len(others.pods), others.message) == (38, explanation.group.condition)
    lines = format_explanation(explanation).splitlines()
    assert "  blue-4 failed first: 0/1 nodes are available: 1 Insufficient cpu." in lines
    assert "  2 pods   unschedulable  <none>  as blue-4" in lines
    assert "  38 pods  unschedulable  <none>  as the group" in lines
    wide = format_explanation(explanation, wide=True).splitlines()
    assert sum(line.endswith("as the group") for line in wide) == 38


def test_pods_on_nodes_are_told_with_their_nodes() -> None:
    group = group_of([*nodes(2, cpu=2), gang("red", 2), *members("red", 2, cpu="2")], "red-0")
    (members_on_nodes,) = group.members
    assert (members_on_nodes.state, set(members_on_nodes.nodes)) == (State.BOUND, {"n0", "n1"})
    assert members_on_nodes.pods == ("default/red-0", "default/red-1")


def test_incomplete_pod_waits_for_its_group() -> None:
    explanation = explain([*nodes(1), *members("lost", 1)], "lost-0")
    assert explanation.state is State.INCOMPLETE
    assert explanation.group is not None
    assert not explanation.group.exists
    text = format_explanation(explanation)
    assert "GROUP default/lost: WAITS FOR a PodGroup (scheduling.k8s.io) of this name; there is none." in text


def test_gang_that_lacks_pods_says_how_many() -> None:
    explanation = explain([*nodes(1), gang("short", 3), *members("short", 1)], "short-0")
    assert explanation.group is not None
    assert explanation.group.fits is None
    text = format_explanation(explanation)
    assert (
        "GROUP default/short, a gang of at least 3: 0 of 1 pod scheduled; it is not tried before 2 more pods exist."
        in text
    )


def test_text_tells_remedies_of_the_group_from_those_of_the_pod() -> None:
    text = format_explanation(explain([*nodes(1, cpu=1), gang("big", 2), *members("big", 2, cpu="2")], "big-0"))
    assert "WHAT WOULD HELP this pod alone, each by itself:" in text


def test_pod_without_a_group_has_none() -> None:
    assert explain([*nodes(1), make_pod("alone")], "alone").group is None


def test_group_in_one_domain_tells_which_placements_were_tried_and_why_each_was_rejected() -> None:
    objects = [*rack("a", 2), *rack("b", 3), in_one("rack", gang("g", 4)), *members("g", 4, cpu="2")]
    explanation = explain(objects, "g-0", PLACEMENTS)
    group = explanation.group
    assert group is not None
    assert (group.domain, group.placement, group.fits) == ("rack", "", 3)
    assert [(each.name, each.fits, each.placed, each.failed_first) for each in group.placements] == [
        ("b", False, 3, "default/g-3"),
        ("a", False, 2, "default/g-2"),
    ]
    assert group.placements[0].reason == "0/3 nodes are available: 3 Insufficient cpu."
    text = format_explanation(explanation)
    assert "a gang of at least 4, within one rack: 0 of 4 pods scheduled; 3 of 4 waiting find nodes" in text
    assert "None of 2 placements fits:" in text


def test_group_in_one_domain_tells_which_was_chosen() -> None:
    objects = [*rack("a", 1), *rack("b", 2), in_one("rack", gang("g", 2)), *members("g", 2, cpu="2")]
    explanation = explain(objects, "g-0", PLACEMENTS)
    assert explanation.group is not None
    assert explanation.group.placement == "b"
    assert "  Placement: b, of 2 tried" in format_explanation(explanation).splitlines()


def test_most_placements_are_left_out_and_counted() -> None:
    racks = [node for number in range(14) for node in rack(f"r{number:02}", 1)]
    objects = [*racks, in_one("rack", gang("g", 2)), *members("g", 2, cpu="2")]
    group = group_of(objects, "g-0", PLACEMENTS)
    assert (len(group.placements), group.placements_left_out) == (10, 4)


def test_group_below_another_tells_its_own_first_failure_and_is_tried_with_its_tree() -> None:
    objects = [*nodes(2), tree("t", 2), below("t", gang("g", 1)), below("t", gang("h", 2)), *members("g", 1, cpu="3")]
    group = group_of([*objects, *members("h", 2, cpu="3")], "h-0", TREES)
    assert (group.failed_first, group.reason) == ("default/h-1", "0/2 nodes are available: 2 Insufficient cpu.")
    texts = ["add 1 node like n0", "lower minCount of PodGroup default/h to 1"]
    assert (group.fits, [remedy.text for remedy in group.remedies]) == (1, texts)


def test_group_of_a_tree_names_its_root_and_the_groups_that_failed() -> None:
    leaves = [below("root", gang("a", 1)), below("root", gang("b", 1))]
    pods = [*members("a", 1, cpu="1"), *members("b", 1, cpu="9")]
    explanation = explain([*nodes(1), tree("root", 2), *leaves, *pods], "a-0", config=TREES)
    assert explanation.group is not None
    assert explanation.group.tree == "default/root"
    assert explanation.group.failed_groups == {"b": "0/1 nodes are available: 1 Insufficient cpu."}
    lines = format_explanation(explanation).splitlines()
    head = "GROUP default/a, a gang of at least 1, below CompositePodGroup default/root: 0 of 1 pod scheduled; "
    head += "1 of 1 waiting find nodes together now."
    assert head in lines
    assert "  Group b of the tree failed: 0/1 nodes are available: 1 Insufficient cpu." in lines


def test_group_says_which_group_above_it_is_missing() -> None:
    explanation = explain([*nodes(1), below("lost", gang("a", 1)), *members("a", 1)], "a-0", config=TREES)
    assert explanation.state is State.INCOMPLETE
    assert "  WAITS FOR CompositePodGroup default/lost: there is none." in format_explanation(explanation).splitlines()
