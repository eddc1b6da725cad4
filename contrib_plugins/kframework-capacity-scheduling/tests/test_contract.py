"""CapacityScheduling keeps the contract of plugins."""

from __future__ import annotations

from kframework_capacity_scheduling import CapacityScheduling
from kframework_capacity_scheduling.testing import quota

from kframework.testing import PluginContract, check_wake_ups, make_node, make_pod

QUOTAS = [
    quota("default", 2, 3),
    quota("default", 1, 2),
    quota("default", 4, 4),
    quota("other", 1, 3),
    quota("other", 3, 3),
]
NODES = [make_node("small", cpu=2), make_node("large", cpu=8)]
PODS = [
    *[make_pod(f"d-{number}", cpu=1, priority=number) for number in range(3)],
    *[make_pod(f"o-{number}", cpu=1, namespace="other", priority=number) for number in range(3)],
    make_pod("two", cpu=2),
    make_pod("two", cpu=2, namespace="other"),
]


class TestCapacityScheduling(PluginContract):
    plugin = CapacityScheduling
    examples = 4
    nodes = NODES
    pods = PODS
    objects = QUOTAS


class TestWithDefaultPlugins(PluginContract):
    plugin = CapacityScheduling
    other_plugins = ("NodeResourcesFit",)
    examples = 3
    nodes = NODES
    pods = PODS
    objects = QUOTAS


def test_hints_answer_both_ways() -> None:
    found = check_wake_ups(
        CapacityScheduling, other_plugins=("NodeResourcesFit",), nodes=NODES, pods=PODS, objects=QUOTAS, examples=8
    )
    for event in ("AssignedPodDelete", "elasticquotas.v1alpha1.scheduling.x-k8s.ioUpdate"):
        assert found.queue[f"CapacityScheduling {event}"]
        assert found.skip[f"CapacityScheduling {event}"]
    assert found.needless_share < 0.8
