"""What is not yet reported counts in every zone until a report is known to include it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kframework_numa import NodeResourceTopology, NodeResourceTopologyMatch
from kframework_numa.fingerprint import fingerprint, hash_pod, xxh64
from kframework_numa.testing import WITH_CACHE, guaranteed_pod, publish, report
from msgspec.structs import replace

from kframework.engine import MemoryCluster
from kframework.objects import Pod
from kframework.testing import Scenario, ScenarioResult, create, delete, make_node, make_pod

MEMORY = {"memory": "8Gi"}
TEN_PODS = (
    "analytics/controller-69dkj kube-public/subscriber-tq6v7 kube-public/transformer-hfbng kube-public/validator-c6pn5"
    " kube-system/proxy-wszrd middleware/processor-jkrl4 network/gateway-vsll5 network/importer-kzdfr"
    " network/importer-q5vt9 staging/prometheus-bwgbn"
)


def zones(*cpus: int, pods: str | None = "", **more: str) -> NodeResourceTopology:
    """Make a report that includes these pods, separated by spaces; None for a report without a fingerprint."""
    signed = "" if pods is None else fingerprint(hash_pod("default", name) for name in pods.split())
    return report("node", *({"cpu": each, **MEMORY} for each in cpus), fingerprint=signed, **more)  # type: ignore[arg-type]  # they are attributes


def pod(name: str, cpu: int | str = 3, *, node_name: str = "") -> Pod:
    made = guaranteed_pod(name, {"cpu": cpu})
    return replace(made, spec=replace(made.spec, node_name=node_name))


CACHE_OFF = "cacheResyncPeriodSeconds: 0"


def started(pod: Pod, at: str) -> Pod:
    return replace(pod, status=replace(pod.status, start_time=at))


def run(
    first: NodeResourceTopology,
    *steps: tuple[float, Callable[[MemoryCluster], object]],
    config: str = WITH_CACHE,
) -> ScenarioResult:
    scenario = Scenario(
        nodes=[make_node("node", cpu=16, memory="64Gi")],
        objects=[first],
        plugins=[NodeResourceTopologyMatch],
        config=config,
    )
    for seconds, step in steps:
        scenario.at(seconds, step)
    return scenario.run(until=250)


def test_pod_that_is_not_reported_counts_in_all_zones() -> None:
    result = run(zones(4, 4), (1, create(pod("one"))), (2, create(pod("two"))))
    assert result.node_of("one") == "node"
    assert "cannot align container" in result.message_of("two")
    alone = run(zones(4, 4), (1, create(pod("one", cpu=1))), (2, create(pod("two"))))
    assert alone.node_of("two") == "node", "there is room in either zone"


def test_report_that_includes_the_pod_ends_that() -> None:
    steps = [(1.0, create(pod("one"))), (2.0, create(pod("two")))]
    assert run(zones(4, 4), *steps, (60, publish(zones(1, 4, pods="one")))).node_of("two") == "node"


def test_report_from_before_the_pod_changes_nothing() -> None:
    result = run(zones(4, 4), (1, create(pod("one"))), (2, create(pod("two"))), (60, publish(zones(5, 5))))
    assert result.node_of("two") is None


@pytest.mark.parametrize(
    "config", [WITH_CACHE, *(WITH_CACHE.replace("cacheResyncPeriodSeconds: 5", other) for other in (CACHE_OFF, ""))]
)
def test_without_the_cache_the_newest_report_counts_whatever_it_includes(config: str) -> None:
    result = run(zones(4, 4), (1, create(pod("one"))), (2, create(pod("two"))), config=config)
    assert (result.node_of("two") is None) is ("Seconds: 5" in config)


def test_reported_pod_that_has_gone_leaves_its_room_to_the_next_report() -> None:
    there = pod("one", node_name="node")
    steps = [(0.0, create(there)), (1.0, create(pod("two"))), (50.0, delete(there))]
    assert run(zones(1, pods="one"), *steps).node_of("two") is None
    assert run(zones(1, pods="one"), *steps, (120, publish(zones(4)))).node_of("two") == "node"


def test_pod_that_has_gone_before_it_was_reported_leaves_its_room_at_once() -> None:
    result = run(zones(4), (1, create(pod("one"))), (2, create(pod("two"))), (50, delete(pod("one"))))
    assert result.node_of("two") == "node"


def test_first_report_that_does_not_match_includes_nothing() -> None:
    """After a start it is unknown which pods a report includes; the next one tells."""
    there = pod("one", node_name="node")
    stale = [(0.0, create(there)), (1.0, create(pod("two")))]
    assert run(zones(4), *stale).node_of("two") is None
    assert run(zones(4, pods="one"), *stale).node_of("two") == "node"
    assert run(zones(4), *stale, (60, publish(zones(3, pods="one")))).node_of("two") == "node"


@pytest.mark.parametrize("reported", ["old older", "older", ""])
def test_after_a_start_pods_count_in_all_zones_only_if_they_came_after_the_report(reported: str) -> None:
    """A pod of the report that counted once more would leave no zone with room for the next one."""
    starts = {"older": "2025-01-01T00:00:00Z", "old": "2025-01-02T00:00:00Z", "new": "2025-01-03T00:00:00Z"}
    there = [started(pod(name, cpu=1, node_name="node"), at) for name, at in starts.items()]
    steps = [*((0.0, create(each)) for each in there), (1.0, create(pod("next", cpu=2)))]
    missing = len(starts) - len(reported.split())
    assert run(zones(2 + missing, pods=reported), *steps).node_of("next") == "node"
    assert run(zones(1 + missing, pods=reported), *steps).node_of("next") is None
    assert run(zones(4, pods="other"), *steps).node_of("next") is None, "all three count"


def test_pods_of_other_schedulers_count_as_all_others() -> None:
    """A report may come before the scheduler sees the pod; then it matches as soon as that is seen."""
    foreign = pod("foreign", node_name="node")
    steps = [(1.0, create(foreign)), (2.0, create(pod("own")))]
    assert run(zones(4), *steps).node_of("own") is None
    early = run(zones(4, 4), (1, publish(zones(1, 4, pods="foreign"))), (2, create(foreign)), (3, create(pod("own"))))
    assert early.node_of("own") == "node"


def test_changed_policy_counts_at_once() -> None:
    change = zones(4, 4, policy="best-effort", pods="unknown")
    result = run(zones(4, 4), (1, create(pod("one"))), (2, create(pod("two", cpu=9))), (60, publish(change)))
    assert result.node_of("two") == "node"


@pytest.mark.parametrize("how", ["attribute", "argument"])
def test_fingerprint_may_be_of_pods_with_exclusive_resources_only(how: str) -> None:
    settings = {"nodeTopologyPodsFingerprintMethod": "with-exclusive-resources"} if how == "attribute" else {}
    config = WITH_CACHE if how == "attribute" else WITH_CACHE + "      cache: {resyncMethod: OnlyExclusiveResources}\n"
    result = run(
        zones(4, 4, **settings),
        (0, create(make_pod("shares-cpus", node_name="node"))),
        (1, create(pod("one"))),
        (2, create(pod("two"))),
        (60, publish(zones(1, 4, pods="one", **settings))),
        config=config,
    )
    assert result.node_of("two") == "node"


def test_report_without_a_fingerprint_is_taken_to_include_all_pods() -> None:
    steps = [(1.0, create(pod("one"))), (2.0, create(pod("two")))]
    assert run(zones(4, 4, pods=None), *steps).node_of("two") is None
    assert run(zones(4, 4, pods=None), *steps, (60, publish(zones(1, 4, pods=None)))).node_of("two") == "node"


def test_discard_reserved_nodes_avoids_nodes_of_pods_about_to_be_bound_and_wakes_the_next() -> None:
    config = WITH_CACHE.replace("cacheResync", "discardReservedNodes: true\n      cacheResync")
    result = run(zones(4, 4), (1, create(pod("one"))), (1, create(pod("two"))), config=config)
    assert result.node_of("one") == result.node_of("two") == "node"
    assert "invalid node topology data" in result.decisions_on("two")[0].message


@pytest.mark.parametrize(
    ("pods", "signature"),
    [
        ("production/jaeger-dpgjk production/nginx-rt684 production/envoy-g9m22", "pfp0v001607b76a0e9d3aeb4"),
        (TEN_PODS, "pfp0v001567144e4a561bb5a"),
    ],
)
def test_fingerprint_is_that_of_podfingerprint(pods: str, signature: str) -> None:
    assert fingerprint(hash_pod(*each.split("/")) for each in reversed(pods.split())) == signature


def test_hash_of_nothing_is_known() -> None:
    assert xxh64(b"") == 0xEF46DB3751D8E999
