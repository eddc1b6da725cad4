"""The groups of a tree get their nodes in one walk: each has its minimum, and fails with the group above it."""

from __future__ import annotations

import pytest

from kframework import Code, CycleState, NodeInfo, PendingPod, Plugin, Simulation, Status, hookimpl, unschedulable
from kframework.config.load import parse
from kframework.objects import ApiObject, Node, PodGroup
from kframework.testing import make_node, make_pod
from tests.core.groups.test_cycle import NO_VICTIMS, condition, messages, places
from tests.support.groups import GROUPS, TREES, basic, below, gang, in_one, members, nodes, tree


def simulate(*objects: ApiObject, seed: int = 0, seconds: float = 5.0) -> Simulation:
    simulation = Simulation(list(objects), config=TREES, seed=seed)
    simulation.run(seconds)
    return simulation


def bound(simulation: Simulation) -> set[str]:
    return {pod for pod, node in places(simulation).items() if node is not None}


def names(group: str, count: int) -> set[str]:
    return {pod.metadata.name for pod in members(group, count)}


def groups_of(parent: str, *children: str) -> list[ApiObject]:
    """Make gangs of two below a group; a node of 4 CPUs holds one of their pods."""
    return [each for name in children for each in (below(parent, gang(name, 2)), *members(name, 2, cpu="3"))]


def test_enough_groups_of_a_gang_are_bound_and_the_others_wait() -> None:
    simulation = simulate(*nodes(5), tree("root", 2), *groups_of("root", "a", "b", "c"))
    assert bound(simulation) == names("a", 2) | names("b", 2)
    assert condition(simulation, "a") == condition(simulation, "b") == ("True", "Scheduled", "")
    assert condition(simulation, "c")[:2] == ("False", "Unschedulable")


def test_left_group_of_a_scheduled_tree_follows_when_there_is_room() -> None:
    simulation = simulate(*nodes(5), tree("root", 2), *groups_of("root", "a", "b", "c"))
    simulation.create(nodes(6)[5])
    simulation.run(30)
    assert bound(simulation) == names("a", 2) | names("b", 2) | names("c", 2)
    assert condition(simulation, "c") == ("True", "Scheduled", "")


def test_tree_whose_minimum_does_not_fit_gives_all_its_room_back() -> None:
    simulation = simulate(*nodes(5), tree("root", 3), *groups_of("root", "a", "b", "c"))
    simulation.create(make_pod("other", cpu="4"))
    simulation.run(1)
    assert bound(simulation) == {"other"}


def test_groups_that_fit_fail_in_the_words_of_the_group_above_them() -> None:
    simulation = simulate(*nodes(3), tree("root", 2), *groups_of("root", "a", "b"))
    pods = "pod group is unschedulable, minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    groups = "pod group is unschedulable, minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    of_tree = f"0/1 placements are available, first placement status: {groups}, {NO_VICTIMS}"
    of_group = f"0/1 placements are available, first placement status: {pods}, {NO_VICTIMS}"
    assert condition(simulation, "a") == ("False", "Unschedulable", of_tree)
    assert condition(simulation, "b") == ("False", "Unschedulable", of_group)
    found = messages(simulation)
    assert found["a-0"] == found["a-1"] == of_tree and found["b-0"] == of_group
    assert found["b-1"].startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_groups_that_the_walk_does_not_reach_fail_in_the_words_of_the_group_above_them() -> None:
    large = [below("root", gang("a", 2)), *members("a", 2, cpu="9")]
    simulation = simulate(*nodes(4), tree("root", 2), *large, *groups_of("root", "b"))
    text = "pod group is unschedulable, minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
    status = f"0/1 placements are available, first placement status: {text}, {NO_VICTIMS}"
    assert condition(simulation, "b") == ("False", "Unschedulable", status)
    assert messages(simulation)["b-0"] == status


def test_minimum_of_each_group_counts_in_a_tree_of_three_levels() -> None:
    """The tree of upstream's integration test: the root and two of its three groups are gangs of two."""
    small = dict.fromkeys(("pg1", "pg2", "pg4", "pg5", "pg6"), "1") | dict.fromkeys(("pg3", "pg7"), "100")
    parents = {"pg1": "sub1", "pg2": "sub1", "pg3": "sub1", "pg4": "sub2", "pg5": "sub2", "pg6": "sub3", "pg7": "sub3"}
    leaves = [below(parent, basic(name) if name == "pg4" else gang(name, 3)) for name, parent in parents.items()]
    pods = [pod for name, cpu in small.items() for pod in members(name, 3, cpu=cpu)]
    inner = [below("root", tree("sub1", 2)), below("root", tree("sub2")), below("root", tree("sub3", 2))]
    simulation = simulate(make_node("n", cpu=20), tree("root", 2), *inner, *leaves, *pods)
    assert bound(simulation) == set.union(*(names(name, 3) for name in ("pg1", "pg2", "pg4", "pg5")))
    statuses = {name: condition(simulation, name)[0] for name in parents}
    assert statuses == dict.fromkeys(parents, "True") | dict.fromkeys(("pg3", "pg6", "pg7"), "False")


