"""Groups with a topology constraint, as in kube-scheduler's tas_test: all pods of a group run in one rack or zone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kframework import NodeTable, Plugin, Status, hookimpl, unschedulable
from kframework.config.load import parse
from kframework.framework.answers import GroupPlacement
from kframework.objects import GenericPodGroup, Node, Pod, PodGroup
from tests.conformance.groups.story import Story, group, pods
from tests.conformance.groups.story import node as make_node
from tests.support.groups import GROUPS, PLACEMENTS


def nodes(*racks: tuple[int, int]) -> list[Node]:
    """Make racks, each with this many nodes in this zone: the second node of the first rack is `1-2`."""
    return [
        make_node(f"{rack}-{number}", 2, rack=f"rack-{rack}", zone=f"zone-{zone}")
        for rack, (count, zone) in enumerate(racks, 1)
        for number in range(1, count + 1)
    ]


def gang(name: str, minimum: int, key: str = "rack") -> PodGroup:
    return group(name, minimum, 100, rack=key)


def basic(name: str, key: str = "rack") -> PodGroup:
    return group(name, 0, 100, rack=key)


def members(names: str, of: str, cpu: int = 1) -> list[Pod]:
    return pods(names, of, cpu, 100)


def existing(**nodes: str) -> list[Pod]:
    """Make pods that run: the node of each, with the CPUs that it takes, as in `4-1:2`."""
    described = {name: where.split(":") for name, where in nodes.items()}
    return [pods(name, cpu=int(cpu), priority=100, on=where)[0] for name, (where, cpu) in described.items()]


def story(*objects: Node | Pod | PodGroup) -> Story:
    return Story(*objects, config=PLACEMENTS)


def racks_of(told: Story, names: str) -> set[str]:
    return {name.partition("-")[0] for name in told.nodes_of(names)}


THREE = members("p1 p2 p3", "pg1")


@pytest.mark.parametrize(
    ("racks", "running", "expected"),
    [
        pytest.param([(3, 1), (2, 1), (1, 2)], {"e1": "2-1:2"}, "1", id="the only rack with room"),
        pytest.param([(2, 1), (3, 2), (1, 2)], {}, "1", id="the fuller rack"),
        pytest.param(
            [(2, 1), (3, 2), (3, 2), (1, 2)], {"e1": "2-1:2", "e2": "3-3:1"}, "2", id="the fuller one with other pods"
        ),
        pytest.param([(2, 1), (2, 1)], {}, "", id="any of equal racks"),
        pytest.param([(3, 1), (2, 1), (1, 2)], {}, "2", id="the smaller rack"),
    ],
)
@pytest.mark.parametrize("minimum", [2, 3])
def test_gang_runs_in_one_rack(
    racks: list[tuple[int, int]], running: dict[str, str], expected: str, minimum: int
) -> None:
    told = story(*nodes(*racks), *existing(**running), gang("pg1", minimum), *THREE)
    found = racks_of(told, "p1 p2 p3")
    assert found == {expected} if expected else len(found) == 1


def test_gang_waits_if_no_rack_has_room_for_it() -> None:
    told = story(*nodes((2, 1), (1, 1), (1, 2)), gang("pg1", 3), *members("p1 p2 p3", "pg1", 2))
    told.expect(unschedulable="p1 p2 p3")


def test_topology_of_a_group_is_ignored_with_the_gate_off() -> None:
    told = Story(*nodes((1, 1), (1, 1)), gang("pg1", 3), *THREE, config=GROUPS)
    told.expect(scheduled="p1 p2 p3")
    assert racks_of(told, "p1 p2 p3") == {"1", "2"}


def test_gang_waits_for_the_room_of_other_pods() -> None:
    told = story(*nodes((3, 1)), *existing(e1="1-1:2", e2="1-3:2"), gang("pg1", 3), *THREE)
    told.expect(scheduled="e1 e2", unschedulable="p1 p2 p3")
    told.delete(Pod, "e1")
    told.expect(scheduled="e2 p1 p2 p3")


def test_gang_does_not_preempt_pods_of_its_priority() -> None:
    told = story(*nodes((2, 1)), *existing(e1="1-2:2"), gang("pg1", 3), *THREE)
    told.expect(scheduled="e1", unschedulable="p1 p2 p3")


@pytest.mark.parametrize(
    ("racks", "first", "second", "expected"),
    [
        pytest.param(
            [(3, 1), (2, 1)],
            [gang("pg1", 3), *members("p1 p2 p3", "pg1", 2)],
            [gang("pg2", 2), *members("p4 p5", "pg2")],
            {"p1 p2 p3": "1", "p4 p5": "2"},
            id="each in its own rack",
        ),
        pytest.param(
            [(3, 1), (1, 1)],
            [gang("pg1", 2), *members("p1", "pg1", 2), *members("p2", "pg1")],
            [gang("pg2", 3), *members("p3 p4 p5", "pg2")],
            {"p1 p2": "1", "p3 p4 p5": "1"},
            id="both in one rack",
        ),
        pytest.param(
            [(2, 1), (1, 1), (3, 2)],
            [gang("pg1", 3), *members("p1 p2 p3", "pg1", 2)],
            [gang("pg2", 3, "zone"), *members("p4 p5 p6", "pg2", 2)],
            {"p1 p2 p3": "3", "p4 p5 p6": "12"},
            id="with different keys",
        ),
        pytest.param(
            [(3, 1), (1, 1)],
            [basic("pg1"), *members("p1 p2", "pg1")],
            [basic("pg2"), *members("p3 p4", "pg2")],
            {"p1 p2": "2", "p3 p4": "1"},
            id="groups without a minimum, each in its own rack",
        ),
        pytest.param(
            [(3, 1)],
            [basic("pg1"), *members("p1 p2", "pg1")],
            [basic("pg2"), *members("p3 p4 p5", "pg2")],
            {"p1 p2": "1", "p3 p4 p5": "1"},
            id="groups without a minimum in the only rack",
        ),
        pytest.param(
            [(1, 1), (2, 2), (2, 2)],
            [basic("pg1"), *members("p1 p2", "pg1")],
            [basic("pg2", "zone"), *members("p3 p4 p5", "pg2", 2)],
            {"p1 p2": "1", "p3 p4 p5": "23"},
            id="groups without a minimum, with different keys",
        ),
    ],
)
def test_two_groups_one_after_the_other(
    racks: list[tuple[int, int]],
    first: list[Pod | PodGroup],
    second: list[Pod | PodGroup],
    expected: dict[str, str],
) -> None:
    told = story(*nodes(*racks), *first)
    told.create(*second)
    told.expect(scheduled=" ".join(expected))
    for names, racks_expected in expected.items():
        assert racks_of(told, names) == set(racks_expected)


def test_only_one_of_two_gangs_fits() -> None:
    told = story(*nodes((2, 1)), gang("pg1", 3), *THREE)
    told.create(gang("pg2", 2), *members("p4 p5", "pg2"))
    told.expect(scheduled="p1 p2 p3", unschedulable="p4 p5")


def test_late_pods_of_a_gang_stay_in_its_rack() -> None:
    told = story(*nodes((3, 1), (2, 1), (1, 2)), gang("pg1", 3), *THREE)
    told.create(*members("p4", "pg1"))
    assert racks_of(told, "p1 p2 p3 p4") == {"2"}
    told.create(*members("p5", "pg1"))
    told.expect(scheduled="p1 p2 p3 p4", unschedulable="p5")


# -- groups without a minimum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("racks", "running", "expected"),
    [
        pytest.param([(2, 1)], {}, "1", id="the only rack"),
        pytest.param([(2, 1), (2, 1), (2, 2)], {}, "", id="any of equal racks"),
        pytest.param([(2, 1), (3, 2)], {}, "1", id="the fuller rack"),
        pytest.param(
            [(3, 1), (3, 2), (4, 2)],
            {"e1": "1-1:1", "e2": "2-2:1", "e3": "2-3:1"},
            "2",
            id="the fuller one with other pods",
        ),
    ],
)
def test_group_without_a_minimum_runs_in_one_rack(
    racks: list[tuple[int, int]], running: dict[str, str], expected: str
) -> None:
    told = story(*nodes(*racks), *existing(**running), basic("pg1"), *THREE)
    found = racks_of(told, "p1 p2 p3")
    assert found == {expected} if expected else len(found) == 1


def test_pod_without_room_in_the_rack_of_its_group_goes_to_no_other() -> None:
    told = story(*nodes((1, 1), (1, 1)), basic("pg1"), *THREE)
    told.expect(scheduled="p1 p2", unschedulable="p3")
    assert len(racks_of(told, "p1 p2")) == 1


def test_group_without_a_minimum_waits_if_no_pod_fits() -> None:
    told = story(*nodes((1, 1), (1, 1)), basic("pg1"), *members("p1 p2", "pg1", 3))
    told.expect(unschedulable="p1 p2")


def test_pod_that_fits_nowhere_does_not_hold_the_others_back() -> None:
    told = story(*nodes((1, 1), (1, 1)), basic("pg1"), *members("p1", "pg1", 3), *members("p2", "pg1"))
    told.expect(scheduled="p2", unschedulable="p1")


@pytest.mark.parametrize("racks", [[(4, 1), (1, 1)], [(2, 1), (1, 1)]])
def test_first_pod_decides_the_rack_even_if_the_others_do_not_fit_there(racks: list[tuple[int, int]]) -> None:
    running = existing(e1="1-1:2") if racks[0][0] == 4 else []
    told = story(*nodes(*racks), *running, basic("pg1"), *members("p1", "pg1"))
    told.create(*members("p2 p3", "pg1"))
    told.expect(scheduled=" ".join(["p1 p2", *(pod.metadata.name for pod in running)]), unschedulable="p3")
    assert racks_of(told, "p1 p2") == {"2"}


class InPool(Plugin):
    """Keeps groups on the nodes of pool a."""

    name = "InPool"

    @hookimpl
    def placement_generate(self, group: GenericPodGroup, nodes: NodeTable) -> Sequence[GroupPlacement] | Status:
        rows = [row for row in nodes.order.tolist() if nodes[row].labels.get("pool") == "a"]
        return [GroupPlacement("pool-a", np.array(rows))] if rows else unschedulable("no nodes in pool a")


IN_POOL = parse("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {placementGenerate: {enabled: [{name: InPool}]}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true, TopologyAwareWorkloadScheduling: true}
""")


def test_gang_keeps_to_the_placements_of_two_plugins() -> None:
    """As in tas_multi_placement_test: both racks have three nodes, but only those of rack 2 are all in the pool."""
    racks = {"1-1": "a", "1-2": "a", "1-3": "b", "2-1": "a", "2-2": "a", "2-3": "a"}
    machines = [make_node(name, 2, rack=name[0], pool=pool) for name, pool in racks.items()]
    told = Story(*machines, gang("pg", 3), *members("p1 p2 p3", "pg", 2), config=IN_POOL, plugins=[InPool])
    assert told.nodes_of("p1 p2 p3") == ["2-1", "2-2", "2-3"]


def test_pod_follows_its_group_when_there_is_room() -> None:
    told = story(*nodes((1, 1), (1, 1)), *existing(e1="1-1:1"), basic("pg1"), *members("p1", "pg1"))
    told.create(*members("p2", "pg1"))
    told.expect(scheduled="e1 p1", unschedulable="p2")
    told.delete(Pod, "e1")
    told.expect(scheduled="p1 p2")
    assert racks_of(told, "p1 p2") == {"1"}
