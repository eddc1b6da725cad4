"""Groups know their parents, children, leaves and roots, in whatever order they come and go."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from kframework.objects import GenericPodGroup
from kframework.state.group_trees import COMPOSITE_POD_GROUP, POD_GROUP, EntityKey, GroupTrees
from tests.support.groups import basic, below, gang, tree

ROOT, LEFT = tree("root", 2), below("root", tree("left"))
A, B, C = below("left", gang("a", 2)), below("left", basic("b")), below("root", gang("c", 2))


def leaf(name: str) -> EntityKey:
    return POD_GROUP, "default", name


def composite(name: str) -> EntityKey:
    return COMPOSITE_POD_GROUP, "default", name


def trees_of(*groups: GenericPodGroup) -> GroupTrees:
    trees = GroupTrees(has_parents=True)
    for group in groups:
        trees.apply(None, group)
    return trees


@pytest.mark.parametrize("order", list(permutations((ROOT, LEFT, A, B, C)))[::7])
def test_tree_is_the_same_in_whatever_order_its_groups_come(order: tuple[GenericPodGroup, ...]) -> None:
    trees = trees_of(*order)
    assert trees.root(leaf("a")) is trees.root(leaf("c")) is trees.root(composite("left")) is ROOT
    assert trees.children(ROOT) == [LEFT, C]
    assert list(trees.leaves(ROOT)) == [A, B, C]
    assert trees.path(leaf("b")) == [B, LEFT, ROOT]


def test_group_has_no_root_while_one_above_it_is_unknown() -> None:
    trees = trees_of(ROOT, A, C)
    assert trees.root(leaf("a")) is None and trees.path(leaf("a")) == [A]
    assert trees.obstacle(leaf("a")) == "CompositePodGroup default/left: there is none"
    assert trees.obstacle(leaf("b")) == "PodGroup default/b: there is none"
    assert trees.root(leaf("c")) is ROOT and list(trees.leaves(ROOT)) == [C]
    assert list(trees.leaves(LEFT)) == [A]


def test_removed_group_leaves_its_children_behind() -> None:
    trees = trees_of(ROOT, LEFT, A, C)
    trees.apply(LEFT, None)
    assert trees.children(ROOT) == [C] and trees.root(leaf("a")) is None
    trees.apply(None, LEFT)
    assert trees.root(leaf("a")) is ROOT


def test_replaced_group_is_at_its_new_place() -> None:
    trees = trees_of(ROOT, LEFT, A)
    alone = gang("a", 2)
    trees.apply(A, alone)
    assert trees.root(leaf("a")) is alone and trees.children(LEFT) == []


def test_groups_that_are_below_each_other_have_no_root() -> None:
    trees = trees_of(below("y", tree("x")), below("x", tree("y")), below("x", gang("g", 1)))
    assert trees.root(leaf("g")) is None
    assert trees.obstacle(leaf("g")) == "CompositePodGroup default/x is below itself"
    assert [group.metadata.name for group in trees.leaves(below("y", tree("x")))] == ["g"]


def test_groups_of_two_kinds_may_share_a_name() -> None:
    trees = trees_of(tree("g"), below("g", gang("g", 1)))
    assert trees.root(leaf("g")) == trees.root(composite("g")) == tree("g")


def test_groups_of_two_namespaces_are_apart() -> None:
    elsewhere = replace(A, metadata=replace(A.metadata, namespace="elsewhere"))
    trees = trees_of(ROOT, LEFT, elsewhere)
    assert trees.root((POD_GROUP, "elsewhere", "a")) is None and list(trees.leaves(ROOT)) == []


def test_each_pod_group_is_its_own_root_with_the_gate_off() -> None:
    trees = GroupTrees()
    trees.apply(None, A)
    assert trees.root(leaf("a")) is A and trees.types == (POD_GROUP,)
