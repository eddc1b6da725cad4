"""Trees of groups with topology constraints, as in kube-scheduler's cpg_tas_test: without and with preemption."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pytest
from msgspec.structs import replace

from kframework.objects import (
    Affinity,
    ApiObject,
    CompositePodGroup,
    GenericPodGroup,
    Node,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodGroup,
    PreferredSchedulingTerm,
)
from kframework.testing import make_node
from tests.conformance.groups.story import Story, pods
from tests.conformance.groups.story import group as make_group
from tests.support.groups import TREES, below, in_one, tree

LABELS = {"z": "zone", "b": "block", "r": "rack"}


def nodes(names: str, taints: tuple[str, ...] = ()) -> list[Node]:
    """Make nodes of two CPUs: `z1r2.0` is in zone z1 and in its rack r2; another zone may have a rack r2 as well."""
    labels = {name: {LABELS[part[0]]: part for part in re.findall(r"[zbr]\d", name)} for name in names.split()}
    return [make_node(name, cpu=2, labels=labels[name], taints=taints) for name in names.split()]


def composite(name: str, minimum: int | None, key: str = "", parent: str = "root") -> CompositePodGroup:
    made = tree(name, minimum, 100)
    made = in_one(key, made) if key else made
    return below(parent, made) if name != "root" else made


def group(name: str, minimum: int = 2, key: str = "", parent: str = "root") -> PodGroup:
    return below(parent, make_group(name, minimum, 100, rack=key))


def running(**where: str) -> list[Pod]:
    """Make pods that run: `z1r1.0:2` takes two CPUs of that node, those named `low` have less priority than trees.

    `g1_0` is the first pod of the group `g1`.
    """
    found = []
    for name, place in where.items():
        node, _, cpu = place.partition(":")
        of = name.partition("_")[0] if "_" in name else ""
        found += pods(name, of, float(cpu or 2), 10 if name.startswith("low") else 100, node)
    return found


def members(of: str, numbers: range = range(2)) -> list[Pod]:
    return pods(" ".join(f"{of}_{number}" for number in numbers), of, 1, 100)


def new_pods(groups: Iterable[ApiObject], before: Iterable[Pod]) -> list[Pod]:
    """Make as many pods of each gang as its minimum, one of each other group, without those that run already."""
    known = {pod.metadata.name for pod in before}
    gangs = {each.metadata.name: each.spec.scheduling_policy.gang for each in groups if isinstance(each, PodGroup)}
    made = [pod for leaf, gang in gangs.items() for pod in members(leaf, range(gang.min_count if gang else 1))]
    return [pod for pod in made if pod.metadata.name not in known]


def expect_places(story: Story, places: Mapping[str, str]) -> None:
    """Check where the pods of these groups run: in the domain `z1r2`, or for a letter in any one such domain."""
    where = {pod.metadata.name: pod.spec.node_name for pod in story.simulation.objects(Pod)}
    for groups, domain in places.items():
        found = {node for pod, node in where.items() if pod.partition("_")[0] in groups.split()}
        if domain in LABELS:
            assert len({re.sub(rf"({domain}\d).*", r"\1", node) for node in found}) == 1, (groups, found)
        else:
            assert all(node.startswith(domain) for node in found), (groups, found)


ROOT_IN_RACK: list[GenericPodGroup] = [composite("root", 2, "rack"), group("g1"), group("g2")]
ROOT_IN_ZONE: list[GenericPodGroup] = [composite("root", 2, "zone"), group("g1", key="rack"), group("g2", key="rack")]
TWO_RACKS = "z1r1.0 z1r1.1 z1r2.0 z1r2.1"
FOUR_RACKS = f"{TWO_RACKS} z2r1.0 z2r1.1 z2r2.0 z2r2.1"


def two_levels(root: tuple[int | None, str], inner: tuple[int | None, str], leaf: str) -> list[GenericPodGroup]:
    """Make a root with two trees of two gangs: minimum and key of the root and of the trees, and the gangs' key."""
    trees = [composite("root", *root), composite("t1", *inner), composite("t2", *inner)]
    parents = {"g1": "t1", "g2": "t1", "g3": "t2", "g4": "t2"}
    return [*trees, *(group(name, key=leaf, parent=parent) for name, parent in parents.items())]


