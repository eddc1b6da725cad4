"""Several profiles in one scheduler: one state and one queue, each profile with its own plugins and Args."""

from __future__ import annotations

from kframework import (
    CycleState,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.testing import Scenario, create, delete, make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]
- schedulerName: careful
  plugins:
    multiPoint:
      enabled: [{name: AtMost}]
  pluginConfig:
  - name: AtMost
    args: {pods: 1}
- schedulerName: less-careful
  plugins:
    multiPoint:
      enabled: [{name: AtMost}]
  pluginConfig:
  - name: AtMost
    args: {pods: 2}
"""


class AtMostArgs(PluginArgs):
    """How many pods a node may hold."""

    pods: int = 1


class AtMost(Plugin):
    """Reject nodes that are full enough."""

    name = "AtMost"
    Args = AtMostArgs
    reads = "pods"

    args: AtMostArgs

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("full enough") if len(node.pods) >= self.args.pods else None


def scenario(*nodes: str) -> Scenario:
    """Set up nodes of 4 cores under the four profiles."""
    return Scenario(nodes=[make_node(name, cpu=4) for name in nodes], plugins=[AtMost], config=CONFIG)


def test_each_profile_uses_its_own_plugins() -> None:
    run = scenario("a", "b").at(0.0, create(make_pod("first", cpu=1, node_name="a")))
    for name in ("default-scheduler", "packing"):
        run.at(0.0, create(make_pod(f"of-{name}", scheduler_name=name)))
    result = run.run()
    assert (result.node_of("of-default-scheduler"), result.node_of("of-packing")) == ("b", "a")


def test_profiles_see_the_pods_of_other_profiles_at_once() -> None:
    run = scenario("a")
    for n in range(4):
        run.at(0.0, create(make_pod(f"p{n}", cpu=2, scheduler_name=("default-scheduler", "packing")[n % 2])))
    result = run.run()
    assert [result.node_of(f"p{n}") for n in range(4)] == ["a", "a", None, None]


def test_plugin_instances_have_the_args_of_their_profile() -> None:
    run = scenario("a")
    for name in ("careful", "less-careful"):
        for n in range(2):
            run.at(0.0, create(make_pod(f"{name}-{n}", scheduler_name=name)))
    result = run.run()
    bound = [name for name in ("careful-0", "careful-1", "less-careful-0", "less-careful-1") if result.node_of(name)]
    assert bound == ["careful-0", "less-careful-0"]
    assert result.queued("careful-1").rejectors == {"AtMost"}


def test_pods_of_all_profiles_share_one_queue() -> None:
    run = scenario("a")
    for priority, name in enumerate(("packing", "careful", "default-scheduler")):
        run.at(0.0, create(make_pod(f"of-{name}", scheduler_name=name, priority=priority)))
    order = [decision.pod for decision in run.run().decisions]
    assert order[:3] == ["default/of-default-scheduler", "default/of-careful", "default/of-packing"]


def test_event_requeues_pods_of_every_profile() -> None:
    run = scenario("a").at(0.0, create(make_pod("full", cpu=4, node_name="a")))
    for name in ("packing", "careful"):
        run.at(0.0, create(make_pod(f"of-{name}", cpu=1, scheduler_name=name)))
    run.at(50.0, delete(make_pod("full")))
    result = run.run()
    assert result.node_of("of-packing") == "a"
    assert all(len(result.decisions_on(f"of-{name}")) > 1 for name in ("packing", "careful"))


def test_pod_of_no_profile_is_not_scheduled() -> None:
    result = scenario("a").at(0.0, create(make_pod("foreign", scheduler_name="somebody-else"))).run()
    assert (result.state_of("foreign"), result.decisions) == ("neither", ())
