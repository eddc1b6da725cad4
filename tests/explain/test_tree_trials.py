"""What-ifs about groups of a tree: how many pods find nodes beside the other groups, and whether the remedies hold."""

from __future__ import annotations

from kframework.objects import ApiObject, CompositePodGroup, Pod, PodGroup
from kframework.testing import make_pod
from tests.explain.explained_groups import bound, group_of
from tests.support.groups import TREES, below, gang, in_one, members, nodes, tree


def texts(objects: list[ApiObject], pod: str) -> list[str]:
    return [remedy.text for remedy in group_of(objects, pod, TREES).remedies]


def pods(**counts: int) -> list[Pod]:
    """Make pods of these groups, which need two cores each."""
    return [pod for name, count in counts.items() for pod in members(name, count, cpu="2")]


def leaves(*groups: PodGroup, parent: str = "root") -> list[PodGroup]:
    return [below(parent, group) for group in groups]


def test_remedies_of_a_gang_that_lacks_room_in_its_tree_hold() -> None:
    # Four cores hold two pods each: the first gang takes one node, and the second needs two.
    groups = leaves(gang("a", 2), gang("b", 3))
    objects: list[ApiObject] = [tree("root", 2), *groups, *pods(a=2, b=3)]
    group = group_of([*nodes(2), *objects], "b-0", TREES)
    assert group.fits == 2
    assert [remedy.text for remedy in group.remedies] == [
        "add 1 node like n0",
        "lower minCount of PodGroup default/b to 2",
    ]
    assert bound([*nodes(2), *objects], TREES) == 0
    assert bound([*nodes(3), *objects], TREES) == 5
    assert bound([*nodes(2), tree("root", 2), *leaves(gang("a", 2), gang("b", 2)), *pods(a=2, b=3)], TREES) == 4


def test_gang_that_has_room_is_helped_by_room_for_the_others_or_by_a_tree_that_needs_fewer() -> None:
    groups = leaves(gang("a", 2), gang("b", 3))
    objects: list[ApiObject] = [*groups, *pods(a=2, b=3)]
    group = group_of([*nodes(2), tree("root", 2), *objects], "a-0", TREES)
    assert group.fits == 2
    assert [remedy.text for remedy in group.remedies] == [
        "add 1 node like n0",
        "recreate CompositePodGroup default/root with minGroupCount 1",
    ]
    change = {"kind": "lowerMinGroupCount", "compositePodGroup": "default/root", "minGroupCount": 1}
    assert group.remedies[1].changes == (change,)
    assert bound([*nodes(2), tree("root", 1), *objects], TREES) == 2


def test_new_nodes_are_for_the_groups_that_lack_the_fewest_pods() -> None:
    groups = leaves(gang("a", 1), gang("b", 2), gang("c", 6))
    busy = [make_pod(f"busy-{number}", cpu=2, node_name="n0") for number in range(2)]
    objects: list[ApiObject] = [*busy, tree("root", 2), *groups, *pods(a=1, b=2, c=6)]
    assert texts([*nodes(1), *objects], "a-0") == ["add 2 nodes like n0"]
    assert bound([*nodes(2), *objects], TREES) == 0
    assert bound([*nodes(3), *objects], TREES) == 3
    assert texts([*nodes(1), *objects], "c-0") == ["add 4 nodes like n0"]


def test_tree_of_three_levels_is_helped_at_each_of_them() -> None:
    upper: list[CompositePodGroup] = [tree("root", 2), below("root", tree("left", 2)), below("root", tree("right", 1))]
    groups = [*leaves(gang("a", 1), gang("b", 2), parent="left"), *leaves(gang("c", 1), parent="right")]
    objects: list[ApiObject] = [*groups, *pods(a=1, b=2, c=1)]
    assert texts([*nodes(1), *upper, *objects], "b-0") == ["add 1 node like n0"]  # with one pod it would crowd out c
    smaller = [upper[0], below("root", tree("left", 1)), upper[2]]
    assert texts([*nodes(1), *upper, *objects], "a-0") == [
        "add 1 node like n0",
        "recreate CompositePodGroup default/left with minGroupCount 1",
    ]
    assert bound([*nodes(1), *upper, *objects], TREES) == 0
    assert bound([*nodes(1), *smaller, *objects], TREES) == 2


def test_tree_that_is_scheduled_needs_no_help() -> None:
    objects: list[ApiObject] = [*nodes(2), tree("root", 1), *leaves(gang("a", 1), gang("b", 2)), *pods(a=3, b=2)]
    group = group_of(objects, "a-0", TREES)
    assert group.remedies == ()


def test_tree_with_a_topology_constraint_is_not_tried() -> None:
    objects: list[ApiObject] = [*nodes(1), tree("root", 2), *leaves(gang("a", 2), in_one("rack", gang("b", 2)))]
    group = group_of([*objects, *pods(a=2, b=2)], "a-0", TREES)
    assert (group.fits, group.remedies) == (None, ())