BLOCKS = "z1b1r1.0 z1b1r2.0 z1b2r1.0 z1b2r2.0 z2b1r1.0 z2b1r1.1"
IN_BLOCKS = {"g1 g2 g3 g4": "z", "g1 g2": "b", "g3 g4": "b", "g1": "r", "g2": "r", "g3": "r", "g4": "r"}
MIDDLE_FREE: list[GenericPodGroup] = [
    *(composite("root", 2, "zone"), composite("t1", None), composite("t2", None)),
    *(group("g1", key="rack", parent="t1"), group("g2", key="rack", parent="t2")),
]
TOP_FREE = two_levels((None, ""), (2, "zone"), "rack")
IN_ZONES = {"g1 g2": "z", "g3 g4": "z", "g1": "r", "g2": "r", "g3": "r", "g4": "r"}
BOTTOM_FREE = two_levels((2, "zone"), (2, "rack"), "")
IN_RACKS = {"g1 g2 g3 g4": "z", "g1 g2": "r", "g3 g4": "r"}
PINNED = {"g1 g2 g3 g4": "z2", "g1 g2": "z2r1", "g3 g4": "z2r2"}

#: The nodes; the groups; the pods that run before; where the groups run. Pods named `low` must all be preempted.
FITTING = [
    pytest.param(TWO_RACKS, ROOT_IN_RACK, {"other": "z1r2.1"}, {"g1 g2": "z1r1"}, id="root in a rack"),
    pytest.param(TWO_RACKS, ROOT_IN_RACK, {"g1_0": "z1r2.1:1"}, {"g1 g2": "z1r2"}, id="root in the rack of a pod"),
    pytest.param(
        "z1r1.0 z1r2.0 z2r1.0 z2r1.1",
        ROOT_IN_ZONE,
        {"other": "z2r1.0:1"},
        {"g1 g2": "z1", "g1": "r", "g2": "r"},
        id="zone and rack",
    ),
    pytest.param(
        "z1r1.0 z1r2.0 z1r2.1 z2r1.0 z2r1.1",
        ROOT_IN_ZONE,
        {"g1_0": "z1r1.0:1"},
        {"g1": "z1r1", "g2": "z1r2"},
        id="zone and rack of a pod",
    ),
    pytest.param(BLOCKS, two_levels((2, "zone"), (2, "block"), "rack"), {}, IN_BLOCKS, id="zone, block and rack"),
    pytest.param(
        "z1r1.0 z1r2.0 z2r1.0", MIDDLE_FREE, {}, {"g1 g2": "z1", "g1": "r", "g2": "r"}, id="zone, none and rack"
    ),
    pytest.param("z1r1.0 z1r2.0 z2r3.0 z2r4.0 z2r5.0", TOP_FREE, {}, IN_ZONES, id="none, zone and rack"),
    pytest.param(f"{TWO_RACKS} z2r3.0 z2r3.1", BOTTOM_FREE, {}, IN_RACKS, id="zone, rack and none"),
    pytest.param(FOUR_RACKS, BOTTOM_FREE, {"g1_0": "z2r1.0:1"}, PINNED, id="zone and rack of a pod below"),
    pytest.param(
        TWO_RACKS,
        [composite("root", 2, "rack"), group("g1", 1), group("g2")],
        {"other": "z1r1.0:1"},
        {"g1 g2": "z1r1"},
        id="the fuller rack",
    ),
    pytest.param(
        TWO_RACKS,
        [composite("root", 1, "rack"), group("g1"), group("g2")],
        {"other": "z1r1.0:1"},
        {"g1 g2": "z1r2"},
        id="the rack for more pods",
    ),
    pytest.param(
        f"{TWO_RACKS} z2r1.0 z2r2.0",
        [
            *(composite("root", 3, "zone"), composite("t1", 2, "rack")),
            *(group("g1", parent="t1"), group("g2", parent="t1"), group("g3", key="rack"), group("g4")),
        ],
        {},
        {"g1 g2 g3 g4": "z", "g1 g2": "r", "g3": "r"},
        id="trees beside gangs",
    ),
    pytest.param(
        TWO_RACKS,
        ROOT_IN_RACK,
        {"low1": "z1r1.0", "low2": "z1r1.1", "other": "z1r2.1"},
        {"g1 g2": "z1r1"},
        id="root in a rack, with preemption",
    ),
    pytest.param(
        TWO_RACKS,
        ROOT_IN_RACK,
        {"g1_0": "z1r2.1:1", "low1": "z1r2.0", "low2": "z1r2.1:1"},
        {"g1 g2": "z1r2"},
        id="root in the rack of a pod, with preemption",
    ),
    pytest.param(
        "z1r1.0 z1r2.0",
        [composite("root", 2, "rack"), group("g1", 0), group("g2", 0)],
        {"low": "z1r1.0", "other": "z1r2.0"},
        {"g1 g2": "z1r1"},
        id="groups without a minimum, with preemption",
    ),
    pytest.param(
        "z1r1.0 z1r2.0 z2r1.0 z2r1.1",
        ROOT_IN_ZONE,
        {"low1": "z1r1.0", "low2": "z1r2.0", "other": "z2r1.0:1"},
        {"g1 g2": "z1", "g1": "r", "g2": "r"},
        id="zone and rack, with preemption",
    ),
    pytest.param(
        "z1r1.0 z1r2.0 z1r2.1 z2r1.0 z2r1.1",
        ROOT_IN_ZONE,
        {"g1_0": "z1r1.0:1", "low1": "z1r1.0:1", "low2": "z1r2.0"},
        {"g1": "z1r1", "g2": "z1r2"},
        id="zone and rack of a pod, with preemption",
    ),
    pytest.param(
        BLOCKS,
        two_levels((2, "zone"), (2, "block"), "rack"),
        {"low1": "z1b1r1.0", "low2": "z1b1r2.0", "low3": "z1b2r1.0", "low4": "z1b2r2.0"},
        IN_BLOCKS,
        id="zone, block and rack, with preemption",
    ),
    pytest.param(
        "z1r1.0 z1r2.0 z2r1.0",
        MIDDLE_FREE,
        {"low1": "z1r1.0", "low2": "z1r2.0"},
        {"g1 g2": "z1", "g1": "r", "g2": "r"},
        id="zone, none and rack, with preemption",
    ),
    pytest.param(
        "z1r1.0 z1r2.0 z2r3.0 z2r4.0",
        TOP_FREE,
        {"low1": "z1r1.0", "low2": "z1r2.0", "low3": "z2r3.0", "low4": "z2r4.0"},
        IN_ZONES,
        id="none, zone and rack, with preemption",
    ),
    pytest.param(
        f"{TWO_RACKS} z2r3.0 z2r3.1",
        BOTTOM_FREE,
        {"low1": "z1r1.0", "low2": "z1r1.1", "low3": "z1r2.0", "low4": "z1r2.1"},
        IN_RACKS,
        id="zone, rack and none, with preemption",
    ),
    pytest.param(
        FOUR_RACKS,
        BOTTOM_FREE,
        {"g1_0": "z2r1.0:1", "low1": "z2r1.1", "low2": "z2r2.0"},
        PINNED,
        id="zone and rack of a pod below, with preemption",
    ),
]


