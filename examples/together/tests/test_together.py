"""Together: groups that complete, groups that do not, and what wakes them."""

from __future__ import annotations

import pytest
from together import GROUP, SIZE, Together

from kframework.testing import PluginContract, Scenario, ScenarioResult, create, delete, make_node, make_pod, patch

MEMBERS = [make_pod(f"job-{i}", cpu=1, labels={GROUP: "job", SIZE: "3"}) for i in range(3)]


def scenario(members: int, *, node_cpu: int = 8) -> Scenario:
    nodes = [make_node("node", cpu=node_cpu)]
    return Scenario(nodes=nodes, pods=MEMBERS[:members], plugins=[Together], args={"Together": {"timeoutSeconds": 30}})


def placed(result: ScenarioResult, members: int = 3) -> int:
    return sum(result.node_of(pod.metadata.name) is not None for pod in MEMBERS[:members])


def test_complete_group_is_bound() -> None:
    result = scenario(3).run()
    assert placed(result) == 3


def test_incomplete_group_is_unreserved_at_once() -> None:
    result = scenario(1).at(10, create(MEMBERS[1])).run()
    assert placed(result, 2) == 0
    assert {binding.pod: binding.waited for binding in result.bindings} == {"default/job-0": 30, "default/job-1": 20}
    assert "timeout" in result.message_of("job-0")
    assert "job-0 of the same group lost its place" in result.message_of("job-1")


def test_missing_member_requeues_the_others() -> None:
    result = scenario(2).at(40, create(MEMBERS[2])).run()
    assert placed(result) == 3
    assert result.seconds < 60


def test_late_member_completes_the_waiting_group() -> None:
    result = scenario(2).at(20, create(MEMBERS[2])).run()
    assert placed(result) == 3
    assert len(result.decisions) == 3


def test_room_for_the_last_member_completes_the_group() -> None:
    guest = make_pod("guest", cpu=1, node_name="node")
    result = scenario(3, node_cpu=3).at(0, create(guest)).at(100, delete(guest)).run()
    assert placed(result) == 3


def test_replaced_member_is_bound_without_waiting() -> None:
    result = scenario(3).at(100, delete(MEMBERS[0])).at(200, create(MEMBERS[0])).run()
    assert placed(result) == 3


def test_groups_of_one_name_in_two_namespaces_are_separate() -> None:
    elsewhere = make_pod("job-2", namespace="elsewhere", labels={GROUP: "job", SIZE: "3"})
    result = scenario(2).at(0, create(elsewhere)).run()
    assert placed(result, 2) == 0


def test_pods_without_group_do_not_wait() -> None:
    result = scenario(0).at(0, create(make_pod("web"))).run()
    assert result.bindings[0].waited == 0


@pytest.mark.parametrize("size", ["", "0", "three"])
def test_pod_with_invalid_group_size_is_unschedulable_until_corrected(size: str) -> None:
    pod = make_pod("job-0", labels={GROUP: "job", SIZE: size})
    broken = scenario(0).at(0, create(pod)).run()
    assert f"label {SIZE} must be the number of pods in the group" in broken.message_of("job-0")
    mended = scenario(0).at(0, create(pod)).at(60, patch(pod, {"metadata": {"labels": {SIZE: "1"}}})).run()
    assert mended.node_of("job-0") == "node"


class TestContract(PluginContract):
    plugin = Together
    pods = MEMBERS
