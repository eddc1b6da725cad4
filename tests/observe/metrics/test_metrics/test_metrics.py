"""What a scheduler has done is what its metrics show; health checks are counted by their results."""

from __future__ import annotations

from collections import Counter

import pytest

import kframework
from kframework.objects import Node
from kframework.observe.history import Reload
from kframework.observe.metrics.metrics import HealthMetrics, ReloadMetrics, build_info, enabled_features
from kframework.state.inbox import Upserted
from kframework.testing import make_node, make_pod
from kframework.values.feature_gates import RELEASES, FeatureGates
from kframework.values.status import Code
from tests.observe.metrics.exposition import samples, text
from tests.observe.metrics.rig import Rig, ran

CLUSTER = (
    *(make_node(f"n{number}", cpu=4) for number in range(3)),
    *(make_pod(f"small-{number}", cpu=1) for number in range(14)),
    make_pod("big", cpu=99),
    make_pod("held", gates=["later"]),
)


def test_attempt_metrics_match_decisions_and_bindings() -> None:
    rig = ran(*CLUSTER)
    ends = Counter(
        ("default-scheduler", decision.result.value) for decision in rig.decisions if decision.result != "scheduled"
    )
    ends["default-scheduler", "scheduled"] = sum(binding.code is Code.SUCCESS for binding in rig.bindings)
    assert rig.values("scheduler_schedule_attempts_total") == ends
    assert rig.count_of("scheduler_scheduling_algorithm_duration_seconds") == {(): len(rig.decisions)}
    points = rig.count_of("scheduler_framework_extension_point_duration_seconds")
    assert points["Bind", "default-scheduler", "Success"] == len(rig.bindings) == 12


async def enlarge(rig: Rig) -> None:
    """Give the pods room that have none, whenever their rest is over."""
    await rig.cluster.create(make_node("large", cpu=200))
    await rig.settle()


def test_requeued_pods_count_several_attempts() -> None:
    rig = ran(*CLUSTER, then=enlarge)
    assert rig.count_of("scheduler_pod_scheduling_attempts") == {(): 15}
    assert rig.count_of("scheduler_pod_scheduling_sli_duration_seconds") == {("1",): 12, ("2",): 3}
    assert rig.values("scheduler_pending_pods") == {
        ("active",): 0,
        ("backoff",): 0,
        ("gated",): 1,
        ("unschedulable",): 0,
    }
    assert (
        rig.values("scheduler_queue_incoming_pods_total")["NodeAdd", "active"]
        + rig.values("scheduler_queue_incoming_pods_total").get(("NodeAdd", "backoff"), 0)
        == 3
    )


def test_victims_of_preemption_are_counted() -> None:
    rig = ran(
        make_node("a", cpu=4),
        *(make_pod(f"low-{number}", cpu=1, node_name="a") for number in range(4)),
        make_pod("high", cpu=3, priority=1000),
    )
    assert rig.values("scheduler_preemption_attempts_total") == {(): 1}
    assert rig.sum_of("scheduler_preemption_victims") == {(): 3}


def test_health_check_results_are_counted_and_the_last_is_kept() -> None:
    health = HealthMetrics()
    health.count_check("readyz", "shutdown", None)
    health.count_check("readyz", "shutdown", "process is shutting down")
    health.count_check("livez", "ping", None)
    assert samples(text(health.series)) == {
        'kubernetes_healthcheck{name="ping",type="livez"}': 1,
        'kubernetes_healthcheck{name="shutdown",type="readyz"}': 0,
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"}': 1,
        'kubernetes_healthchecks_total{name="shutdown",status="error",type="readyz"}': 1,
        'kubernetes_healthchecks_total{name="shutdown",status="success",type="readyz"}': 1,
    }


def test_health_reset_clears_counts_but_keeps_the_last_result() -> None:
    health = HealthMetrics()
    health.count_check("livez", "ping", None)
    for series in health.series:
        series.reset()
    assert samples(text(health.series)) == {'kubernetes_healthcheck{name="ping",type="livez"}': 1}


@pytest.mark.parametrize(("minor", "release"), RELEASES.items())
def test_build_info_names_the_followed_release_of_the_minor(minor: str, release: str) -> None:
    ((name, value),) = samples(text([build_info(minor)])).items()
    version = f'git_version="{release}+kframework.{kframework.__version__}"'
    number = f'minor="{minor.removeprefix("1.")}"'
    assert value == 1
    assert [label for label in ('major="1"', number, version, 'go_version=""') if label not in name] == []


def test_feature_metric_shows_stage_and_value_of_each_gate() -> None:
    shown = samples(text([enabled_features(FeatureGates("1.36", {"StorageCapacityScoring": True}))]))
    assert shown['kubernetes_feature_enabled{name="StorageCapacityScoring",stage="ALPHA"}'] == 1
    assert shown['kubernetes_feature_enabled{name="DRADeviceTaintRules",stage="BETA"}'] == 0
    assert shown['kubernetes_feature_enabled{name="SidecarContainers",stage=""}'] == 1


def test_informer_metrics_show_the_last_applied_version_and_what_waits() -> None:
    rig = ran(*CLUSTER)
    node = ("", "kube-scheduler", "nodes", "v1")
    assert rig.count_of("informer_processing_latency_seconds")[node] == 3
    versions = [int(each.metadata.resource_version) for each in rig.cluster.objects(Node)]
    assert rig.values("informer_store_resource_version")[node] == max(versions)
    assert rig.values("informer_queued_items")[node] == 0
    rig.scheduler.engine.inbox.offer(Upserted(make_node("late")))
    assert rig.values("informer_queued_items")[node] == 1


def test_reloads_are_counted_and_the_last_one_is_kept() -> None:
    metrics = ReloadMetrics()
    for reload in (Reload(10.0, 2, "changed a"), Reload(20.0, 2, problem="no"), Reload(30.0, 2, problem="no")):
        metrics.count_reload(reload)
    lines = "".join(line for series in metrics.series for line in series.lines()).splitlines()
    assert sorted(lines) == [
        "kframework_configuration_last_reload_success_timestamp_seconds 10.0",
        "kframework_configuration_last_reload_successful 0",
        'kframework_configuration_reloads_total{result="refused"} 2',
        'kframework_configuration_reloads_total{result="taken"} 1',
    ]