@pytest.mark.parametrize(("machines", "groups", "before", "places"), FITTING)
def test_each_group_of_a_tree_runs_in_one_domain(
    machines: str, groups: list[GenericPodGroup], before: dict[str, str], places: dict[str, str]
) -> None:
    there = running(**before)
    story = Story(*nodes(machines), *there, config=TREES)
    late = new_pods(groups, there)
    story.create(*groups, *late)
    stay = [pod for pod in [*there, *late] if not pod.metadata.name.startswith("low")]
    story.expect(scheduled=" ".join(pod.metadata.name for pod in stay))
    expect_places(story, places)


def prefers(pod: Pod, node: str) -> Pod:
    term = NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,)),))
    preferred = (PreferredSchedulingTerm(weight=100, preference=term),)
    affinity = NodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
    return replace(pod, spec=replace(pod.spec, affinity=Affinity(node_affinity=affinity)))


@pytest.mark.parametrize("low", [{}, {"low": "z1r1.0"}])
def test_group_without_a_key_runs_in_the_zone_of_its_tree_though_it_prefers_another(low: dict[str, str]) -> None:
    """The first group fits in one rack alone, which the taint keeps free for it."""
    machines = [*nodes("z1r1.0", taints=("t:NoSchedule",)), *nodes("z1r2.0 z1r3.0 z2r1.0 z2r2.0")]
    others = running(**low, o1="z1r2.0:1", o2="z1r3.0:1", o3="z2r2.0:1")
    story = Story(*machines, *others, config=TREES)
    first = pods("g1_0 g1_1", "g1", 1, 100, tolerations=("t",))
    second = [prefers(pod, "z2r1.0") for pod in members("g2")]
    story.create(composite("root", 2, "zone"), group("g1", key="rack"), group("g2"), *first, *second)
    story.expect(scheduled="o1 o2 o3 g1_0 g1_1 g2_0 g2_1")
    expect_places(story, {"g1": "z1r1", "g2": "z1"})


def test_tree_waits_if_no_rack_has_room_for_all_its_groups() -> None:
    story = Story(*nodes("z1r1.0 z1r2.0"), *running(o1="z1r1.0:1", o2="z1r2.0:1"), config=TREES)
    groups = [composite("root", 2, "rack"), group("g1", 0), group("g2", 0)]
    story.create(*groups, *new_pods(groups, []))
    story.expect(scheduled="o1 o2", unschedulable="g1_0 g2_0")


def test_pods_of_a_tree_in_two_zones_are_an_error() -> None:
    story = Story(*nodes("z1r1.0 z1r1.1 z2r1.0 z2r1.1"), *ROOT_IN_ZONE, config=TREES)
    there = running(g1_0="z1r1.0:1", g2_0="z2r1.0:1")
    story.create(*there, *new_pods(ROOT_IN_ZONE, there))
    story.expect(scheduled="g1_0 g2_0", schedulererror="g1_1 g2_1")


