"""Trees of groups, as in kube-scheduler's cpg_test; the conditions of CompositePodGroups come with 1.38."""

from __future__ import annotations

import pytest

from kframework.objects import CompositePodGroup, Pod, PodGroup
from tests.conformance.groups.story import Story, node, pods
from tests.conformance.groups.story import group as make_group
from tests.support.groups import TREES, below, tree

#: More than any node has.
HUGE = 100


def composite(name: str, minimum: int | None, parent: str = "") -> CompositePodGroup:
    made = tree(name, minimum, 100)
    return below(parent, made) if parent else made


def group(name: str, minimum: int = 0, parent: str = "root") -> PodGroup:
    return below(parent, make_group(name, minimum, 100))


def members(of: str, *cpus: float) -> list[Pod]:
    """Make the pods of a group: `g1.0` and so on."""
    return [pods(f"{of}.{number}", of, cpu, 100)[0] for number, cpu in enumerate(cpus)]


def names(*groups: str, count: int = 3) -> str:
    return " ".join(f"{of}.{number}" for of in groups for number in range(count))


#: The trees: the groups, what their pods ask for, which groups are scheduled, and which are not.
SHAPES = [
    pytest.param(
        [
            *(composite("root", 2), composite("sub1", 2, "root"), composite("sub2", None, "root")),
            *(composite("sub3", 2, "root"), group("g1", 3, "sub1"), group("g2", 3, "sub1"), group("g3", 3, "sub1")),
            *(group("g4", 0, "sub2"), group("g5", 3, "sub2"), group("g6", 3, "sub3"), group("g7", 3, "sub3")),
        ],
        {"g3": [HUGE] * 3, "g7": [HUGE] * 3},
        (["g1", "g2", "g4", "g5"], ["g3", "g6", "g7"]),
        id="TestCPGHierarchicalScheduling",
    ),
    pytest.param(
        [composite("root", 2), group("g1", 3), group("g2", 3), group("g3", 3)],
        {"g3": [HUGE, 1, 1]},
        (["g1", "g2"], ["g3"]),
        id="TestCPGMinGroupCount",
    ),
    pytest.param(
        [composite("root", None), group("g1", 3), group("g2", 3)],
        {"g2": [HUGE, 1, 1]},
        (["g1"], ["g2"]),
        id="TestCPGBasicWithGangChildren",
    ),
    pytest.param(
        [composite("root", None), group("g1"), group("g2")],
        {},
        (["g1", "g2"], []),
        id="TestCPGBasicWithBasicChildren",
    ),
    pytest.param(
        [composite("root", 2), group("g1"), group("g2"), group("g3")],
        {"g3": [HUGE] * 3},
        (["g1", "g2"], ["g3"]),
        id="TestCPGGangWithBasicChildren",
    ),
    pytest.param(
        [composite("root", None), group("g1"), group("g2")],
        {"g1": [HUGE] * 3, "g2": [HUGE] * 3},
        ([], ["g1", "g2"]),
        id="TestCPGBasicWithUnschedulableBasicChildren",
    ),
    pytest.param(
        [
            *(composite("root", 2), composite("sub1", 2, "root"), composite("sub2", 2, "root")),
            *(group("g1", 3, "sub1"), group("g2", 3, "sub1"), group("g3", 3, "sub2"), group("g4", 3, "sub2")),
        ],
        {"g2": [HUGE] * 3},
        ([], ["g1", "g2", "g3", "g4"]),
        id="TestCPGStatusConditions_HierarchicalDiagnostics",
    ),
]


@pytest.mark.parametrize(("groups", "cpus", "expected"), SHAPES)
def test_groups_of_a_tree_are_scheduled_if_enough_of_them_can_be(
    groups: list[CompositePodGroup | PodGroup], cpus: dict[str, list[float]], expected: tuple[list[str], list[str]]
) -> None:
    leaves = [each.metadata.name for each in groups if isinstance(each, PodGroup)]
    story = Story(node("node", 20), *groups, config=TREES)
    story.create(*(pod for leaf in leaves for pod in members(leaf, *cpus.get(leaf, [1] * 3))))
    scheduled, unschedulable = expected
    story.expect(scheduled=names(*scheduled), unschedulable=names(*unschedulable))
    for leaf in leaves:
        is_scheduled = leaf in scheduled
        story.expect_condition(leaf, str(is_scheduled), "Scheduled" if is_scheduled else "Unschedulable")


def test_groups_are_added_to_a_tree_that_was_scheduled() -> None:
    """As in TestCPGDynamicChildAddition."""
    story = Story(node("node", 20), composite("root", None), group("g1"), *members("g1", 1, 1), config=TREES)
    story.expect(scheduled=names("g1", count=2))
    story.create(group("g2"), *members("g2", 1, 1))
    story.expect(scheduled=names("g1", "g2", count=2))
    story.create(composite("sub", 2, "root"), group("s1", 0, "sub"), *members("s1", 1, 1))
    story.expect(scheduled=names("g1", "g2", count=2), unschedulable=names("s1", count=2))
    story.expect_condition("s1", "False", "Unschedulable")
    story.create(group("s2", 0, "sub"), *members("s2", 1, 1))
    story.expect(scheduled=names("g1", "g2", "s1", "s2", count=2))


def test_tree_waits_for_room_as_a_whole() -> None:
    """As in TestCPGStatusConditions_ResourceBlockedThenScheduled."""
    story = Story(node("node", 4), *pods("blocker", cpu=3, priority=100), config=TREES)
    story.create(composite("root", 2), group("g1", 2), group("g2", 2), *members("g1", 1, 1), *members("g2", 1, 1))
    story.expect(scheduled="blocker", unschedulable=names("g1", "g2", count=2))
    story.delete(Pod, "blocker")
    story.expect(scheduled=names("g1", "g2", count=2))
    for leaf in ("g1", "g2"):
        story.expect_condition(leaf, "True", "Scheduled")


def test_pods_of_interleaved_shapes_of_a_tree_find_nodes_together() -> None:
    """As in podgroup_batch_test: pods that need a whole node stand between pods that do not."""
    nodes = [node(f"node{number}") for number in range(6)]
    groups = [composite("root", 2), group("g1", 3), group("g2", 3)]
    story = Story(*nodes, *groups, *members("g1", 3, 4, 3), *members("g2", 4, 3, 4), config=TREES)
    story.expect(scheduled=names("g1", "g2"))
    assert len(set(story.nodes_of(names("g1", "g2")))) == 6


def test_pod_is_incomplete_until_its_tree_has_a_root() -> None:
    """As in hierarchy_validation_test: two groups are below each other, until one is recreated without a parent."""
    story = Story(node("node", 10), composite("c1", None, "c2"), composite("c2", None, "c1"), config=TREES)
    story.create(group("g", 0, "c1"), *members("g", 1))
    story.expect(incomplete="g.0")
    story.delete(CompositePodGroup, "c2")
    story.expect(incomplete="g.0")
    story.create(composite("c2", None))
    story.expect(scheduled="g.0")