def test_tree_without_a_minimum_is_scheduled_with_one_group() -> None:
    simulation = simulate(*nodes(2), tree("root"), *groups_of("root", "a", "b"))
    assert bound(simulation) == names("a", 2)


def test_pods_wait_until_enough_groups_of_the_tree_can_be_whole() -> None:
    simulation = simulate(*nodes(4), tree("root", 2), *groups_of("root", "a"))
    assert bound(simulation) == set()
    assert not simulation.decisions
    for created in groups_of("root", "b"):
        simulation.create(created)
    simulation.run(20)
    assert bound(simulation) == names("a", 2) | names("b", 2)


@pytest.mark.parametrize("missing", ["root", "left", "a"])
def test_pods_wait_until_all_groups_above_them_exist(missing: str) -> None:
    objects = [tree("root"), below("root", tree("left")), *groups_of("left", "a"), *nodes(2)]
    late = next(each for each in objects if each.metadata.name == missing)
    simulation = simulate(*(each for each in objects if each is not late))
    assert bound(simulation) == set() and not simulation.decisions
    simulation.create(late)
    simulation.run(5)
    assert bound(simulation) == names("a", 2)


def test_pods_of_the_tree_of_a_deleted_group_wait() -> None:
    simulation = simulate(*nodes(1), tree("root"), *groups_of("root", "a"))
    simulation.delete(type(tree("root")), "root")
    simulation.create(nodes(2)[1])
    simulation.run(30)
    assert bound(simulation) == set()
    simulation.create(tree("root"))
    simulation.run(5)
    assert bound(simulation) == names("a", 2)


def test_all_pods_of_a_tree_have_the_priority_of_its_root() -> None:
    objects = [tree("root", priority=5), below("root", gang("a", 1)), *members("a", 1, priority=3)]
    simulation = simulate(*nodes(1), *objects, seconds=0.5)
    text = "all pods in a single pod group should have the same priority as the pod group's priority, got 3 and 5"
    assert condition(simulation, "a") == ("False", "SchedulerError", text)


def test_parent_is_ignored_with_the_gate_off() -> None:
    simulation = Simulation([*nodes(2), *groups_of("none", "a")], config=GROUPS)
    simulation.run(5)
    assert bound(simulation) == names("a", 2)


# -- placements ------------------------------------------------------------------------------------------------------


def blocks(**racks: int) -> list[Node]:
    """Make nodes of 4 CPUs in racks, which are in the block of their first letter."""
    return [
        make_node(f"{rack}-{number}", cpu=4, labels={"rack": rack, "block": rack[0]})
        for rack, count in racks.items()
        for number in range(count)
    ]


def domains(simulation: Simulation, group: str) -> set[str]:
    """Return the racks in which the pods of a group are bound."""
    return {str(places(simulation)[pod]).rpartition("-")[0] for pod in bound(simulation) if pod.startswith(group)}


def test_groups_of_a_tree_share_a_block_and_each_has_a_rack_of_it() -> None:
    racks = blocks(x1=2, x2=1, y1=1, y2=2, y3=2)
    leaves = [in_one("rack", below("root", gang(name, 2))) for name in ("a", "b")]
    pods = [*members("a", 2, cpu="3"), *members("b", 2, cpu="3")]
    simulation = simulate(*racks, in_one("block", tree("root", 2)), *leaves, *pods)
    assert {frozenset(domains(simulation, "a")), frozenset(domains(simulation, "b"))} == {
        frozenset({"y2"}),
        frozenset({"y3"}),
    }


def test_tree_that_fits_in_no_block_says_so_of_each_group() -> None:
    racks = blocks(x1=2, x2=1, y1=2, y2=1)
    leaves = [in_one("rack", below("root", gang(name, 2))) for name in ("a", "b")]
    pods = [*members("a", 2, cpu="3"), *members("b", 2, cpu="3")]
    simulation = simulate(*racks, in_one("block", tree("root", 2)), *leaves, *pods)
    assert bound(simulation) == set()
    groups = "pod group is unschedulable, minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    status = f"0/2 placements are available, first placement status: {groups}, {NO_VICTIMS}"
    assert condition(simulation, "a") == ("False", "Unschedulable", status)
    assert condition(simulation, "b")[2].startswith("0/2 placements are available, first placement status: pod group")


