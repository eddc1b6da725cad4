"""Recorded groups of the alpha become groups of 1.37, or are passed over with a reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.core.runtime.registry import Registry
from kframework.objects import DisruptionMode
from kframework.objects.pod_groups import CHOSEN
from kframework.testing.conformance.cases import Case, Fact
from kframework.testing.conformance.group import (
    GroupInput,
    GroupResult,
    compare,
    decide,
    reason_to_pass_members_over,
    reason_to_pass_over,
)

GANG = {"gang": {"minCount": 2}}
DIFFERS = "members differ in scheduler name"
PREEMPTS = "1.37 preempts for the whole group, and not in the walk"
ALL_GATES = {"GenericWorkload": True, "GangScheduling": True}


def pod(name: str, priority: int = 0, group: str = "g") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c"}], "priority": priority}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": spec}


def case(scenario: str = "gang", **inputs: Any) -> Case:
    spec = {"schedulingPolicy": GANG, **inputs.pop("spec", {})}
    group = {"metadata": {"name": "g", "namespace": "team"}, "spec": spec}
    inputs = {"podGroups": [group], "pending": [pod("a", 3), pod("b", 3)], "featureGates": ALL_GATES, **inputs}
    return Case(f"pod_groups-A-0001-{scenario}", "group", "pod_groups", inputs, {"order": []})


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ({}, None),
        ({"disruptionMode": "Pod"}, DisruptionMode(single=CHOSEN)),
        ({"disruptionMode": "PodGroup"}, DisruptionMode(all=CHOSEN)),
    ],
)
def test_group_of_the_alpha_has_the_mode_and_the_priority_of_its_members(
    mode: dict[str, str], expected: DisruptionMode | None
) -> None:
    recorded = case(spec=mode).input_as(GroupInput)
    (group,) = recorded.groups()
    assert (group.spec.priority, group.spec.disruption_mode) == (3, expected)
    assert group.spec.scheduling_policy.gang is not None and group.spec.scheduling_policy.gang.min_count == 2


def test_gates_that_1_37_folded_into_one_are_left_out() -> None:
    gates = {**ALL_GATES, "WorkloadAwarePreemption": True, "TopologyAwareWorkloadScheduling": True}
    recorded = case(featureGates=gates).input_as(GroupInput)
    assert recorded.gates() == {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}


def result(**fields: Any) -> GroupResult:
    return msgspec.convert({"order": [], **fields}, GroupResult)


@pytest.mark.parametrize(
    ("recorded", "expected", "reason"),
    [
        (case(), result(), ""),
        (case(pending=[pod("a", 1), pod("b", 2)]), result(), "members differ in priority"),
        (case(pods=[pod("low", 1, "")]), result(), ""),
        (case(pods=[pod("low", 1, "")]), result(victims=["team/low"]), PREEMPTS),
        (case(), result(members={"team/a": {"outcome": "failed", "nominatedNode": "n"}}), PREEMPTS),
        (
            case(pods=[pod("other", 3) | {"spec": {**pod("other", 3)["spec"], "schedulerName": "mine"}}]),
            result(),
            DIFFERS,
        ),
        (case(spec={"schedulingConstraints": {"topology": [{"key": "zone"}]}}), result(), ""),
    ],
)
def test_members_that_1_37_may_decide_otherwise_are_passed_over(
    recorded: Case, expected: GroupResult, reason: str
) -> None:
    assert reason_to_pass_members_over(recorded.input_as(GroupInput), expected) == reason


def test_case_in_which_1_37_schedules_nothing_is_passed_over() -> None:
    recorded = case(podGroups=[]).input_as(GroupInput)
    assert reason_to_pass_over(recorded, result()) == "1.37 schedules no pod whose group does not exist"
    assert reason_to_pass_over(recorded, result(preEnqueue={"team/a": {}})) == ""
    mixed = [pod("a"), pod("b") | {"spec": {**pod("b")["spec"], "schedulerName": "mine"}}]
    recorded = case(pending=mixed).input_as(GroupInput)
    assert reason_to_pass_over(recorded, result()) == "pods of another scheduler are in another queue"


def test_gang_without_the_gate_for_gangs_is_a_group_like_others() -> None:
    (group,) = case(featureGates={"GenericWorkload": True}).input_as(GroupInput).groups()
    assert group.spec.scheduling_policy.gang is None and group.spec.scheduling_policy.basic is not None


def test_nominated_pod_of_a_case_is_in_no_queue_and_counts_without_requests() -> None:
    nominated = pod("other", 7, "") | {"status": {"nominatedNodeName": "n"}}
    (found,) = case(nominatedPods=[nominated]).input_as(GroupInput).nominated()
    assert (found.spec.priority, found.spec.containers, found.status.nominated_node_name) == (0, (), "n")


NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1", "cpu": "4"}}}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (case(), {"a": "failed", "b": "failed"}),
        (case(nodes=[NODE]), {"a": "failed", "b": "failed"}),
        (case(nodes=[NODE, {**NODE, "metadata": {"name": "m"}}]), {"a": "bound", "b": "bound"}),
    ],
)
def test_group_is_decided_by_the_engine(recorded: Case, expected: dict[str, str]) -> None:
    members = {f"team/{name}": {"outcome": outcome} for name, outcome in expected.items()}
    result = {"order": ["team/a", "team/b"], "members": members}
    case = msgspec.structs.replace(recorded.of_minor("1.37"), expect=result)
    facts = [fact for fact in compare(case, Registry.from_installed()) if isinstance(fact, Fact)]
    outcomes = {fact.path[1]: msgspec.to_builtins(fact.got)["outcome"] for fact in facts if fact.path[0] == "members"}
    assert outcomes == {name: each["outcome"] for name, each in members.items()}
    assert not any(fact.differs for fact in facts if fact.path == ("order",))


def test_pods_that_are_held_back_are_not_in_the_cycle() -> None:
    recorded = case(pending=[pod("a", 3)]).of_minor("1.37")
    result = decide(recorded.input_as(GroupInput), Registry.from_installed())
    text = "waiting for minCount pods from a gang to appear in scheduling queue"
    held = {"team/a": {"GangScheduling": {"code": "UnschedulableAndUnresolvable", "message": text}}}
    assert (result.pre_enqueue, result.order, result.members) == (held, (), {})
