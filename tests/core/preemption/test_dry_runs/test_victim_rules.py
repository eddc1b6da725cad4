"""A plugin's own rules for victims."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from kframework import Code, PodInfo, Status, VictimRules, unschedulable
from kframework.objects import PodCondition
from kframework.testing import make_node, make_pod
from tests.core.preemption.test_evaluator.stopped import Cycle, cycle, told, unfit

NODE = make_node("n", cpu=3)
RUNNING = [make_pod(name, cpu=1, node_name="n", priority=priority) for priority, name in enumerate("abc", 5)]


def stopped(cpu: int = 1, priority: int = 0) -> Cycle:
    return unfit([NODE], RUNNING, make_pod("x", cpu=cpu, priority=priority))


def victims(found: Cycle, rules: VictimRules) -> object:
    return told(found.evaluator.victims(found.search.state, found.pod, found.engine.cluster.nodes[0], rules=rules))


def nothing(removed: Collection[PodInfo]) -> Status | None:
    return None


def test_rules_allow_victims_of_higher_priority() -> None:
    rules = VictimRules(lambda pod, removed: pod.name != "a", nothing)
    assert victims(stopped(), rules) == (["default/b"], 0)
    assert told(stopped().victims("n"))[1] == ["No preemption victims found for incoming pod"]


def test_rules_may_spare_pods_of_lower_priority() -> None:
    rules = VictimRules(lambda pod, removed: pod.name == "c", nothing)
    assert victims(stopped(priority=9), rules) == (["default/c"], 0)


def test_rules_know_the_pods_that_are_removed_already() -> None:
    rules = VictimRules(lambda pod, removed: len(removed) < 2, nothing)
    assert victims(stopped(cpu=2), rules) == (["default/b", "default/a"], 0)
    assert victims(stopped(cpu=3), rules) == (Code.UNSCHEDULABLE, ["Insufficient cpu"])


def test_pods_stay_away_as_long_as_the_rules_reject_the_preemptor() -> None:
    def two_must_go(removed: Collection[PodInfo]) -> Status | None:
        return None if len(removed) >= 2 else unschedulable("too many")

    rules = VictimRules(lambda pod, removed: True, two_must_go)
    assert victims(stopped(), rules) == (["default/b", "default/a"], 0)


def test_rejection_that_no_eviction_cures_is_the_reason() -> None:
    rules = VictimRules(lambda pod, removed: True, lambda removed: unschedulable("never"))
    assert victims(stopped(), rules) == (Code.UNSCHEDULABLE, ["never"])


def test_pod_that_needs_no_victim_gets_none() -> None:
    found = cycle([NODE], RUNNING[:1], make_pod("x", cpu=3))
    assert found is not None
    found.engine.cluster.put_node(make_node("n", cpu=9))
    rules = VictimRules(lambda pod, removed: True, nothing)
    assert victims(found, rules) == (Code.UNSCHEDULABLE, ["No pod must be evicted for incoming pod"])


def test_candidates_and_waiting_follow_the_rules() -> None:
    leaving = make_pod("d", cpu=1, node_name="n", priority=9, deletion_timestamp="2026-01-01T00:00:00Z")
    target = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    leaving = replace(leaving, status=replace(leaving.status, conditions=(target,)))
    pods = [*RUNNING[:2], leaving]
    found = unfit([NODE], pods, make_pod("x", cpu=1, nominated_node_name="n"))
    rules = VictimRules(lambda pod, removed: True, nothing)
    evaluator, arguments = found.evaluator, (found.pod, found.diagnosis)
    (candidate,) = evaluator.candidates(found.search.state, *arguments, rules=rules).candidates
    assert told(candidate) == (["default/a"], 0)
    assert not evaluator.candidates(found.search.state, *arguments).candidates
    assert evaluator.blocked_reason(*arguments) is None
    blocked = evaluator.blocked_reason(*arguments, rules=rules)
    assert blocked is not None and "terminating pod on the nominated node" in blocked.message
