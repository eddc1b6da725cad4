"""A PodGroup with a topology constraint gets all its nodes in one domain, the best one where it fits."""

from __future__ import annotations

from kframework import Simulation
from kframework.objects import ApiObject, Node
from kframework.testing import make_node, make_pod
from tests.core.groups.test_cycle import NO_VICTIMS, condition, messages, places
from tests.support.groups import PLACEMENTS, basic, gang, in_one, members


def rack(name: str, count: int, cpu: int = 4) -> list[Node]:
    return [make_node(f"{name}-{number}", cpu=cpu, labels={"rack": name}) for number in range(count)]


def simulate(*objects: ApiObject, seed: int = 0) -> Simulation:
    simulation = Simulation(list(objects), config=PLACEMENTS, seed=seed)
    simulation.run(5)
    return simulation


def racks(simulation: Simulation) -> set[str]:
    """Return the racks of the pods that have nodes."""
    return {node.rpartition("-")[0] for node in places(simulation).values() if node is not None}


def test_group_is_bound_in_the_only_domain_where_it_fits() -> None:
    nodes = [*rack("a", 2), *rack("b", 3), *rack("c", 1, cpu=8)]
    simulation = simulate(*nodes, in_one("rack", gang("g", 3)), *members("g", 3, cpu="3"))
    assert sorted(filter(None, places(simulation).values())) == ["b-0", "b-1", "b-2"]
    assert condition(simulation, "g") == ("True", "Scheduled", "")


def test_group_that_fits_nowhere_says_so_of_the_first_domain_by_name() -> None:
    nodes = [*rack("b", 1, cpu=9), *rack("a", 2), *rack("c", 2)]
    simulation = simulate(*nodes, in_one("rack", gang("g", 4)), *members("g", 4, cpu="3"))
    text = "pod group is unschedulable, minCount (4) cannot be satisfied: 2 scheduled, 1 remaining"
    status = f"0/3 placements are available, first placement status: {text}, {NO_VICTIMS}"
    assert condition(simulation, "g") == ("False", "Unschedulable", status)
    found = messages(simulation)
    assert found["g-0"] == found["g-3"] == status
    assert found["g-2"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_rejected_group_gives_the_room_of_all_domains_back() -> None:
    nodes = [*rack("a", 2), *rack("b", 2)]
    simulation = simulate(*nodes, in_one("rack", gang("g", 3)), *members("g", 3, cpu="3"))
    for number in range(4):
        simulation.create(make_pod(f"other-{number}", cpu="4"))
    simulation.run(1)
    assert sum(node is not None for node in places(simulation).values()) == 4


def test_nodes_without_the_label_are_in_no_domain() -> None:
    simulation = simulate(make_node("bare", cpu=64), in_one("rack", gang("g", 1)), *members("g", 1))
    assert condition(simulation, "g") == ("False", "Unschedulable", f"no feasible placements found, {NO_VICTIMS}")
    simulation.create(rack("a", 1)[0])
    simulation.run(30)
    assert racks(simulation) == {"a"}


def test_domain_with_more_members_is_better() -> None:
    simulation = simulate(*rack("a", 2), *rack("b", 3), in_one("rack", basic("g")), *members("g", 3, cpu="3"))
    assert racks(simulation) == {"b"}
    assert all(places(simulation).values())


def test_domain_that_is_fuller_is_better() -> None:
    simulation = simulate(*rack("a", 3), *rack("b", 2), *rack("c", 4), in_one("rack", gang("g", 2)), *members("g", 2))
    assert racks(simulation) == {"b"}


def test_equal_domains_are_drawn_by_the_seed() -> None:
    nodes = [*rack("a", 2), *rack("b", 2), *rack("c", 2)]
    group = [in_one("rack", gang("g", 2)), *members("g", 2, cpu="3")]
    drawn = [racks(simulate(*nodes, *group, seed=seed)) for seed in range(8)]
    assert all(len(found) == 1 for found in drawn)
    assert len(set.union(*drawn)) > 1
    assert drawn == [racks(simulate(*nodes, *group, seed=seed)) for seed in range(8)]


def test_late_member_joins_the_domain_of_the_others() -> None:
    simulation = simulate(*rack("a", 2), *rack("b", 2), in_one("rack", gang("g", 1)), *members("g", 1, cpu="3"))
    (first,) = racks(simulation)
    simulation.create(members("g", 2, cpu="3")[1])
    simulation.create(members("g", 3, cpu="3")[2])
    simulation.run(5)
    assert racks(simulation) == {first}
    assert sum(node is not None for node in places(simulation).values()) == 2


def test_group_without_a_constraint_has_one_placement() -> None:
    simulation = simulate(*rack("a", 2), gang("g", 3), *members("g", 3, cpu="3"))
    text = "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    status = f"0/1 placements are available, first placement status: {text}, {NO_VICTIMS}"
    assert condition(simulation, "g") == ("False", "Unschedulable", status)


def test_rejected_group_waits_for_events_of_the_plugins_of_every_domain() -> None:
    closed = [make_node(f"b-{number}", cpu=4, labels={"rack": "b"}, unschedulable=True) for number in range(2)]
    simulation = simulate(*rack("a", 1), *closed, in_one("rack", gang("g", 2)), *members("g", 2, cpu="3"))
    assert not racks(simulation)
    for node in rack("b", 2):
        simulation.patch(Node, node.metadata.name, {"spec": {"unschedulable": False}})
    simulation.run(30)
    assert racks(simulation) == {"b"}
