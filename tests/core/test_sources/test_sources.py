"""What an engine makes of outside data: it wakes those whom the plugin rejected, and forgets what it had said."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest

from kframework import (
    ConfigError,
    CycleState,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginError,
    SourceChange,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.clock import SystemClock
from kframework.core.host import Host
from kframework.core.pod_engine import PodEngine
from kframework.framework.source import WhenStale
from kframework.observe.recording.writer import FrozenClock
from kframework.state.cluster import ClusterState
from kframework.state.inbox import SourceChanged, SourceFailed, Synced, Upserted
from kframework.testing import Scenario, ScenarioResult, create, make_node, make_pod
from kframework.testing.single_plugin import build_profiles
from tests.support.source_plugins import busy_plugin

STALE = "source 'load' of plugin 'Load' has no data since 2026-01-01T00:00:00Z"


def scenario(*plugins: type[Plugin], nodes: str = "a") -> Scenario:
    return Scenario(nodes=map(make_node, nodes), pods=[make_pod("web")], plugins=plugins)


def attempts(result: ScenarioResult, pod: str = "web") -> list[tuple[float, str]]:
    """List when a pod was tried, in seconds since the start, and what woke it."""
    return [(each.popped_at - 1767225600.0, each.requeued_by) for each in result.decisions_on(pod)]


@pytest.mark.parametrize("reads", ["node", "pods", None])
@pytest.mark.parametrize("by", ["node", "key"])
def test_change_requeues_pods_that_the_plugin_rejected(reads: Any, by: Any) -> None:
    world = scenario(busy_plugin(reads, by))
    load = world.source("Load", "load", {"a": 0.9})
    result = world.at(30, load.publish({"a": 0.1})).run()
    assert attempts(result) == [(0.0, "UnscheduledPodAdd"), (30.0, "Load/load")]
    assert result.node_of("web") == "a"


def test_change_requeues_no_pod_rejected_by_another_plugin() -> None:
    """The pod was rejected by another plugin: the source of this one says nothing about that."""

    class Never(Plugin):
        name = "Never"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return unschedulable("never")

        @hookimpl
        def events_to_register(self) -> tuple[()]:
            return ()

    world = scenario(busy_plugin(), Never)
    load = world.source("Load", "load", {"a": 0.1})
    world.at(30, load.publish({"a": 0.2})).at(31, load.publish({"a": 0.3}))
    assert attempts(world.run(until=60)) == [(0.0, "UnscheduledPodAdd")]


def engine_of(plugin: type[Plugin], **sources: dict[str, float]) -> PodEngine:
    """Make an engine at a moment that does not pass."""
    clock = FrozenClock(SystemClock())
    clock.freeze(1000.0)
    return PodEngine(ClusterState(), clock, Host(), functools.partial(build_profiles, plugin, {}, sources=sources))


def test_change_respects_the_backoff() -> None:
    engine = engine_of(busy_plugin(), load={"a": 0.9})
    for message in (Upserted(make_node("a")), Upserted(make_pod("web")), Synced()):
        engine.offer(message)
    assert engine.step()
    engine.offer(SourceChanged("default-scheduler/Load/load", 1000.0, {"a": 0.1}))
    engine.apply_messages()
    assert engine.queue.count_by_queue() == {"active": 0, "backoff": 1, "unschedulable": 0, "gated": 0}


def test_wakes_pod_receives_the_change() -> None:
    def helps(pod: PendingPod, change: SourceChange[float]) -> bool:
        return any(value <= 0.5 for value in change.values.values())

    world = scenario(busy_plugin(wakes_pod=helps))
    load = world.source("Load", "load", {"a": 0.9})
    world.at(20, load.publish({"a": 0.8})).at(40, load.publish({"a": 0.2}))
    assert attempts(world.run()) == [(0.0, "UnscheduledPodAdd"), (40.0, "Load/load")]


def test_failing_wakes_pod_requeues_the_pod() -> None:
    def broken(pod: PendingPod, change: SourceChange[float]) -> bool:
        raise RuntimeError("no idea")

    world = scenario(busy_plugin(wakes_pod=broken))
    load = world.source("Load", "load", {"a": 0.9})
    assert world.at(20, load.publish({"a": 0.1})).run().node_of("web") == "a"


def test_unchanged_data_requeue_no_pod() -> None:
    world = scenario(busy_plugin())
    world.source("Load", "load", {"a": 0.9})
    assert attempts(world.run(until=100)) == [(0.0, "UnscheduledPodAdd")]


def test_change_during_an_attempt_is_not_lost() -> None:
    """It waits on Permit when the data change; once rejected it is tried again."""
    from kframework import Wait

    class Late(busy_plugin()):  # type: ignore[misc]  # the base is made by a function
        @hookimpl
        def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
            return Wait(5) if self.load[node_name] < 0.4 else None

    world = scenario(Late)
    load = world.source("Load", "load", {"a": 0.1})
    result = world.at(2, load.publish({"a": 0.45})).run()
    assert attempts(result) == [(0.0, "UnscheduledPodAdd"), (5.0, "ScheduleAttemptFailure")]
    assert result.node_of("web") == "a"


@pytest.mark.parametrize("by", ["node", "key"])
def test_change_invalidates_cached_answers(by: Any) -> None:
    """Two equal pods: what was remembered for the first does not hold for the second."""
    world = scenario(busy_plugin("node", by), nodes="ab")
    load = world.source("Load", "load", {"a": 0.9, "b": 0.1})
    world.at(20, load.publish({"a": 0.1, "b": 0.9})).at(21, create(make_pod("late")))
    world.at(40, load.publish({"b": 0.9})).at(41, create(make_pod("last")))
    result = world.run()
    assert [result.node_of(name) for name in ("web", "late", "last")] == ["b", "a", "a"]


def test_change_invalidates_only_the_named_nodes() -> None:
    asked: list[str] = []

    class Counting(busy_plugin()):  # type: ignore[misc]  # the base is made by a function
        @hookimpl
        def sign(self, pod: PendingPod) -> str:
            return "alike"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            asked.append(node.name)
            return unschedulable("no")

    world = scenario(Counting, nodes="abcdef")
    load = world.source("Load", "load", {"a": 0.1})
    world.at(20, load.publish({"a": 0.1, "c": 0.5})).at(20.5, create(make_pod("late"))).run(until=21)
    assert sorted(asked[:6]) == list("abcdef")
    assert set(asked[6:]) == {"c"}


#: By what is declared: where the pod goes and waits while the source has never told anything, and what is said of it.
ABSENT: dict[WhenStale, tuple[str, str]] = {
    "reject": ("unschedulable", "source 'load' of plugin 'Load' has no data yet"),
    "gate": ("gated", ""),
    "ignore": ("bound", ""),
}


@pytest.mark.parametrize("reads", ["node", None])
@pytest.mark.parametrize("when_stale", ABSENT)
def test_absent_data_are_handled_as_declared(when_stale: WhenStale, reads: Any) -> None:
    world = scenario(busy_plugin(reads, when_stale=when_stale))
    world.source("Load", "load")
    result = world.run(until=60)
    place, message = ABSENT[when_stale]
    assert result.state_of("web") == place
    assert message in result.message_of("web")


@pytest.mark.parametrize("when_stale", ["reject", "gate"])
def test_pods_are_scheduled_once_data_arrive(when_stale: WhenStale) -> None:
    world = scenario(busy_plugin(when_stale=when_stale))
    load = world.source("Load", "load")
    result = world.at(50, load.publish({"a": 0.1})).run()
    assert attempts(result)[-1][0] == 50.0
    assert result.node_of("web") == "a"


@pytest.mark.parametrize("reads", ["node", None])
@pytest.mark.parametrize("when_stale", ABSENT)
def test_stale_data_are_handled_as_declared(when_stale: WhenStale, reads: Any) -> None:
    """It says what makes the node too busy, then nothing: only who ignores that goes on, when the data are stale."""
    world = scenario(busy_plugin(reads, when_stale=when_stale, stale_after=60))
    load = world.source("Load", "load", {"a": 0.9})
    world.at(5, load.stop_publishing()).at(70, create(make_pod("late")))
    result = world.run(until=100)
    late, _ = ABSENT[when_stale]
    assert result.state_of("late") == late
    assert attempts(result)[1:] == ([(60.0, "Load/load")] if when_stale == "ignore" else [])
    assert result.state_of("web") == ("bound" if when_stale == "ignore" else "unschedulable")
    if when_stale == "reject":
        assert STALE in result.message_of("late")


def test_data_never_become_stale_if_declared_so() -> None:
    world = scenario(busy_plugin(stale_after=math.inf))
    load = world.source("Load", "load", {"a": 0.1})
    result = world.at(1, load.stop_publishing()).at(10_000, create(make_pod("late"))).run()
    assert result.node_of("late") == "a"


def test_message_contains_the_failure_once_data_are_stale() -> None:
    world = scenario(busy_plugin(stale_after=60))
    load = world.source("Load", "load", {"a": 0.9})
    world.at(5, load.fail("no route")).at(70, create(make_pod("late")))
    assert f"{STALE}: ConnectionError: no route" in world.run(until=100).message_of("late")


@pytest.mark.parametrize("reads", ["node", "pods", None])
def test_message_contains_the_latest_failure(reads: Any) -> None:
    """Nothing but what went wrong differs between the attempts, and what a plugin that reads says is remembered."""
    world = scenario(busy_plugin(reads))
    load = world.source("Load", "load")
    world.at(3, load.fail("no route")).at(30, create(make_pod("late")))
    world.at(40, load.fail("no such host")).at(80, create(make_pod("last")))
    result = world.run(until=100)
    absent = "source 'load' of plugin 'Load' has no data yet: ConnectionError: "
    assert f"{absent}no route." in result.message_of("late")
    assert f"{absent}no such host." in result.message_of("last")


def test_failure_requeues_no_pod() -> None:
    world = scenario(busy_plugin())
    load = world.source("Load", "load")
    assert attempts(world.at(3, load.fail("no route")).at(40, load.fail("no such host")).run(until=100)) == [
        (3.0, "UnscheduledPodAdd")
    ]


def test_copied_source_has_the_latest_failure() -> None:
    followed, follower = engine_of(busy_plugin()), engine_of(busy_plugin())
    for error in ("no route", "no such host"):
        followed.offer(SourceFailed("default-scheduler/Load/load", error))
        followed.apply_messages()
        assert [turn.source.error for turn in follower.sources.copy_from(followed.sources)] == [error]
    assert not [*follower.sources.copy_from(followed.sources)]


def test_stale_source_does_not_reject_a_pod_that_the_plugin_skips() -> None:
    from kframework import Skip
    from kframework.state.nodes import NodeTable

    class Some(busy_plugin(reads=None)):  # type: ignore[misc]  # the base is made by a function
        @hookimpl
        def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
            return Skip if pod.name == "web" else None

    world = scenario(Some)
    world.source("Load", "load")
    result = world.at(1, create(make_pod("other"))).run(until=60)
    assert (result.state_of("web"), result.state_of("other")) == ("bound", "unschedulable")


def test_each_profile_has_its_own_source() -> None:
    """Two profiles with the plugin: the data of one wake no pod of the other."""
    config = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - schedulerName: default-scheduler
          plugins: {multiPoint: {enabled: [{name: Load}]}}
        - schedulerName: second
          plugins: {multiPoint: {enabled: [{name: Load}]}}
    """
    made = []

    class Told(busy_plugin()):  # type: ignore[misc]  # the base is made by a function
        def __init__(self, args: Any, handle: Any) -> None:
            super().__init__(args, handle)
            made.append(self.load.key)

    world = Scenario(nodes=[make_node("a")], plugins=[Told], config=config)
    world.source("Load", "load", {"a": 0.9})
    world.run(until=1)
    assert made == ["default-scheduler/Load/load", "second/Load/load"]


