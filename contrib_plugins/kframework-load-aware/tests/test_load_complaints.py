"""What users of load-aware scheduling complain about, each beside the naive rule that leads there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from kframework_load_aware import LoadVariationRiskBalancing, LowRiskOverCommitment, TargetLoadPacking
from kframework_load_aware.load_aware import Figures
from kframework_load_aware.providers import NodeLoad

from kframework import NodeInfo, Plugin, PodInfo
from kframework.clock import rfc3339
from kframework.objects import Pod
from kframework.testing import Scenario, ScenarioResult, create, make_container, make_node, make_pod

NODES = [make_node(f"n{number}", cpu=16, memory="64Gi") for number in range(4)]
FAMILY = (TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment)


class FollowsSamplesAlone:
    """Rate nodes by what was measured, whatever has been bound to them since."""

    def unmeasured(self, node: object, load: object) -> Iterator[tuple[PodInfo, float]]:
        return iter(())


class PacksBySamples(FollowsSamplesAlone, TargetLoadPacking):
    pass


class BalancesBySamples(FollowsSamplesAlone, LoadVariationRiskBalancing):
    pass


class CommitsBySamples(FollowsSamplesAlone, LowRiskOverCommitment):
    pass


class LowestWithoutSample(LoadVariationRiskBalancing):
    """Give the lowest score to a node without a sample, as scheduler-plugins does."""

    def measure(self, nodes: Sequence[Any]) -> Figures:
        figures = super().measure(nodes)
        figures[:, :, [node.name not in self._load for node in nodes]] = float("nan")
        return figures


def scenario(plugin: type[Plugin[Any]], load: Mapping[str, NodeLoad] | None, pods: Sequence[Pod] = ()) -> Scenario:
    """Set up nodes on which nothing but the plugin has an opinion about scores."""
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: {plugin.name}}}]}}
"""
    prepared = Scenario(nodes=NODES, pods=pods, plugins=[plugin], config=config)
    script = prepared.source(plugin.name, "load", load)
    if load is None:
        script.fail("no metrics server")
    return prepared


def burst(number: int, **settings: Any) -> list[Pod]:
    return [make_pod(f"web-{each}", **{"cpu": 1, "memory": "1Gi", **settings}) for each in range(number)]


def spread(result: ScenarioResult) -> Counter[str]:
    return Counter(pod.spec.node_name for pod in result.cluster.objects(Pod))


def percent(at: float, *cpu: float, deviation: float = 10.0) -> dict[str, NodeLoad]:
    return {f"n{number}": NodeLoad(at, each, deviation, 20, 5) for number, each in enumerate(cpu)}


#: A measurement before all pods start, and one after that.
BEFORE, AFTER = 0.0, 4e9


@pytest.mark.parametrize(
    ("plugin", "naive"), [(TargetLoadPacking, PacksBySamples), (LoadVariationRiskBalancing, BalancesBySamples)]
)
def test_burst_between_two_samples_does_not_land_on_one_node(
    plugin: type[Plugin[Any]], naive: type[Plugin[Any]]
) -> None:
    """All pods of a burst see the same sample: without counting those before them, they all choose the same node."""
    load = percent(BEFORE, 19, 18, 17, 12)
    assert max(spread(scenario(plugin, load, burst(14)).run()).values()) <= 5
    assert max(spread(scenario(naive, load, burst(14)).run()).values()) == 14


def old(node: str, cpu: str, limit: str) -> Pod:
    """Make a pod that is in every sample."""
    container = make_container(cpu=cpu, limits={"cpu": limit})
    return make_pod(f"old-{node}", containers=[container], node_name=node, start_time="2020-01-01T00:00:00Z")


def measured(*cpu: float, deviation: float) -> dict[str, NodeLoad]:
    """Return loads of cpu alone, at a time after which no pod of a test starts."""
    return {f"n{number}": NodeLoad(AFTER, each, deviation) for number, each in enumerate(cpu)}


def test_requests_of_new_pods_do_not_make_a_node_with_greedy_pods_look_safe() -> None:
    """What new pods request is not yet in the load: compared with it, the load seems to be far below the requests."""
    new = [make_pod(f"new-{n}", cpu=1, node_name="n1") for n in range(6)]
    pods = [old("n0", "3", "8"), *(old(f"n{n}", "1", "8") for n in (1, 2, 3)), *new, make_pod("web", cpu=1)]
    load = measured(17, 25, 60, 60, deviation=1)
    assert scenario(LowRiskOverCommitment, load, pods).run().node_of("web") == "n0"
    assert scenario(CommitsBySamples, load, pods).run().node_of("web") == "n1"