def test_domain_that_crosses_the_blocks_is_cut() -> None:
    crossing = [make_node(f"{block}", cpu=4, labels={"rack": "r", "block": block}) for block in "xy"]
    leaf = in_one("rack", below("root", gang("a", 2)))
    simulation = simulate(*crossing, in_one("block", tree("root")), leaf, *members("a", 2, cpu="3"))
    assert bound(simulation) == set()
    simulation.create(make_node("x2", cpu=4, labels={"rack": "r", "block": "x"}))
    simulation.run(30)
    assert {places(simulation)[pod] for pod in bound(simulation)} == {"x", "x2"}


def test_scheduled_pods_pin_the_block_of_their_tree() -> None:
    racks = blocks(x1=2, y1=8)
    simulation = simulate(*racks[:2], in_one("block", tree("root")), *groups_of("root", "a"))
    assert domains(simulation, "a") == {"x1"}
    for created in (*racks[2:], *groups_of("root", "b")):
        simulation.create(created)
    simulation.run(30)
    assert bound(simulation) == names("a", 2)
    simulation.create(blocks(x1=3)[2])
    simulation.create(blocks(x1=4)[3])
    simulation.run(30)
    assert domains(simulation, "b") == {"x1"}


# -- errors ----------------------------------------------------------------------------------------------------------


class RejectsSome(Plugin):
    """Fails for the pod `e-0`; rejects `r-1` in Reserve whenever it is reserved for the second time."""

    name = "RejectsSome"
    reserved = 0

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return Status(Code.ERROR, ("broken",)) if pod.name == "e-0" else None

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        self.reserved += pod.name == "r-1"
        return unschedulable("not again") if pod.name == "r-1" and self.reserved % 2 == 0 else None


REJECTING = parse("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: RejectsSome}]}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true, TopologyAwareWorkloadScheduling: true, CompositePodGroup: true}
""")


def rejecting(*objects: ApiObject) -> Simulation:
    simulation = Simulation([*nodes(4), *objects], config=REJECTING, plugins=[RejectsSome])
    simulation.run(0.5)
    return simulation


def test_error_of_one_group_is_the_error_of_the_tree() -> None:
    simulation = rejecting(tree("root"), *groups_of("root", "d", "e", "f"))
    assert bound(simulation) == set()
    found = messages(simulation)
    child = f"failed to schedule other pod from a pod group: {found['e-0']}"
    assert condition(simulation, "e") == ("False", "SchedulerError", child)
    text = f"composite pod group evaluation failed due to child error: {child}"
    assert condition(simulation, "d") == condition(simulation, "f") == ("False", "SchedulerError", text)
    assert found["d-0"] == found["f-1"] == text and found["e-1"] == child


def test_tree_whose_pods_cannot_be_reserved_again_fails() -> None:
    racks = [make_node(f"{rack}-{number}", cpu=4, labels={"rack": rack}) for rack in "abc" for number in range(2)]
    group, *pods = groups_of("root", "r")
    assert isinstance(group, PodGroup)
    simulation = rejecting(*racks, tree("root"), in_one("rack", group), *pods)
    assert bound(simulation) == set()
    text = "failed to assume the subtree: 0/1 nodes are available: 1 not again."
    assert condition(simulation, "r") == ("False", "SchedulerError", text)


def test_tree_waits_for_the_events_of_each_plugin_that_rejected_a_group_of_it() -> None:
    leaves = [below("root", gang("a", 1)), in_one("rack", below("root", gang("b", 1)))]
    simulation = simulate(*nodes(1), tree("root", 2), *leaves, *members("a", 1), *members("b", 1))
    attempts = len(simulation.decisions)
    simulation.run(60)
    assert bound(simulation) == set() and len(simulation.decisions) == attempts
    simulation.create(blocks(x1=1)[0])
    simulation.run(20)
    assert bound(simulation) == {"a-0", "b-0"}


def test_late_group_below_a_scheduled_tree_waits_for_the_others_that_it_needs() -> None:
    """The stages of upstream's integration test of groups that are added to a scheduled tree."""
    simulation = simulate(*nodes(1, 20), tree("root"), below("root", basic("a")), *members("a", 2))
    assert bound(simulation) == names("a", 2)
    for created in (below("root", basic("b")), *members("b", 2)):
        simulation.create(created)
    simulation.run(1)
    assert bound(simulation) == names("a", 2) | names("b", 2)
    for created in (below("root", tree("sub", 2)), below("sub", basic("c")), *members("c", 2)):
        simulation.create(created)
    simulation.run(20)
    attempts = len(simulation.decisions)
    simulation.run(60)
    assert bound(simulation) == names("a", 2) | names("b", 2) and len(simulation.decisions) == attempts
    assert condition(simulation, "c")[:2] == ("False", "Unschedulable")
    for created in (below("sub", basic("d")), *members("d", 2)):
        simulation.create(created)
    simulation.run(20)
    assert bound(simulation) == set.union(*(names(name, 2) for name in "abcd"))
    assert condition(simulation, "c") == condition(simulation, "d") == ("True", "Scheduled", "")