def test_source_that_start_declares_is_rejected() -> None:
    class Late(busy_plugin()):  # type: ignore[misc]  # the base is made by a function
        async def start(self) -> None:
            self.handle.source("late", float, self.load.fetch)

    refusal = pytest.RaisesExc(
        PluginError, match="source 'late': declare it in __init__, as later ones are not fetched"
    )
    with pytest.RaisesGroup(refusal, flatten_subgroups=True):
        scenario(Late).run()


@pytest.mark.parametrize("name", ["", "a/b"])
def test_source_with_an_unusable_name_is_rejected(name: str) -> None:
    class Misnamed(busy_plugin()):  # type: ignore[misc]  # the base is made by a function
        def __init__(self, args: Any, handle: Any) -> None:
            super().__init__(args, handle)
            handle.source(name, float, self.load.fetch)

    with pytest.raises(ConfigError, match="the name must not be empty, or contain a slash"):
        scenario(Misnamed).run()


@pytest.mark.parametrize("delivers", [False, True])
def test_ignored_plugin_gates_no_pod_while_its_source_is_stale(delivers: bool) -> None:
    class Gating(busy_plugin(when_stale="ignore", stale_after=60)):  # type: ignore[misc]  # as above
        @hookimpl
        def pre_enqueue(self, pod: PendingPod) -> Status | None:
            return None if self.load.get("open") else unschedulable("closed")

    world = scenario(Gating)
    load = world.source("Load", "load", {"open": 0.0} if delivers else None)
    world.at(5, load.stop_publishing())
    result = world.run(until=100)
    assert attempts(result)[0][0] == (60.0 if delivers else 10.0)
    assert result.state_of("web") == "bound"


def test_duplicate_source_name_is_rejected() -> None:
    class Twice(busy_plugin()):  # type: ignore[misc]  # the base is made by a function
        def __init__(self, args: Any, handle: Any) -> None:
            super().__init__(args, handle)
            handle.source("load", float, self.load.fetch)

    with pytest.raises(Exception, match="source 'load': the name is in use"):
        scenario(Twice).run()
