"""What explanations say of a pod's PodGroup, and whether its remedies hold."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework.explain.explanation import Explanation, GroupExplanation, State
from kframework.explain.text import format_explanation
from kframework.objects import ApiObject
from kframework.objects.pod_groups import PodGroupSchedulingConstraints, TopologyConstraint
from kframework.testing import make_node, make_pod
from tests.support.groups import basic, gang, members, nodes, simulate


def explain(objects: list[ApiObject], pod: str) -> Explanation:
    with simulate(objects) as simulation:
        return simulation.explain(pod).explanation


def group_of(objects: list[ApiObject], pod: str) -> GroupExplanation:
    group = explain(objects, pod).group
    assert group is not None
    return group


def test_group_says_which_member_failed_and_how_many_fit_together() -> None:
    group = group_of([*nodes(2, cpu=2), gang("blue", 3), *members("blue", 3, cpu="2")], "blue-0")
    assert (group.name, group.minimum, group.scheduled, group.fits) == ("default/blue", 3, 0, 2)
    assert [each.pod for each in group.members] == ["default/blue-0", "default/blue-1", "default/blue-2"]
    failed = [each.message for each in group.members if each.message.startswith("0/2 nodes are available")]
    assert failed == ["0/2 nodes are available: 2 Insufficient cpu."]
    text = "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, "
    assert group.condition.startswith(text)


@pytest.mark.parametrize(("minimum", "added"), [(3, 1), (4, 1), (5, 2), (6, 2)])
def test_added_nodes_and_lower_minimum_let_the_gang_be_scheduled(minimum: int, added: int) -> None:
    # Four cores hold two pods each; the busy node counts as a model without its pod.
    busy = make_pod("busy", cpu=4, node_name="n1")
    pods = members("blue", 6, cpu="2")
    objects = [*nodes(2), busy, gang("blue", minimum), *pods]
    group = group_of(objects, "blue-0")
    assert group.fits == 2
    by_nodes, by_minimum = group.remedies
    assert by_nodes.text == f"add {added} node{'s' if added > 1 else ''} like n0"
    assert by_minimum.text == "lower minCount of PodGroup default/blue to 2"

    def bound(objects: list[ApiObject]) -> int:
        with simulate(objects) as simulation:
            return sum(each.node is not None and each.pod != "default/busy" for each in simulation.outcomes)

    assert bound([*objects, *(make_node(f"new{number}", cpu=4) for number in range(added))]) >= minimum
    assert bound([*objects, *(make_node(f"new{number}", cpu=4) for number in range(added - 1))]) == 0
    assert bound([*nodes(2), busy, gang("blue", 2), *pods]) == 2


def test_pod_that_is_on_its_node_keeps_its_room_in_the_what_if() -> None:
    explanation = explain([*nodes(1, cpu=2), basic("tools"), *members("tools", 3, cpu="1")], "tools-0")
    assert explanation.group is not None
    assert (explanation.state, explanation.group.fits) == (State.BOUND, 0)
    assert [remedy.text for remedy in explanation.group.remedies] == ["add 1 node like n0"]


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


def test_group_with_a_topology_constraint_is_not_tried() -> None:
    constraints = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
    group = gang("racked", 2)
    group = replace(group, spec=replace(group.spec, scheduling_constraints=constraints))
    found = group_of([*nodes(1, cpu=1), group, *members("racked", 2)], "racked-0")
    assert (found.fits, found.remedies) == (None, ())