@pytest.mark.parametrize("plugin", FAMILY)
def test_cluster_without_metrics_is_scheduled(plugin: type[Plugin[Any]]) -> None:
    assert "" not in spread(scenario(plugin, None, burst(8)).run())


@pytest.mark.parametrize("plugin", FAMILY)
def test_load_that_is_no_longer_measured_is_forgotten(plugin: type[Plugin[Any]]) -> None:
    prepared = scenario(plugin, None)
    script = prepared.source(plugin.name, "load", percent(BEFORE, 20, 40, 60, 80))
    prepared.at(10, script.stop_publishing())
    for pod in burst(12, cpu="1m", memory="1Mi"):
        prepared.at(1000, create(pod))
    result = prepared.run(until=1100)
    assert len(spread(result)) > 2, "the nodes are equal again"


class CountsLastMinute(TargetLoadPacking):
    """Count pods in that started less than a minute before the end of the sample, as scheduler-plugins does."""

    def unmeasured(self, node: NodeInfo, load: NodeLoad) -> Iterator[tuple[PodInfo, float]]:
        return super().unmeasured(node, msgspec.structs.replace(load, window=60.0))


def test_pod_counts_until_the_mean_contains_all_of_it() -> None:
    """Of a pod that started five minutes ago a mean over fifteen contains a third."""
    started = rfc3339(AFTER - 300)
    new = [make_pod(f"new-{n}", cpu=2, node_name="n1", start_time=started) for n in range(4)]
    load = {name: msgspec.structs.replace(each, window=900.0) for name, each in percent(AFTER, 20, 25, 1, 1).items()}
    pods = [*new, make_pod("web", cpu=1)]
    assert scenario(TargetLoadPacking, load, pods).run().node_of("web") == "n0"
    assert scenario(CountsLastMinute, load, pods).run().node_of("web") == "n1"


def test_new_node_is_used_before_it_has_been_measured() -> None:
    """An autoscaler adds a node for pods that wait; if it has the lowest score, the others fill up first."""
    pods, load = burst(3), percent(BEFORE, 60, 60, 60)
    assert set(spread(scenario(LoadVariationRiskBalancing, load, pods).run())) == {"n3"}
    assert "n3" not in spread(scenario(LowestWithoutSample, load, pods).run())


class CountsAllAfterRestart(TargetLoadPacking):
    """Take the pods that a scheduler finds when it starts for new ones, as scheduler-plugins does."""

    def unmeasured(self, node: Any, load: object) -> Iterator[tuple[PodInfo, float]]:
        return ((pod, 1.0) for pod in node.pods)


def test_restarted_scheduler_counts_no_pod_twice() -> None:
    """Pods that have run for days are in the sample; counted again, the nodes seem full and packing stops."""
    load = percent(AFTER, 10, 30, 10, 10)
    pods = [old("n1", "6", "6"), make_pod("web", cpu="500m")]
    assert scenario(TargetLoadPacking, load, pods).run().node_of("web") == "n1"
    assert scenario(CountsAllAfterRestart, load, pods).run().node_of("web") != "n1"


class IgnoresDeviation(LoadVariationRiskBalancing):
    """Balance by the mean alone."""

    def rate(self, demand: Any, figures: Figures) -> Any:
        figures = figures.copy()
        figures[:, 1] = 0
        return super().rate(demand, figures)


def test_steady_node_is_preferred_to_one_that_is_lower_on_average_and_bursts() -> None:
    load = percent(AFTER, 90, 90, 30, 35) | {"n2": NodeLoad(AFTER, 30, 30, 20, 5)}
    pods = burst(1)
    assert scenario(LoadVariationRiskBalancing, load, pods).run().node_of("web-0") == "n3"
    assert scenario(IgnoresDeviation, load, pods).run().node_of("web-0") == "n2"


class CountsLoadOnly(LowRiskOverCommitment):
    """See no limits."""

    def rate(self, demand: Any, figures: Figures) -> Any:
        load = figures[0]
        return 100 * (1 - load.max(axis=0))


def test_limits_that_exceed_the_node_are_a_risk_before_they_are_used() -> None:
    pods = [old("n0", "2", "24"), *(old(f"n{n}", "2", "4") for n in (1, 2, 3)), *burst(1, cpu=1)]
    load = measured(5, 11, 11, 11, deviation=1)
    assert scenario(LowRiskOverCommitment, load, pods).run().node_of("web-0") != "n0"
    assert scenario(CountsLoadOnly, load, pods).run().node_of("web-0") == "n0"
