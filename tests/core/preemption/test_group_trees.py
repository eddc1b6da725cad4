"""Trees of groups preempt as a whole, and are preempted as a whole from the highest group with the mode `all` on."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kframework import Simulation
from kframework.core.preemption.units import Units
from kframework.objects import ApiObject, CompositePodGroup, Event, GenericPodGroup, Pod, PodGroup
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from kframework.testing.builders import cluster_state
from tests.core.preemption.test_groups import victims
from tests.support.groups import TREES, below, gang, in_one, members, nodes, on_nodes, tree, whole


def simulate(*objects: ApiObject, seconds: float = 5.0) -> Simulation:
    simulation = Simulation(list(objects), config=TREES)
    simulation.run(seconds)
    return simulation


def running(group: str, first: int, count: int) -> list[Pod]:
    """Make pods of a group, one on each of the nodes from this one on."""
    pods = members(group, first + count, cpu="3")
    return on_nodes(pods)[first:]


def low_tree(*groups: GenericPodGroup) -> list[ApiObject]:
    """Make a tree of two gangs that run, on n0 to n3."""
    return [*groups, *running("left", 0, 2), *running("right", 2, 2)]


URGENT = make_pod("urgent", cpu="3", priority=10)


def test_tree_that_is_evicted_as_a_whole_leaves_all_its_nodes() -> None:
    leaves = [below("low", gang("left", 2)), below("low", gang("right", 2))]
    simulation = simulate(*nodes(4), *low_tree(whole(tree("low")), *leaves), URGENT)
    assert sorted(victims(simulation)) == ["left-0", "left-1", "right-2", "right-3"]


def test_highest_group_with_the_mode_all_is_the_unit() -> None:
    leaves = [whole(below("inner", gang("left", 2))), below("low", gang("right", 2))]
    pods = [make_pod(f"other-{number}", cpu="3", priority=10, node_name=f"n{number}") for number in (2, 3)]
    groups = [tree("low"), whole(below("low", tree("inner"))), *leaves]
    simulation = simulate(*nodes(4), *groups, *running("left", 0, 2), *pods, URGENT)
    assert sorted(victims(simulation)) == ["left-0", "left-1"]


def test_tree_that_is_not_evicted_as_a_whole_loses_one_pod() -> None:
    leaves = [below("low", gang("left", 2)), below("low", gang("right", 2))]
    simulation = simulate(*nodes(4), *low_tree(tree("low"), *leaves), URGENT)
    assert len(victims(simulation)) == 1


def test_priority_of_a_running_pod_is_that_of_the_root() -> None:
    leaves = [below("low", gang("left", 2)), below("low", gang("right", 2))]
    assert not victims(simulate(*nodes(4), *low_tree(whole(tree("low", priority=10)), *leaves), URGENT))


def cluster_of(pods: Iterable[Pod], *groups: PodGroup | CompositePodGroup) -> ClusterState:
    """Return tables with these groups and pods."""
    cluster = cluster_state(nodes(8), pods, TREES.options.gates)
    for group in groups:
        if isinstance(group, PodGroup):
            cluster.objects(PodGroup).put(group.metadata, group)
        else:
            cluster.objects(CompositePodGroup).put(group.metadata, group)
    return cluster


def test_whole_trees_are_more_important_than_groups_and_these_than_pods() -> None:
    alone = make_pod("alone", cpu="3", node_name="n0")
    pods = [alone, *running("group", 1, 2), *running("small", 3, 1), *running("large", 4, 2)]
    trees = (whole(tree("a")), below("a", gang("small", 1)), whole(tree("b")), below("b", gang("large", 1)))
    cluster = cluster_of(pods, whole(gang("group", 1)), *trees)
    units = Units(cluster, None)
    found = sorted(units.below(10, cluster.pods.values()), key=units.importance)
    assert [unit[0].name for unit in found] == ["large-4", "small-3", "group-1", "alone"]


def test_tree_preempts_for_all_its_groups_and_follows_the_victims() -> None:
    low = on_nodes(make_pod(f"low-{number}", cpu="3") for number in range(5))
    leaves = [below("high", gang(name, 2)) for name in ("a", "b")]
    pods = [*members("a", 2, cpu="3", priority=10), *members("b", 2, cpu="3", priority=10)]
    simulation = simulate(*nodes(5), *low, tree("high", 2, priority=10), *leaves, *pods)
    assert len(victims(simulation)) == 4
    (text,) = {each.note for each in simulation.objects(Event) if each.reason == "Preempted"}
    assert text.startswith("Preempted by compositepodgroup ") and text.endswith(" on node cluster")
    simulation.run(60)
    bound = [each.pod for each in simulation.outcomes if each.node and "low" not in each.pod]
    assert len(bound) == 4


def test_tree_with_constraints_preempts_within_a_domain() -> None:
    racks = [make_node(f"n{number}", cpu=4, labels={"rack": str(number // 2)}) for number in range(4)]
    low = on_nodes(make_pod(f"low-{number}", cpu="3") for number in range(4))
    leaf = below("high", gang("a", 2))
    pods = members("a", 2, cpu="3", priority=10)
    simulation = simulate(*racks, *low, in_one("rack", tree("high", 1, priority=10)), leaf, *pods, seconds=60)
    assert sorted(victims(simulation)) in (["low-0", "low-1"], ["low-2", "low-3"])
    assert sum(each.node is not None for each in simulation.outcomes if "/a-" in each.pod) == 2


def test_all_pods_of_a_tree_wait_for_the_preemption_of_its_root() -> None:
    root = tree("high", 1)
    root = replace(root, metadata=replace(root.metadata, uid="uid-high"))
    cluster = cluster_of([], root, below("high", gang("a", 1)), gang("b", 1))
    (member,), (other,) = members("a", 1), members("b", 1)
    units = Units(cluster, None)
    assert units.preemptor(PendingPod(member, cluster.interner)) == "uid-high"
    assert units.preemptor(PendingPod(other, cluster.interner)) == ""
