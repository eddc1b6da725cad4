"""A pod preempts another pod, or all pods of a PodGroup with the disruption mode `all`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework import Simulation
from kframework.objects import ApiObject, LabelSelector, Pod
from kframework.testing import make_pod
from tests.core.preemption.test_evaluator.stopped import budget
from tests.support.groups import gang, members, nodes, on_nodes, simulate, whole

URGENT = make_pod("urgent", cpu="3", priority=10)


def victims(simulation: Simulation) -> set[str]:
    return {victim.removeprefix("default/") for each in simulation.decisions for victim in each.victims}


def running(cpu: str = "3") -> list[Pod]:
    """Make two pods of the group `low`, on n0 and n1."""
    return on_nodes(members("low", 2, cpu=cpu))


def labelled(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, labels={"app": "web"}))


def test_whole_group_leaves_all_its_nodes() -> None:
    simulation = simulate([*nodes(2), whole(gang("low", 2)), *running(), URGENT], 60)
    assert victims(simulation) == {"low-0", "low-1"}
    assert {each.pod: each.node for each in simulation.outcomes}["default/urgent"] in ("n0", "n1")


def test_group_that_is_not_preempted_as_a_whole_loses_one_pod() -> None:
    assert len(victims(simulate([*nodes(2), gang("low", 2), *running(), URGENT]))) == 1


@pytest.mark.parametrize("disrupt", [whole, lambda group: group])
@pytest.mark.parametrize(("priority", "preempted"), [(9, True), (10, False)])
def test_priority_of_a_running_member_is_that_of_its_group(priority: int, preempted: bool, disrupt: object) -> None:
    assert callable(disrupt)
    simulation = simulate([*nodes(2), disrupt(gang("low", 2, priority)), *running(), URGENT])
    assert bool(victims(simulation)) is preempted


def test_all_pods_of_a_whole_group_count_as_victims() -> None:
    lone = make_pod("lone", cpu="3", node_name="n2")
    simulation = simulate([*nodes(3), whole(gang("low", 2)), *running(), lone, URGENT])
    assert victims(simulation) == {"lone"}


def test_whole_group_is_more_important_than_a_pod_of_its_priority() -> None:
    lone = make_pod("lone", cpu="2", node_name="n0", start_time="2020-01-01T00:00:00Z")
    pods = [*running("2"), lone, make_pod("full", cpu="4", node_name="n1", priority=10)]
    simulation = simulate([*nodes(2, 6), whole(gang("low", 2)), *pods, make_pod("urgent", cpu="4", priority=10)])
    assert victims(simulation) == {"lone"}


def test_budget_of_one_pod_guards_its_whole_group() -> None:
    guarded, other = running()
    objects: list[ApiObject] = [whole(gang("low", 2)), guarded, labelled(other)]
    simulation = simulate(
        [
            *nodes(4),
            *objects,
            *(make_pod(f"lone-{name}", cpu="3", node_name=name, priority=5) for name in ("n2", "n3")),
            budget("web", LabelSelector(match_labels={"app": "web"})),
            URGENT,
        ]
    )
    assert len(victims(simulation) & {"lone-n2", "lone-n3"}) == len(victims(simulation)) == 1
