"""Scenarios of Coscheduling, with the naive rules that its own ones replace."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from kframework_coscheduling import Coscheduling, PodGroup
from kframework_coscheduling.pod_groups import LABEL
from msgspec.structs import replace

from kframework import (
    ActionType,
    ClusterEvent,
    EventResource,
    QueuedPod,
    hookimpl,
)
from kframework.engine import MemoryCluster
from kframework.objects import Pod, PodStatus
from kframework.testing import Scenario, create, delete, make_node, make_pod, patch
from tests.support.gangs import bound, group, members, order, scenario, seconds_of_binding, slots, slow_to_end

# -- the order of the queue --------------------------------------------------------------------------------------------


def test_gangs_go_by_priority_then_by_age() -> None:
    pods = members("young", 2), members("old", 2), members("urgent", 2, priority=5)
    groups = [
        group("young", 2, created="2025-12-31T23:00:00Z"),
        group("old", 2, created="2025-12-31T22:00:00Z"),
        group("urgent", 2, created="2025-12-31T23:30:00Z"),
    ]
    result = scenario(*pods, groups=groups, nodes=slots(6)).run()
    assert order(result) == ["urgent-0", "urgent-1", "old-0", "old-1", "young-0", "young-1"]


class ByPodName(Coscheduling):
    """Compare groups of the same second by the names of their pods, as scheduler-plugins does."""

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> Hashable:
        key = super().queue_sort(queued)
        assert isinstance(key, tuple)
        priority, age, _, arrived, name = key
        return (priority, age, name, arrived)


def test_gangs_of_the_same_second_do_not_mix() -> None:
    def first_four(plugin: type[Coscheduling]) -> list[str]:
        pods = [
            make_pod(f"worker-{index}", cpu=1, labels={LABEL: name})
            for index, name in enumerate(["red", "blue", "red", "blue"])
        ]
        return order(scenario(pods, groups=[group("red", 2), group("blue", 2)], nodes=slots(4), plugin=plugin).run())

    assert first_four(ByPodName) == ["worker-0", "worker-1", "worker-2", "worker-3"]
    assert first_four(Coscheduling) == ["worker-1", "worker-3", "worker-0", "worker-2"]


def test_gangs_of_one_name_in_two_namespaces_do_not_mix() -> None:
    pods = [
        make_pod(f"worker-{index}", namespace=name, cpu=1, labels={LABEL: "red"}) for index, name in enumerate("abab")
    ]
    groups = [group("red", 2, namespace=name) for name in "ab"]
    result = scenario(pods, groups=groups, nodes=slots(4)).run()
    assert order(result) == ["a/worker-0", "a/worker-2", "b/worker-1", "b/worker-3"]


class ByCreation(Coscheduling):
    """Keep a gang's rank after it gave up."""

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> Hashable:
        gang = self._gangs.find(queued.pod)
        failed_at, gang.failed_at = gang.failed_at, None
        key = super().queue_sort(queued)
        gang.failed_at = failed_at
        return key


@pytest.mark.parametrize(("plugin", "first"), [(ByCreation, "large"), (Coscheduling, "small")])
def test_gang_that_gave_up_goes_behind_younger_ones(plugin: type[Coscheduling], first: str) -> None:
    groups = [
        group("large", 3, created="2025-12-31T22:00:00Z"),
        group("small", 2, created="2025-12-31T23:00:00Z"),
        group("now", 1, created="2025-12-31T23:30:00Z"),  # time starts with the youngest object
    ]
    world = scenario(members("large", 3), groups=groups, nodes=slots(1), plugin=plugin)

    def make_room_for_one_of_them(cluster: MemoryCluster) -> None:
        for each in (make_node("late", cpu=2), *members("small", 2)):
            cluster.add(each)

    result = world.at(60, make_room_for_one_of_them).run(until=100)
    assert bound(result) == {first: 3 if first == "large" else 2}


def test_gang_that_started_is_as_old_as_its_group_again() -> None:
    groups = [
        group("old", 2, created="2025-12-31T22:00:00Z"),
        group("young", 1, created="2025-12-31T23:00:00Z"),
        group("now", 1, created="2025-12-31T23:30:00Z"),  # time starts with the youngest object
    ]
    world = scenario(members("old", 2), groups=groups, nodes=slots(1))  # it gives up at first
    spare = make_pod("old-2", cpu=1, labels={LABEL: "old"})

    def make_room_for_one(cluster: MemoryCluster) -> None:
        for each in (make_node("last", cpu=1), *members("young", 1), spare):
            cluster.add(each)

    result = world.at(20, create(make_node("late", cpu=1))).at(60, make_room_for_one).run(until=100)
    assert bound(result) == {"old": 3}


# -- before a node is found --------------------------------------------------------------------------------------------


def test_pods_without_a_group_are_scheduled_alone() -> None:
    result = scenario([make_pod("plain", cpu=1)], groups=[], nodes=slots(1)).run()
    assert result.node_of("plain") == "node-0"


