"""A PodGroup that does not fit preempts units of lower priority in the whole cluster, and waits on the freed nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kframework import Simulation
from kframework.core.groups.walk import FoundNode
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, LabelSelector, Pod, PodGroup
from kframework.state.nodes import NodeInfo
from kframework.testing import make_pod
from tests.core.preemption.test_evaluator.stopped import budget
from tests.support.groups import GROUPS, basic, gang, members, nodes, on_nodes, simulate, whole

UNFIT = "pod group is unschedulable, minCount ({}) cannot be satisfied: {} scheduled, {} remaining"


def low(count: int, priority: int = 0, cpu: str = "3") -> list[Pod]:
    """Make pods of low priority, one on each node."""
    return on_nodes([make_pod(f"low-{number}", cpu=cpu, priority=priority) for number in range(count)])


def high(minimum: int, count: int, cpu: str = "3") -> list[ApiObject]:
    return [gang("high", minimum, 10), *members("high", count, cpu=cpu, priority=10)]


def victims(simulation: Simulation) -> list[str]:
    return [victim.removeprefix("default/") for each in simulation.decisions for victim in each.victims]


def placed(simulation: Simulation, group: str = "high") -> list[str]:
    return sorted(each.node for each in simulation.outcomes if each.pod.startswith(f"default/{group}-") and each.node)


def nodes_of(simulation: Simulation) -> dict[str, str | None]:
    return {each.pod: each.node for each in simulation.outcomes}


def condition(simulation: Simulation, name: str = "high") -> str:
    (group,) = (each for each in simulation.objects(PodGroup) if each.metadata.name == name)
    (found,) = group.status.conditions
    return found.message


def test_gang_preempts_for_all_its_pods_and_follows_the_victims() -> None:
    simulation = simulate([*nodes(2), *low(2), *high(2, 2)])
    assert sorted(victims(simulation)) == ["low-0", "low-1"]
    text = "pod group preemption: found a placement for podgroup, preempting 2 victims"
    assert condition(simulation) == f"{UNFIT.format(2, 0, 1)}, {text}"
    simulation.run(60)
    assert placed(simulation) == ["n0", "n1"]


def test_pods_on_other_nodes_stay() -> None:
    simulation = simulate([*nodes(4), *low(4), *high(2, 2)], 60)
    assert {f"low-{name[1:]}" for name in placed(simulation)} == set(victims(simulation))
    assert len(victims(simulation)) == 2


def test_gang_preempts_for_all_pods_that_can_be_placed_not_only_for_its_minimum() -> None:
    simulation = simulate([*nodes(3), *low(3), *high(2, 4)], 60)
    assert len(victims(simulation)) == 3
    assert len(placed(simulation)) == 3


def test_group_without_a_minimum_preempts_too() -> None:
    group = basic("high")
    objects = [replace(group, spec=replace(group.spec, priority=10)), *members("high", 2, cpu="3", priority=10)]
    simulation = simulate([*nodes(2), *low(2), *objects], 60)
    assert placed(simulation) == ["n0", "n1"]


def test_left_members_of_a_scheduled_gang_preempt() -> None:
    simulation = simulate([*nodes(2), *low(1), *high(1, 2)], 60)
    assert victims(simulation) == ["low-0"]
    assert placed(simulation) == ["n0", "n1"]


def test_several_pods_of_one_node_make_room_for_one_member() -> None:
    pods = [make_pod(f"low-{number}", cpu="1", node_name="n0") for number in range(4)]
    simulation = simulate([*nodes(1), *pods, *high(1, 1)], 60)
    assert len(victims(simulation)) == 3


def test_least_important_pods_leave() -> None:
    pods = on_nodes([make_pod(f"low-{priority}", cpu="3", priority=priority) for priority in (5, 1, 3)])
    simulation = simulate([*nodes(3), *pods, *high(1, 1)])
    # The walk has chosen the node; there every pod is the only one.
    assert len(victims(simulation)) == 1
    pods = [make_pod(f"low-{priority}", cpu="1", priority=priority, node_name="n0") for priority in (5, 1, 3)]
    simulation = simulate([*nodes(1, 3), *pods, *high(1, 1, cpu="2")])
    assert victims(simulation) == ["low-3", "low-1"]


def test_pod_of_a_budget_is_spared_if_another_one_can_leave() -> None:
    guarded, other = (make_pod(name, cpu="2", node_name="n0") for name in ("guarded", "other"))
    guarded = replace(guarded, metadata=replace(guarded.metadata, labels={"app": "web"}))
    objects = [guarded, replace(other, spec=replace(other.spec, priority=5))]
    guard = budget("web", LabelSelector(match_labels={"app": "web"}))
    assert victims(simulate([*nodes(1), *objects, *high(1, 1, cpu="2")])) == ["guarded"]
    assert victims(simulate([*nodes(1), *objects, guard, *high(1, 1, cpu="2")])) == ["other"]


@pytest.mark.parametrize(("disrupt", "expected"), [(whole, 2), (lambda group: group, 1)])
def test_group_leaves_as_its_disruption_mode_says(disrupt: Callable[[PodGroup], PodGroup], expected: int) -> None:
    running = on_nodes(members("low", 2, cpu="3"))
    simulation = simulate([*nodes(2), disrupt(gang("low", 2)), *running, *high(1, 1)])
    assert len(victims(simulation)) == expected


@pytest.mark.parametrize("disrupt", [whole, lambda group: group])
def test_disruption_mode_of_the_preemptor_does_not_matter(disrupt: Callable[[PodGroup], PodGroup]) -> None:
    group, *pods = high(1, 1)
    assert isinstance(group, PodGroup)
    assert victims(simulate([*nodes(2), *low(2), disrupt(group), *pods])) in (["low-0"], ["low-1"])


def test_whole_group_is_spared_before_a_pod_of_its_priority() -> None:
    running = on_nodes(members("low", 2, cpu="2"))
    pods = [make_pod(f"lone-{number}", cpu="2", node_name=f"n{number}") for number in range(2)]
    simulation = simulate([*nodes(2), whole(gang("low", 2)), *running, *pods, *high(2, 2, cpu="2")])
    assert sorted(victims(simulation)) == ["lone-0", "lone-1"]


@pytest.mark.parametrize(
    ("running", "group", "text"),
    [
        pytest.param(low(2, 10), high(2, 2), "No preemption victims found for incoming preemptor", id="no victims"),
        pytest.param(low(2), high(3, 3), UNFIT.format(3, 2, 0), id="not enough"),
        pytest.param(
            low(2),
            [
                gang("high", 2, 10),
                *(
                    replace(pod, spec=replace(pod.spec, preemption_policy="Never"))
                    for pod in members("high", 2, cpu="3", priority=10)
                ),
            ],
            "not eligible due to preemptionPolicy=Never.",
            id="never",
        ),
    ],
)
def test_group_that_may_not_or_cannot_preempt_says_why(running: list[Pod], group: list[ApiObject], text: str) -> None:
    simulation = simulate([*nodes(2), *running, *group])
    assert victims(simulation) == []
    assert condition(simulation).endswith(f", pod group preemption: {text}")


def test_members_wait_nominated_and_are_gated_until_the_victims_leave() -> None:
    simulation = simulate([*nodes(2), *low(2), *high(2, 2)], 1)
    assert {each.nominated for each in simulation.decisions} == {"n0", "n1"}
    pods = {pod.metadata.name: pod for pod in simulation.objects(Pod)}
    for pod in (pods["low-0"], pods["low-1"]):
        assert pod.metadata.deletion_timestamp is not None
        (disrupted,) = (each for each in pod.status.conditions if each.type == "DisruptionTarget")
        assert disrupted.message == "default-scheduler: preempting to accommodate a higher priority podgroup"
    assert {pods[f"high-{number}"].status.nominated_node_name for number in range(2)} == {"n0", "n1"}


def test_members_are_gated_while_the_api_evicts_their_victims() -> None:
    simulation = Simulation([*nodes(2), *low(2), *high(2, 2)], config=GROUPS)
    simulation.cluster.faults.append(lambda method, *_: Fault(delay=5.0) if method == "delete" else None)
    simulation.run(1)
    simulation.create(nodes(3)[2])  # it would fit now, if it were tried
    simulation.run(3)
    gated = {queued.gate_message for queued in simulation.scheduler.engine.queue.pods_in("gated")}
    assert gated == {"waiting for the preemption for this pod group to be finished"}


def test_freed_room_is_kept_from_late_pods_of_lower_priority() -> None:
    simulation = simulate([*nodes(2), *low(2), *high(2, 2)], 1)
    simulation.create(make_pod("late", cpu="2", priority=5))
    simulation.run(60)
    assert placed(simulation) == ["n0", "n1"]
    assert {each.pod: each.node for each in simulation.outcomes}["default/late"] is None


def test_group_that_is_tried_while_victims_leave_keeps_its_nominations() -> None:
    simulation = simulate([*nodes(2), *low(2), *high(2, 2)], 3)
    attempts = len(simulation.decisions)
    # A new node that is too small for the group tries it again.
    simulation.create(nodes(3, 3)[2])
    simulation.run(5)
    again = simulation.decisions[attempts:]
    text = "pod group preemption: ongoing preemption on nominated nodes"
    placed_one, unfit = (each.message for each in again)
    assert placed_one == f"{UNFIT.format(2, 1, 0)}, {text}"
    assert unfit == "0/3 nodes are available: 3 Insufficient cpu."
    assert {each.nominated for each in again} == {None}
    assert victims(simulation).count("low-0") == 1
    simulation.run(60)
    assert len(placed(simulation)) == 2


def test_pod_that_is_left_while_its_victim_leaves_waits_for_that_one() -> None:
    *fast, slow = low(3)
    slow = replace(slow, spec=replace(slow.spec, termination_grace_period_seconds=200))
    simulation = simulate([*nodes(3), *fast, slow, *high(2, 3)], 60)
    left = next(pod for pod in ("high-0", "high-1", "high-2") if nodes_of(simulation)[f"default/{pod}"] is None)
    attempts = [each for each in simulation.decisions if each.pod == f"default/{left}"]
    assert placed(simulation) == ["n0", "n1"]
    assert [(each.nominated, len(each.victims)) for each in attempts[1:]] == [(None, 0)] * (len(attempts) - 1)
    simulation.create(make_pod("late", cpu="2", priority=5))
    simulation.run(200)
    assert placed(simulation) == ["n0", "n1", "n2"]


def test_placed_pods_are_looked_at_only_for_victims_on_their_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []

    def node(found: FoundNode) -> NodeInfo:
        looks.append(None)
        return found._node

    monkeypatch.setattr(FoundNode, "node", property(node))
    numbers = []
    for count in (10, 20):
        looks.clear()
        assert len(victims(simulate([*nodes(count), *low(count), *high(count, count)]))) == count
        numbers.append(len(looks))
    assert numbers[1] <= 2 * numbers[0]
