"""Scenarios of gangs that give up: they give their nodes back, and start once there is room."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Collection

import pytest
from kframework_coscheduling import Coscheduling
from kframework_coscheduling.gangs import PodGang, missing_room
from kframework_coscheduling.pod_groups import LABEL

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Diagnosis,
    EventResource,
    NodeTable,
    PendingPod,
    Plugin,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.objects import ObjectMeta, StorageClass
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.testing import Scenario, create, delete, make_node, make_pod, patch
from tests.support.gangs import bound, group, members, scenario, seconds_of_binding, slots, slow_to_end


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