def test_pod_waits_for_its_group_to_exist() -> None:
    world = scenario(members("red", 2), groups=[], nodes=slots(2))
    result = world.at(5, create(group("red", 2))).run()
    assert "PodGroup not found" in result.decisions[0].message
    assert seconds_of_binding(result, "red-0") == pytest.approx(5, abs=1.1), "not after five minutes"


def test_incomplete_gang_is_not_tried_and_starts_when_the_last_pod_comes() -> None:
    first, second, last = members("red", 3)
    world = scenario([first, second], groups=[group("red", 3)], nodes=slots(3)).at(7, create(last))
    result = world.run()
    assert "PodGroup default/red has 2 of 3 pods" in result.decisions[1].message
    assert bound(result) == {"red": 3}
    assert seconds_of_binding(result, "red-0") == pytest.approx(7, abs=0.1), "the others are not left to their backoff"


def test_incomplete_gang_evicts_no_pods() -> None:
    weak = make_pod("weak", cpu=1, node_name="node-0")
    result = scenario(members("red", 2, priority=9), [weak], groups=[group("red", 3)], nodes=slots(1)).run()
    assert not any(decision.victims for decision in result.decisions)


def test_pods_that_found_no_node_do_not_wait_for_each_other() -> None:
    """Two may fail before a gang gives up; when a third is deleted, each of them seems to be one too many to miss."""
    pods = [make_pod(f"red-{index}", cpu=2, labels={LABEL: "red"}) for index in range(4)]
    world = scenario(pods, groups=[group("red", 3)], nodes=slots(1))
    result = world.at(5, delete(pods[2])).at(20, create(make_node("large", cpu=16))).run(until=60)
    assert seconds_of_binding(result, "red-1") == pytest.approx(20, abs=0.1)


def test_pod_is_told_for_which_other_one_there_is_no_room() -> None:
    pods = [make_pod(f"red-{index}", cpu=2, labels={LABEL: "red"}) for index in range(3)]
    result = scenario(pods, groups=[group("red", 3)], nodes=slots(1)).run(until=1)
    assert "PodGroup default/red waits for room for pod red-0" in result.message_of("red-2")


def test_lowered_minimum_completes_a_gang_that_lacks_pods() -> None:
    red = group("red", 3)
    world = scenario(members("red", 2), groups=[red], nodes=slots(2))
    result = world.at(20, patch(red, {"spec": {"minMember": 2}})).run(until=60)
    assert seconds_of_binding(result, "red-0") == pytest.approx(20, abs=0.1)


def test_gang_forgets_pods_that_are_deleted() -> None:
    giants = [make_pod(f"red-{index}", cpu=9, labels={LABEL: "red"}) for index in range(2)]
    pods = [*members("blue", 2), *members("green", 2), *giants]
    groups = [group("red", 1), group("blue", 2), group("green", 2)]
    result = scenario(pods, groups=groups, nodes=slots(3)).at(20, delete(giants[0])).run(until=60)
    plugin = result.plugins["Coscheduling"]
    assert isinstance(plugin, Coscheduling)
    assert plugin._gangs.get(("default", "red")).failed == {giants[1].metadata.uid}
    assert not any(plugin._gangs.get(("default", name)).waiting for name in ("blue", "green"))


def test_gang_in_another_namespace_is_another_gang() -> None:
    pods = [*members("red", 1), *members("red", 2, namespace="other")]
    result = scenario(pods, groups=[group("red", 3), group("red", 2, namespace="other")], nodes=slots(3)).run()
    assert {pod.metadata.namespace for pod in result.cluster.objects(Pod) if pod.spec.node_name} == {"other"}


def test_gated_pods_do_not_complete_a_gang_unless_they_are_spare() -> None:
    def pods() -> list[Pod]:
        return [*members("red", 2), make_pod("red-2", cpu=1, labels={LABEL: "red"}, gates=["hold"])]

    held = scenario(pods(), groups=[group("red", 3)], nodes=slots(3))
    result = held.at(9, patch(make_pod("red-2"), {"spec": {"schedulingGates": []}})).run()
    assert "PodGroup default/red waits for pods with scheduling gates" in result.decisions[0].message
    assert bound(result) == {"red": 3}
    assert bound(scenario(pods(), groups=[group("red", 2)], nodes=slots(3)).run()) == {"red": 2}


def test_ended_pods_do_not_count() -> None:
    ended = replace(make_pod("red-0", labels={LABEL: "red"}, node_name="node-0"), status=PodStatus(phase="Succeeded"))
    result = scenario([ended, *members("red", 3)[1:]], groups=[group("red", 3)], nodes=slots(3)).run()
    assert "has 2 of 3 pods" in result.message_of("red-1")


def test_gang_waits_until_all_nodes_together_have_its_minimum_resources() -> None:
    lean = group("red", 2, min_resources={"cpu": "5", "memory": "1Gi"})
    world = scenario(members("red", 2), groups=[lean], nodes=[make_node("a", cpu=3)])
    result = world.at(30, create(make_node("b", cpu=2))).run()
    assert "PodGroup default/red needs more than all nodes have left: cpu: 2000m" in result.decisions[0].message
    assert bound(result) == {"red": 2}


