"""What users of load-aware scheduling complain about, each beside the naive rule that leads there."""

from __future__ import annotations

import json
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


def scenario(
    plugin: type[Plugin[Any]],
    load: Mapping[str, NodeLoad] | None,
    pods: Sequence[Pod] = (),
    args: Mapping[str, object] | None = None,
) -> Scenario:
    """Set up nodes on which nothing but the plugin has an opinion about scores."""
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: {plugin.name}}}]}}
  pluginConfig: [{{name: {plugin.name}, args: {json.dumps(args or {})}}}]
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
    for name in ("safeVarianceMargin", "safeVarianceSensitivity"):
        assert scenario(LoadVariationRiskBalancing, load, pods, {name: 0}).run().node_of("web-0") == "n2"


def test_node_is_as_risky_as_the_worse_of_cpu_and_memory() -> None:
    cpu_alone = {name: NodeLoad(AFTER, 10 if name == "n0" else 40) for name in ("n0", "n1", "n2", "n3")}
    load = {
        name: msgspec.structs.replace(each, memory=90.0 if name == "n0" else 40.0) for name, each in cpu_alone.items()
    }
    assert scenario(LoadVariationRiskBalancing, load, burst(1)).run().node_of("web-0") != "n0"
    assert scenario(LoadVariationRiskBalancing, cpu_alone, burst(1)).run().node_of("web-0") == "n0"


class PredictsRequests(TargetLoadPacking):
    """Expect of pods that they use what they request."""

    def demand(self, pod: PodInfo) -> int:
        return dict(pod.on_node).get("cpu", 0)


@pytest.mark.parametrize(
    ("request_", "limits", "right", "naive"),
    [
        ("1", {"cpu": "4"}, 14, 30.5),  # a quarter of the node is expected: what the pod may use
        ("2", {}, 21, 27),  # half as much again as it requests
        (None, {}, 33, 39),  # one cpu, of a pod that says nothing
    ],
)
def test_pods_are_expected_to_use_more_than_they_request(
    request_: str | None, limits: dict[str, str], right: float, naive: float
) -> None:
    web = make_pod("web", containers=[make_container(cpu=request_, memory=None, limits=limits)])
    load = percent(AFTER, right, naive, 90, 90)
    assert scenario(TargetLoadPacking, load, [web]).run().node_of("web") == "n0"
    assert scenario(PredictsRequests, load, [web]).run().node_of("web") == "n1"


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


def test_limits_count_for_each_resource_as_much_as_the_args_say() -> None:
    limits = {"n0": ("4", "640Gi"), "n1": ("20", "1Gi"), "n2": ("20", "1Gi"), "n3": ("20", "1Gi")}
    pods = [
        make_pod(
            f"old-{name}",
            containers=[make_container(cpu="2", memory="1Gi", limits={"cpu": cpu, "memory": memory})],
            node_name=name,
        )
        for name, (cpu, memory) in limits.items()
    ]
    pods += burst(1)
    assert scenario(LowRiskOverCommitment, {}, pods).run().node_of("web-0") != "n0", "the worse one counts"
    without_memory = {"riskLimitWeights": {"memory": 0}}
    assert scenario(LowRiskOverCommitment, {}, pods, without_memory).run().node_of("web-0") == "n0"


@pytest.mark.parametrize(("args", "best"), [({}, "n1"), ({"smoothingWindowSize": 1}, "n0")])
def test_mean_of_several_samples_hides_how_much_they_deviate(args: dict[str, object], best: str) -> None:
    """Of a mean over five samples the deviation is less than half of what one sample has."""
    pods = [old("n0", "4", "15"), old("n1", "4", "17"), old("n2", "4", "80"), old("n3", "4", "80"), *burst(1, cpu=1)]
    load = measured(20, 20, 20, 20, deviation=0) | {"n0": NodeLoad(AFTER, 20, 3)}
    assert scenario(LowRiskOverCommitment, load, pods, args).run().node_of("web-0") == best
