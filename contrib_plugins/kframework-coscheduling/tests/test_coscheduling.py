"""Scenarios of Coscheduling, with the naive rules that its own ones replace."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

import pytest
from kframework_coscheduling import Coscheduling, PodGroup
from kframework_coscheduling.gangs import PodGang, missing_room
from kframework_coscheduling.pod_groups import LABEL
from msgspec.structs import replace

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Diagnosis,
    EventResource,
    NodeTable,
    PendingPod,
    Plugin,
    QueuedPod,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.engine import MemoryCluster
from kframework.objects import Node, ObjectMeta, Pod, PodStatus, StorageClass
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.testing import Scenario, ScenarioResult, create, delete, make_node, make_pod, patch
from tests.support.gangs import group, members, slots


def scenario(
    *pods: Sequence[Pod],
    groups: Sequence[PodGroup],
    nodes: Sequence[Node],
    plugin: type[Coscheduling] = Coscheduling,
    args: Mapping[str, object] | None = None,
) -> Scenario:
    everything = [pod for each in pods for pod in each]
    return Scenario(nodes=nodes, pods=everything, objects=groups, plugins=[plugin], args={"Coscheduling": args or {}})


def bound(result: ScenarioResult) -> Counter[str]:
    """Count the bound pods of each gang."""
    pods = result.cluster.objects(Pod)
    return Counter(pod.metadata.labels.get(LABEL, "") for pod in pods if pod.spec.node_name)


def slow_to_end(pod: Pod) -> Pod:
    """Let a pod take minutes to end when it is deleted."""
    return replace(pod, spec=replace(pod.spec, termination_grace_period_seconds=500))


def order(result: ScenarioResult) -> list[str]:
    """List the pods in the order of their first attempts."""
    return list(dict.fromkeys(decision.pod.removeprefix("default/") for decision in result.decisions))


def seconds_of_binding(result: ScenarioResult, name: str) -> float:
    pod, start = f"default/{name}", result.decisions[0].popped_at
    return next(each.ended_at for each in result.bindings if each.pod == pod and not each.message) - start


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


def test_lowered_minimum_brings_back_a_gang_that_gave_up() -> None:
    red = group("red", 3)
    world = scenario(members("red", 3), groups=[red], nodes=slots(2), plugin=Unforgiving)
    result = world.at(20, patch(red, {"spec": {"minMember": 2}})).run(until=60)
    assert seconds_of_binding(result, "red-0") == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("node_name", ["", "node-0"])
def test_another_pod_brings_back_a_gang_that_gave_up(node_name: str) -> None:
    """A further member, or one that another scheduler bound, takes the place of the one without a node."""
    giant = make_pod("red-9", cpu=9, labels={LABEL: "red"})
    world = scenario([*members("red", 2), giant], groups=[group("red", 3)], nodes=slots(3), plugin=Unforgiving)
    late = make_pod("red-2", cpu=1, labels={LABEL: "red"}, node_name=node_name)
    result = world.at(20, create(late)).run(until=60)
    assert bound(result) == {"red": 3}
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


# -- a gang that cannot be whole ---------------------------------------------------------------------------------------


def test_gang_that_cannot_be_whole_gives_its_nodes_back_at_once() -> None:
    groups = [group("large", 5, created="2025-12-31T23:00:00Z"), group("small", 2)]
    result = scenario(members("large", 5), members("small", 2), groups=groups, nodes=slots(4)).run(until=200)
    assert bound(result) == {"small": 2}
    assert seconds_of_binding(result, "small-0") == pytest.approx(0, abs=0.1)


def test_gang_that_may_not_preempt_gives_up_at_once() -> None:
    world = scenario(members("red", 3, preemption_policy="Never"), groups=[group("red", 3)], nodes=slots(2))
    result = world.run(until=50)
    assert [each.ended_at - each.started_at for each in result.bindings] == [0, 0], "two had nodes"


class Unforgiving(Coscheduling):
    """Leave a gang that gave up to the events that this plugin registers."""

    def _bring_back(self, gang: PodGang) -> None:
        return None


class NeedsStorageClass(Plugin):
    """Keep one pod off all nodes until there is a StorageClass, which is no event for Coscheduling."""

    name = "NeedsStorageClass"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        return (
            unschedulable("no class") if pod.name == "red-2" and not list(self.handle.objects(StorageClass)) else None
        )

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)]


@pytest.mark.parametrize(("plugin", "is_bound"), [(Unforgiving, False), (Coscheduling, True)])
def test_gang_starts_after_what_only_another_plugin_follows(plugin: type[Coscheduling], is_bound: bool) -> None:
    world = Scenario(
        nodes=slots(3), pods=members("red", 3), objects=[group("red", 3)], plugins=[plugin, NeedsStorageClass]
    )
    result = world.at(20, create(StorageClass(metadata=ObjectMeta(name="fast")))).run(until=200)
    assert bound(result)["red"] == (3 if is_bound else 0)
    if is_bound:
        assert seconds_of_binding(result, "red-2") == pytest.approx(20, abs=0.1)


class WithoutMemory(Coscheduling):
    """Try again whenever a pod is woken, also by what its own gang gave back."""

    def _give_up(self, gang: PodGang, beaten: Collection[str], why: str) -> None:
        super()._give_up(gang, beaten, why)
        gang.beaten.clear()


def test_gang_is_not_woken_by_the_nodes_that_it_gives_back() -> None:
    def attempts(plugin: type[Coscheduling]) -> int:
        pods = members("large", 5)
        return len(scenario(pods, groups=[group("large", 5)], nodes=slots(4), plugin=plugin).run(until=0.9).decisions)

    assert attempts(WithoutMemory) > 50
    assert attempts(Coscheduling) <= 7


def test_busy_scheduler_does_not_take_nodes_that_a_gang_gave_back_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other pods are tried before the one that these nodes wake: an extender takes two seconds for each of them."""

    async def answer_after_two_seconds(transport: HttpExtenderTransport, verb: str, request: bytes) -> bytes:
        await asyncio.sleep(2)
        return json.dumps({"NodeNames": json.loads(request)["NodeNames"]}).encode()

    monkeypatch.setattr(HttpExtenderTransport, "send", answer_after_two_seconds)
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "http://slow", filterVerb: filter, nodeCacheCapable: true}]
profiles:
- plugins: {multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}
"""
    pods = [*members("red", 3), *(make_pod(f"small-{index}", cpu=None) for index in range(4))]
    groups = [group("red", 3, created="2025-12-31T23:00:00Z")]
    result = Scenario(nodes=slots(2), pods=pods, objects=groups, plugins=[Coscheduling], config=config).run(until=60)
    assert len(result.decisions_on("red-0")) == 1
    assert len(result.decisions_on("red-2")) == 2


def test_hopeless_gangs_do_not_wake_each_other() -> None:
    groups = [group(name, 5) for name in ("red", "blue", "green")]
    pods = [members(name, 5) for name in ("red", "blue", "green")]
    result = scenario(*pods, groups=groups, nodes=slots(4)).run(until=280)
    assert not bound(result)
    assert len(result.decisions) < 60


class ByPercentage(Coscheduling):
    """Give up if more than a tenth of the gang is missing, as scheduler-plugins does by default."""

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status | None:
        gang, group = self._gangs.find(pod), self._gangs.group(pod)
        assert gang is not None and group is not None
        if (group.spec.min_member - gang.assigned) * 100 > 10 * group.spec.min_member:
            self._give_up(gang, {*gang.pending}, "too many are missing")
        return unschedulable()


@pytest.mark.parametrize(("plugin", "waits"), [(ByPercentage, True), (Coscheduling, False)])
def test_gang_that_lacks_one_pod_does_not_hold_its_nodes(plugin: type[Coscheduling], waits: bool) -> None:
    groups = [group("large", 10, created="2025-12-31T23:00:00Z"), group("small", 5)]
    result = scenario(members("large", 10), members("small", 5), groups=groups, nodes=slots(9), plugin=plugin).run(
        until=300
    )
    assert bound(result)["small"] == 5
    assert (seconds_of_binding(result, "small-0") >= 60) == waits


@pytest.mark.parametrize("sizes", [(3, 3), (2, 3, 4), (4, 4, 4, 4)])
def test_gangs_that_together_overfill_the_cluster_start_one_after_the_other(sizes: tuple[int, ...]) -> None:
    names = [f"gang{index}" for index in range(len(sizes))]
    pods = [members(name, size) for name, size in zip(names, sizes, strict=True)]
    groups = [group(name, size) for name, size in zip(names, sizes, strict=True)]
    world = scenario(*pods, groups=groups, nodes=slots(4))
    for name, size in zip(names, sizes, strict=True):  # each ends when it has run for a while
        for index in range(size):
            world.at(100 * (names.index(name) + 1), delete(make_pod(f"{name}-{index}")))
    result = world.run(until=100 * len(sizes) + 50)
    ran = Counter(each.pod.split("/")[1].split("-")[0] for each in result.bindings if not each.message)
    assert all(ran[name] in (0, size) for name, size in zip(names, sizes, strict=True))
    assert sum(map(bool, ran.values())) >= 2


class GiveUpAtFirst(Coscheduling):
    """Give up with the first pod that finds no node."""

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status | None:
        gang = self._gangs.find(pod)
        assert gang is not None
        self._give_up(gang, {*gang.pending}, "one found no node")
        return unschedulable()


@pytest.mark.parametrize(("plugin", "started"), [(GiveUpAtFirst, 0), (Coscheduling, 3)])
def test_pod_that_fits_nowhere_does_not_stop_a_gang_that_can_spare_it(plugin: type[Coscheduling], started: int) -> None:
    first, *others = members("red", 4)
    giant = make_pod(first.metadata.name, cpu=9, labels={LABEL: "red"})
    result = scenario([giant, *others], groups=[group("red", 3)], nodes=slots(3), plugin=plugin).run(until=50)
    assert bound(result)["red"] == started
    if started:
        assert seconds_of_binding(result, "red-1") == pytest.approx(0, abs=0.1)


def test_beaten_gang_starts_as_soon_as_there_is_room() -> None:
    world = scenario(members("red", 3), groups=[group("red", 3)], nodes=slots(2))
    result = world.at(50, create(make_node("late", cpu=1))).run(until=100)
    assert bound(result) == {"red": 3}
    assert 50 <= seconds_of_binding(result, "red-0") <= 61


def test_beaten_gang_starts_when_a_pod_ends() -> None:
    old = make_pod("old", cpu=1, node_name="node-2")
    world = scenario(members("red", 3), [old], groups=[group("red", 3)], nodes=slots(3))
    result = world.at(20, delete(old)).run(until=100)  # it ends within 30 seconds
    assert bound(result) == {"red": 3}
    assert 50 <= seconds_of_binding(result, "red-0") <= 61


class ChecksMinimumAgain(Coscheduling):
    """Compare `minResources` with what is left before each pod, also when others of the gang wait already."""

    def _problem(self, pod: PendingPod) -> str | None:
        gang, group = self._gangs.find(pod), self._gangs.group(pod)
        if gang is None or group is None:
            return None
        return super()._problem(pod) or missing_room(group, gang.placed.values(), self.handle.nodes) or None


@pytest.mark.parametrize(("plugin", "seconds"), [(ChecksMinimumAgain, 60), (Coscheduling, 30)])
def test_gang_that_loses_its_room_while_it_starts_gives_up_at_once(plugin: type[Coscheduling], seconds: float) -> None:
    # The second pod waits 30 s for its victim to end. Then another takes its node, and the spare one has gone.
    spare = make_node("spare", cpu=1, unschedulable=True)
    victim = make_pod("victim", cpu=1, node_name="node-1")
    urgent = make_pod("urgent", cpu=1, priority=99, preemption_policy="Never")
    lean, nodes = group("red", 2, min_resources={"cpu": "2"}), [*slots(2), spare]
    world = scenario(members("red", 2, priority=9), [victim], groups=[lean], nodes=nodes, plugin=plugin)
    result = world.at(5, delete(spare)).at(5, create(urgent)).run(until=100)
    failed = next(each for each in result.bindings if each.pod == "default/red-0")
    assert failed.ended_at - failed.started_at == pytest.approx(seconds, abs=1)


def test_deleted_pod_that_waited_sends_the_others_back() -> None:
    victim = slow_to_end(make_pod("victim", cpu=1, node_name="node-2"))
    world = scenario(members("red", 3, priority=9), [victim], groups=[group("red", 3)], nodes=slots(3))
    result = world.at(5, delete(make_pod("red-0"))).run(until=30)
    lost = next(each for each in result.bindings if each.pod == "default/red-1")
    assert "gang lost pod red-0" in lost.message
    assert not bound(result)["red"]


def test_gang_whose_pod_loses_its_nominated_node_gives_up_at_once() -> None:
    victim = slow_to_end(make_pod("victim", cpu=1, node_name="node-1"))
    groups = [group("red", 2, created="2025-12-31T23:00:00Z"), group("blue", 1)]
    world = scenario(members("red", 2, priority=9), [victim], groups=groups, nodes=slots(2))
    for each in members("blue", 1):
        world.at(2, create(each))
    result = world.at(5, delete(make_node("node-1"))).run(until=30)
    assert bound(result)["red"] == 0
    assert seconds_of_binding(result, "blue-0") == pytest.approx(5, abs=0.1), "not when the time of red is over"


class WithoutTimer(Coscheduling):
    """Reject pods of a gang that backs off, and leave them to the cluster's events."""

    async def _retry_after_backoff(self, gang: PodGang) -> None:
        return None


@pytest.mark.parametrize(("plugin", "is_bound"), [(WithoutTimer, False), (Coscheduling, True)])
def test_gang_that_backs_off_is_tried_when_that_is_over(plugin: type[Coscheduling], is_bound: bool) -> None:
    args = {"podGroupBackoffSeconds": 40}
    world = scenario(members("red", 3), groups=[group("red", 3)], nodes=slots(2), plugin=plugin, args=args)
    result = world.at(10, create(make_node("late", cpu=1))).run(until=120)
    assert any("PodGroup default/red failed recently" in each.message for each in result.decisions)
    assert bound(result)["red"] == (3 if is_bound else 0)
    if is_bound:
        assert seconds_of_binding(result, "red-0") == pytest.approx(40, abs=0.1)


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