def test_what_a_gang_uses_itself_counts_towards_its_minimum_resources() -> None:
    running = make_pod("red-0", cpu=2, labels={LABEL: "red"}, node_name="a")
    full = group("red", 2, min_resources={"cpu": "4"})
    result = scenario([running, *members("red", 2)[1:]], groups=[full], nodes=[make_node("a", cpu=4)]).run()
    assert bound(result) == {"red": 2}


class WokenByPodsAndGroups(Coscheduling):
    """Register what scheduler-plugins registers."""

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.POD, ActionType.ADD),
            ClusterEvent("podgroups.v1alpha1.scheduling.x-k8s.io", ActionType.ADD | ActionType.UPDATE),
        ]


@pytest.mark.parametrize(("plugin", "latest"), [(WokenByPodsAndGroups, 330), (Coscheduling, 31)])
def test_new_node_wakes_a_gang_that_lacked_resources(plugin: type[Coscheduling], latest: float) -> None:
    lean = group("red", 2, min_resources={"cpu": "2"})
    world = scenario(members("red", 2), groups=[lean], nodes=slots(1), plugin=plugin)
    result = world.at(30, create(make_node("late", cpu=1))).run(until=900)
    assert latest - 31 <= seconds_of_binding(result, "red-0") <= latest + 40


# -- once a node is found ----------------------------------------------------------------------------------------------


def test_gang_is_bound_together_when_the_last_pod_has_a_node() -> None:
    result = scenario(members("red", 3), groups=[group("red", 3)], nodes=slots(3)).run()
    assert bound(result) == {"red": 3}
    assert len({each.ended_at for each in result.bindings}) == 1


def test_spare_pods_follow_one_by_one() -> None:
    result = scenario(members("red", 5), groups=[group("red", 2)], nodes=slots(3)).run(until=30)
    assert bound(result) == {"red": 3}


@pytest.mark.parametrize(
    ("seconds", "args", "expected"),
    [
        (None, {}, 60),
        (None, {"permitWaitingTimeSeconds": 0}, 60),
        (None, {"permitWaitingTimeSeconds": 10}, 10),
        (25, {"permitWaitingTimeSeconds": 10}, 25),
    ],
)
def test_pods_wait_as_long_as_the_group_or_the_args_say(
    seconds: int | None, args: dict[str, object], expected: float
) -> None:
    # The second pod preempts, and its victim takes its time: the first one waits meanwhile.
    victim = slow_to_end(make_pod("victim", cpu=1, node_name="node-1"))
    world = scenario(
        members("red", 2, priority=9),
        [victim],
        groups=[group("red", 2, schedule_timeout_seconds=seconds)],
        nodes=slots(2),
        args=args,
    )
    result = world.run(until=300)
    failed = next(each for each in result.bindings if each.pod == "default/red-0")
    assert (
        f"rejected due to timeout after waiting {expected // 60}m" in failed.message or f"{expected}s" in failed.message
    )
    assert failed.ended_at - failed.started_at == pytest.approx(expected, abs=0.1)


def test_lowered_minimum_lets_waiting_pods_go() -> None:
    victim = slow_to_end(make_pod("victim", cpu=1, node_name="node-1"))
    red = group("red", 2)
    world = scenario(members("red", 2, priority=9), [victim], groups=[red], nodes=slots(2))
    result = world.at(5, patch(red, {"spec": {"minMember": 1}})).run(until=40)
    assert seconds_of_binding(result, "red-0") == pytest.approx(5, abs=0.1)


def test_permit_alone_rejects_pods_without_a_group() -> None:
    """A configuration may enable the plugin at some points only."""
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
    permit: {enabled: [{name: Coscheduling}]}
"""
    result = Scenario(nodes=slots(2), pods=members("red", 1), plugins=[Coscheduling], config=config).run(until=10)
    assert "PodGroup not found" in result.message_of("red-0")


# -- the status of groups ----------------------------------------------------------------------------------------------


def test_status_follows_the_pods() -> None:
    red = group("red", 2)
    world = scenario(members("red", 2), groups=[red], nodes=slots(1))
    phases: dict[float, tuple[str, int, int]] = {}

    def look(seconds: float) -> None:
        def read(cluster: MemoryCluster) -> None:
            status = cluster.read(PodGroup, "red", "default").status
            phases[seconds] = (status.phase, status.running, status.succeeded)

        world.at(seconds, read)

    world.at(20, create(make_node("late", cpu=1)))
    world.at(50, patch(red, {"spec": {"minMember": 3}}))
    world.at(55, patch(red, {"spec": {"minMember": 2}}))
    for index in range(2):
        world.at(60, patch(make_pod(f"red-{index}"), {"status": {"phase": "Succeeded"}}))
    for seconds in (10, 49, 54, 59, 70):
        look(seconds)
    world.run(until=90)
    assert phases == {
        10: ("Scheduling", 0, 0),
        49: ("Running", 2, 0),
        54: ("Pending", 2, 0),
        59: ("Running", 2, 0),
        70: ("Finished", 0, 2),
    }
