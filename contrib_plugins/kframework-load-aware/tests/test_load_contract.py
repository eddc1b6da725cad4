"""The three plugins keep the contract of plugins."""

from __future__ import annotations

from random import Random

from kframework_load_aware import LoadVariationRiskBalancing, LowRiskOverCommitment, TargetLoadPacking
from kframework_load_aware.providers import NodeLoad

from kframework.clock import rfc3339
from kframework.testing import PluginContract, make_container, make_node, make_pod

#: The end of the measurement.
AT = 1_000_000.0

NODES = [make_node(f"node-{number}", cpu=4, memory="4Gi") for number in range(3)]

LIMITED = make_container(cpu="500m", limits={"cpu": "2", "memory": "2Gi"})

PODS = [
    make_pod("limited", containers=[LIMITED]),
    make_pod("best-effort", cpu=None, memory=None),
    *[make_pod(f"since-{seconds}", cpu=1, start_time=rfc3339(AT - seconds)) for seconds in (-30, 30, 90)],
]


def loads() -> dict[str, object]:
    """Return loads of some of the nodes that the contract makes, some incomplete, some in amounts."""
    random = Random(0)
    found: dict[str, object] = {}
    for number in range(0, 12, 2):
        found[f"node-{number}"] = NodeLoad(
            AT, random.uniform(0, 110), random.uniform(0, 40), random.uniform(0, 90), random.uniform(0, 20)
        )
    found["node-1"] = NodeLoad(AT, cpu=1500, memory=1 << 30, unit="amount")
    found["node-3"] = NodeLoad(AT, memory=50)
    return found


class LoadedContract(PluginContract):
    examples = 2
    nodes = NODES
    pods = PODS
    sources = {"load": loads()}


class TestTargetLoadPacking(LoadedContract):
    plugin = TargetLoadPacking


class TestLoadVariationRiskBalancing(LoadedContract):
    plugin = LoadVariationRiskBalancing


class TestLowRiskOverCommitment(LoadedContract):
    plugin = LowRiskOverCommitment
