"""A scenario runs the real scheduler, the same way every time."""

from __future__ import annotations

import inspect
from random import Random
from typing import cast

import pytest

from kframework import (
    ClusterError,
    ConfigError,
    CycleState,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import Pod
from kframework.state.pods import QueuedPod
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import Scenario, ScenarioResult, create, delete, patch
from tests.support.storage import claim, claim_volumes, storage_class


class AvoidArgs(PluginArgs):
    node_name: str = ""


class Avoid(Plugin):
    """Keep pods off one node."""

    name = "Avoid"
    Args = AvoidArgs
    args: AvoidArgs
    reads = "node"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("node is avoided") if node.name == self.args.node_name else None


class Prefer(Plugin):
    """Prefer the node that comes first by name."""

    name = "Prefer"
    reads = "node"

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 100 if node.name == "a" else 0


def test_default_plugins_run_without_others() -> None:
    result = Scenario(nodes=[make_node("small", cpu=1), make_node("large")], pods=[make_pod("web", cpu=2)]).run()
    assert result.node_of("web") == "large"
    assert result.state_of("web") == "bound"
    assert result.message_of("web") == ""
    assert result.events_on("web") == [("Scheduled", "Successfully assigned default/web to large")]
    assert [(decision.node, decision.evaluated, decision.feasible) for decision in result.decisions] == [
        ("large", 2, 1)
    ]
    assert [binding.node for binding in result.bindings] == ["large"]


def test_repr_of_a_result_is_one_line() -> None:
    result = Scenario(nodes=[make_node("a", cpu=1)], pods=[make_pod("small", cpu=1), make_pod("big", cpu=2)]).run()
    assert repr(result) == "<ScenarioResult: 1 of 2 pods bound, 0 s of virtual time>"


def test_plugin_runs_with_its_args_and_weight() -> None:
    scenario = Scenario(
        nodes=[make_node("a"), make_node("b"), make_node("c")],
        pods=[make_pod("web")],
        plugins=[Avoid, Prefer],
        args={"Avoid": {"nodeName": "b"}},
        weights={"Prefer": 1000},
    )
    result = scenario.run()
    assert result.node_of("web") == "a"
    assert result.decisions[0].feasible == 2
    assert result.decisions[0].score >= 100_000
    assert isinstance(result.plugins["Avoid"].args, AvoidArgs)


def test_configuration_selects_the_plugins() -> None:
    config = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - pluginConfig: [{name: Avoid, args: {nodeName: a}}]
          plugins: {filter: {enabled: [{name: Avoid}]}}
    """
    scenario = Scenario(nodes=[make_node("a")], pods=[make_pod("web")], plugins=[Avoid, Prefer], config=config)
    result = scenario.run()
    assert result.message_of("web").startswith("0/1 nodes are available: 1 node is avoided.")
    assert "Prefer" not in result.plugins


def test_invalid_configuration_is_an_error_at_once() -> None:
    with pytest.raises(ConfigError, match="nodeNmae"):
        Scenario(plugins=[Avoid], args={"Avoid": {"nodeNmae": "a"}}).run()


def test_node_is_patched_with_its_status() -> None:
    scenario = Scenario(nodes=[make_node("a", cpu=1)], pods=[make_pod("web", cpu=2)])
    scenario.at(5.0, patch(make_node("a"), {"status": {"allocatable": {"cpu": "2"}}}))
    assert scenario.run().node_of("web") == "a"


def test_actions_run_at_their_times() -> None:
    scenario = Scenario(nodes=[make_node("a")], pods=[make_pod("early"), make_pod("other", namespace="team")])
    scenario.at(9.0, create(make_pod("late")))
    scenario.at(5.0, patch(make_node("a"), {"spec": {"unschedulable": True}}))
    scenario.at(7.0, delete(make_pod("other", namespace="team")))
    result = scenario.run()
    assert result.node_of("early") == "a"
    assert result.message_of("late").startswith("0/1 nodes are available: 1 node(s) were unschedulable. ")
    assert result.state_of("late") == "unschedulable"
    assert result.queued("late").rejectors == {"NodeUnschedulable"}
    assert result.seconds == 37.0, "the deleted pod had a grace of 30 seconds"
    assert [decision.node for decision in result.decisions_on("team/other")] == ["a"]
    with pytest.raises(ClusterError, match="not found"):
        result.pod("team/other")


def test_action_may_be_any_function_of_the_cluster() -> None:
    async def bind(cluster: MemoryCluster) -> None:
        pod = cluster.read(Pod, "web", "default")
        await cluster.bind("default", "web", pod.metadata.uid, "b")

    result = Scenario(nodes=[make_node("a")], pods=[make_pod("web")]).at(0.0, bind).run()
    assert result.node_of("web") == "b", "it was bound before the scheduler looked"
    assert not result.decisions


def test_run_ends_at_its_time_or_when_idle() -> None:
    scenario = Scenario(nodes=[make_node("a", cpu=1)], pods=[make_pod("big", cpu=2)])
    assert scenario.run().seconds == 0.0
    assert scenario.run(until=400.0).seconds == 400.0
    assert len(scenario.run(until=400.0).decisions) == 2, "the unschedulable pool was flushed once"


def test_run_ends_after_an_hour_of_fruitless_retries() -> None:
    result = Scenario(pods=[make_pod("lost")]).run()
    assert result.seconds == 3600.0
    assert result.state_of("lost") == "backoff"


def test_run_waits_for_slow_writes() -> None:
    def slow(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: Fault(delay=5.0) if method == "record_event" else None)

    result = Scenario(nodes=[make_node("a")], pods=[make_pod("web")]).at(0.0, slow).run()
    assert result.seconds == 5.0
    assert len(result.events) == 1


def test_same_scenario_has_the_same_result() -> None:
    def outcome() -> ScenarioResult:
        names = [f"p{number}" for number in range(20)]
        Random(1).shuffle(names)
        return Scenario(nodes=[make_node(name) for name in "abcd"], pods=[make_pod(name) for name in names]).run()

    first, second = outcome(), outcome()
    assert [(d.pod, d.node, d.score, d.ties) for d in first.decisions] == [
        (d.pod, d.node, d.score, d.ties) for d in second.decisions
    ]


@pytest.mark.parametrize(("controlled", "node"), [(True, "a"), (False, None)])
def test_volumes_are_created_for_claims(controlled: bool, node: str | None) -> None:
    objects = [storage_class("csi", "csi.example.com"), claim("data", "csi")]
    pod = make_pod("web", volumes=claim_volumes("data"))
    run = Scenario(nodes=[make_node("a")], pods=[pod], objects=objects, volume_controller=controlled)
    assert run.run(until=60.0).node_of("web") == node


class Writes(Plugin):
    """Write to what it is shown, where a test wants it."""

    name = "Writes"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        cast("dict[str, str]", node.labels)["seen"] = "yes"
        return None

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None: ...


def test_write_to_a_hook_argument_is_reported_with_its_line() -> None:
    result = Scenario(nodes=[make_node("a")], pods=[make_pod("web")], plugins=[Writes]).run(until=0.5)
    line = inspect.getsourcelines(Writes.filter)[1] + 2
    fetch = f"ReadOnlyError: node a: metadata.labels is read-only, and written to in {__file__}:{line};"
    assert result.message_of("web").startswith(f"plugin 'Writes', hook filter: {fetch}")


async def test_scenario_runs_inside_a_running_loop() -> None:
    scenario = Scenario(nodes=[make_node("a")], pods=[make_pod("web")])
    result = await scenario.at(3600, create(make_pod("late"))).arun()
    assert (result.node_of("web"), result.node_of("late"), result.seconds) == ("a", "a", 3600)
    with pytest.raises(RuntimeError, match=r"await scenario\.arun\(\)"):
        scenario.run()


async def test_error_is_raised_inside_a_running_loop() -> None:
    with pytest.raises(ConfigError):
        await Scenario(config="kind: Nothing").arun()


class LastFirst(Plugin):
    """Try the pods in the reverse order of their names."""

    name = "LastFirst"

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> int:
        return -ord(queued.pod.name[0])


def test_queue_sort_plugin_replaces_the_default_one() -> None:
    pods = [make_pod("a"), make_pod("c"), make_pod("b")]
    result = Scenario(nodes=[make_node()], pods=pods, plugins=[LastFirst]).run()
    assert [decision.pod for decision in result.decisions] == ["default/c", "default/b", "default/a"]
