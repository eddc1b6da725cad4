"""NodeResourceTopologyMatch keeps the contract of plugins."""

from __future__ import annotations

from kframework_numa import NodeResourceTopology, NodeResourceTopologyMatch
from kframework_numa.fingerprint import fingerprint, hash_pod
from kframework_numa.testing import guaranteed_pod, report
from msgspec.structs import replace

from kframework.testing import PluginContract, check_wake_ups, make_node, make_pod

PODS = [
    *[guaranteed_pod(f"g-{cpus}", {"cpu": cpus}) for cpus in (1, 2, 3, 4)],
    guaranteed_pod("two-containers", {"cpu": 2}, {"cpu": 1}),
    make_pod("burstable", cpu=1),
    make_pod("with-gpu", cpu=1, requests={"example.com/gpu": 1}),
]
NODES = [make_node(name, cpu=8, allocatable={"example.com/gpu": 2}) for name in ("n1", "n2", "n3")]


def zones(
    name: str, first: int, second: int, policy: str, scope: str, version: int, pods: str = ""
) -> NodeResourceTopology:
    signed = fingerprint(hash_pod("default", each) for each in pods.split())
    made = report(
        name,
        {"cpu": first, "memory": "4Gi", "example.com/gpu": 1},
        {"cpu": second, "memory": "4Gi", "example.com/gpu": 0},
        policy=policy,
        scope=scope,
        fingerprint=signed,
    )
    return replace(made, metadata=replace(made.metadata, resource_version=str(version)))


REPORTS = [
    zones("n1", 2, 2, "single-numa-node", "container", 1),
    zones("n1", 4, 1, "single-numa-node", "container", 2, "g-1"),
    zones("n1", 0, 0, "single-numa-node", "pod", 3, "g-1 g-2"),
    zones("n2", 3, 3, "restricted", "pod", 4),
    zones("n2", 1, 3, "best-effort", "pod", 5, "g-3"),
]
CACHED = {"cacheResyncPeriodSeconds": 5}


class ZonedContract(PluginContract):
    examples = 4
    nodes = NODES
    pods = PODS
    objects = REPORTS


class TestNodeResourceTopologyMatch(ZonedContract):
    plugin = NodeResourceTopologyMatch


class TestWithCache(ZonedContract):
    plugin = NodeResourceTopologyMatch
    args = CACHED


class TestWithFewestZones(ZonedContract):
    plugin = NodeResourceTopologyMatch
    args = {"scoringStrategy": {"type": "LeastNUMANodes"}, "discardReservedNodes": True}
    examples = 3


def test_hints_answer_both_ways() -> None:
    found = check_wake_ups(NodeResourceTopologyMatch, args=CACHED, nodes=NODES, pods=PODS, objects=REPORTS, examples=10)
    event = "NodeResourceTopologyMatch noderesourcetopologies.v1alpha2.topology.node.k8s.ioUpdate"
    assert found.queue[event]
    assert found.skip[event]
