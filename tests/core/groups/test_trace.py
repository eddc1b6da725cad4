"""The record of a group's cycle: its attempts, the placements that it tried, and what took how long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from kframework import Code, Simulation
from kframework.core.cycle.records import Binding, Decision, GroupDecision, GroupObserver, Observer
from kframework.core.runtime import timing
from kframework.objects import ApiObject
from kframework.testing import make_node, make_pod
from tests.support.groups import GROUPS, PLACEMENTS, gang, in_one, members, nodes, on_nodes


class Records(Observer, GroupObserver):
    """Keeps all records."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []
        self.groups: list[GroupDecision] = []

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def on_binding(self, binding: Binding) -> None:
        self.bindings.append(binding)

    def on_group_decision(self, decision: GroupDecision) -> None:
        self.groups.append(decision)


def records(objects: Sequence[ApiObject], seconds: float = 1.0, *, placements: bool = False) -> Records:
    kept = Records()
    with Simulation(objects, config=PLACEMENTS if placements else GROUPS, observers=[kept]) as simulation:
        simulation.run(seconds)
    return kept


def points(decision: GroupDecision) -> list[tuple[str, Code]]:
    return [(point, code) for point, _, code in decision.timings]


def test_attempts_and_bindings_of_a_group_share_the_number_of_the_first_one_and_the_sample_value() -> None:
    kept = records([*nodes(1), make_pod("alone", priority=9), gang("g", 2), *members("g", 2)])
    (group,) = kept.groups
    assert [(each.attempt, each.group_attempt) for each in kept.decisions] == [(1, 0), (2, 2), (3, 2)]
    assert group.attempt == 2
    assert {each.group_attempt for each in kept.bindings[1:]} == {2}
    values = [*(each.sample_value for each in kept.decisions[1:]), *(each.sample_value for each in kept.bindings[1:])]
    assert values == [group.sample_value] * 4


def test_rejected_group_names_the_pod_that_failed_first_by_itself() -> None:
    (group,) = records([*nodes(2), gang("g", 4), *members("g", 5, cpu="3")]).groups
    (trial,) = group.trials
    assert (trial.name, trial.code, trial.placed, trial.failed_first) == ("", Code.UNSCHEDULABLE, 2, "default/g-2")
    assert trial.reason == "0/2 nodes are available: 2 Insufficient cpu."
    assert (group.rejector, group.preempts) == ("GangScheduling", False)
    expected = [("placement", Code.UNSCHEDULABLE), ("pod_group_post_filter", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)]
    assert points(group) == expected


def test_group_tells_each_placement_that_it_tried_and_the_chosen_one() -> None:
    racks = [make_node(f"{rack}-{number}", cpu=2, labels={"rack": rack}) for rack in "ab" for number in range(2)]
    small = make_node("c-0", cpu=1, labels={"rack": "c"})
    group = in_one("rack", gang("g", 2))
    (decision,) = records([*racks, small, group, *members("g", 2)], placements=True).groups
    assert [(trial.name, trial.code, trial.placed) for trial in decision.trials] == [
        ("a", Code.SUCCESS, 2),
        ("b", Code.SUCCESS, 2),
        ("c", Code.UNSCHEDULABLE, 1),
    ]
    assert decision.placement in ("a", "b")
    assert points(decision) == [
        ("placement_generate", Code.SUCCESS),
        ("placement", Code.SUCCESS),
        ("placement", Code.SUCCESS),
        ("placement", Code.UNSCHEDULABLE),
        ("placement_score", Code.SUCCESS),
        ("placement_walk", Code.SUCCESS),
    ]
    assert decision.trials[2].failed_first == "default/g-1"
    assert decision.trials[2].reason == "0/1 nodes are available: 1 Insufficient cpu."


def test_group_that_waits_for_victims_says_so() -> None:
    low = on_nodes(make_pod(f"low-{number}", cpu=4, priority=0) for number in range(2))
    group, *_ = records([*nodes(2), *low, gang("g", 2, priority=9), *members("g", 2, cpu="3", priority=9)]).groups
    assert (group.result, group.preempts) == ("unschedulable", True)
    assert points(group)[-1] == ("pod_group_post_filter", Code.SUCCESS)


def test_search_for_victims_leaves_the_timings_of_the_pods_as_the_walk_measured_them() -> None:
    low = on_nodes(make_pod(f"low-{number}", cpu=4, priority=0) for number in range(2))
    kept = records([*nodes(2), *low, gang("g", 2, priority=9), *members("g", 2, cpu="3", priority=9)])
    assert [point for point, _, _ in kept.decisions[0].timings] == ["sign", "pre_filter", "filter"]


def test_phases_of_a_pod_leave_out_the_time_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "perf_counter_ns", count().__next__)
    kept = records([*nodes(1), gang("g", 3), *members("g", 3)])
    permits = [spent for each in kept.decisions for point, spent, _ in each.timings if point == "permit"]
    assert permits == [1, 1, 1]


def test_group_that_fails_before_the_walk_tried_no_placement() -> None:
    (group,) = records([*nodes(1), gang("g", 1, priority=3), *members("g", 1)]).groups
    assert (group.result, group.trials, group.timings) == ("error", (), ())