def test_tree_with_enough_groups_in_a_rack_leaves_the_others_waiting() -> None:
    groups = [*ROOT_IN_RACK, group("g3")]
    story = Story(*nodes(TWO_RACKS), *running(o1="z1r2.0", o2="z1r2.1"), config=TREES)
    story.create(*groups, *new_pods(groups, []))
    story.expect(scheduled="o1 o2 g1_0 g1_1 g2_0 g2_1", unschedulable="g3_0 g3_1")


def test_left_group_of_a_tree_follows_into_its_rack_when_there_is_room() -> None:
    groups = [composite("root", None, "rack"), group("g1", 0), group("g2", 0)]
    story = Story(*nodes("z1r1.0 z1r1.1"), *running(other="z1r1.0"), config=TREES)
    story.create(*groups, *members("g1"), *members("g2"))
    story.expect(scheduled="other g1_0 g1_1", unschedulable="g2_0 g2_1")
    story.delete(Pod, "other")
    story.expect(scheduled="g1_0 g1_1 g2_0 g2_1")


def test_tree_stays_in_the_fuller_rack_though_its_late_groups_fit_in_the_other_one() -> None:
    groups = [composite("root", None, "rack"), group("g1", 0), group("g2", 0)]
    story = Story(*nodes("z1r1.0 z1r1.1 z1r2.0"), *running(other="z1r1.0"), *groups, config=TREES)
    for pod in members("g1"):
        story.create(pod)
    story.create(*members("g2"))
    story.expect(scheduled="other g1_0 g1_1", unschedulable="g2_0 g2_1")
    story.delete(Pod, "other")
    story.expect(scheduled="g1_0 g1_1 g2_0 g2_1")
    expect_places(story, {"g1 g2": "z1r1"})


def test_second_tree_joins_the_first_in_the_fuller_rack() -> None:
    story = Story(*nodes(f"{TWO_RACKS} z1r2.2"), config=TREES)
    for name in "ab":
        groups = [group(f"{name}1", 1, parent=name), group(f"{name}2", 1, parent=name)]
        story.create(in_one("rack", tree(name, 2, 100)), *groups, *new_pods(groups, []))
        expect_places(story, {f"{name}1 {name}2": "z1r1"})


@pytest.mark.parametrize(
    ("machines", "states"),
    [
        (TWO_RACKS, {"scheduled": "a1_0 a1_1 a2_0 a2_1 b1_0 b1_1 b2_0 b2_1"}),
        ("z1r1.0 z1r1.1", {"scheduled": "a1_0 a1_1 a2_0 a2_1", "unschedulable": "b1_0 b1_1 b2_0 b2_1"}),
    ],
)
def test_two_trees_need_a_rack_each(machines: str, states: dict[str, str]) -> None:
    story = Story(*nodes(machines), config=TREES)
    for name in "ab":
        root = in_one("rack", tree(name, 2, 100))
        groups = [root, group(f"{name}1", parent=name), group(f"{name}2", parent=name)]
        story.create(*groups, *new_pods(groups, []))
    story.expect(**states)
    expect_places(story, {"a1 a2": "r"} | ({} if "unschedulable" in states else {"b1 b2": "r"}))


def test_late_pod_of_a_tree_goes_to_no_other_rack_than_that_where_it_preempted() -> None:
    there = running(low1="z1r1.0", low2="z1r1.1", other="z1r2.1")
    story = Story(*nodes(TWO_RACKS), *there, config=TREES)
    story.create(*ROOT_IN_RACK, *new_pods(ROOT_IN_RACK, []))
    story.create(*members("g1", range(2, 3)))
    story.expect(scheduled="other g1_0 g1_1 g2_0 g2_1", unschedulable="g1_2")
    assert story.victims() == {"low1", "low2"}


def test_late_groups_of_a_tree_preempt_in_its_zone_only() -> None:
    there = running(low1="z1r3.0", low2="z2r1.0")
    story = Story(*nodes("z1r1.0 z1r2.0 z1r3.0 z2r1.0 z2r1.1"), *there, config=TREES)
    story.create(*ROOT_IN_ZONE, *new_pods(ROOT_IN_ZONE, []))
    story.expect(scheduled="low1 low2 g1_0 g1_1 g2_0 g2_1")
    story.create(group("g3", key="rack"), *members("g3"))
    story.expect(scheduled="low2 g1_0 g1_1 g2_0 g2_1 g3_0 g3_1")
    expect_places(story, {"g3": "z1r3"})
    story.create(group("g4", key="rack"), *members("g4"))
    story.expect(scheduled="low2 g1_0 g1_1 g2_0 g2_1 g3_0 g3_1", unschedulable="g4_0 g4_1")
