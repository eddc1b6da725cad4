"""What one question costs a built-in plugin: in the scalar form per row, in the columnar form per 5,000 rows, in us.

Half of the nodes are tainted, one in ten is cordoned, a third has no room, and on another the pod's port is taken, so
that rejections are in the average.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
import numpy as np

from benchmarks.timing import microseconds, show
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, PluginArgs
from kframework.objects import Affinity
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.plugins.image_locality import ImageLocality
from kframework.plugins.node_affinity import NodeAffinity
from kframework.plugins.node_declared_features import NodeDeclaredFeatures
from kframework.plugins.node_name import NodeName
from kframework.plugins.node_ports import NodePorts
from kframework.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from kframework.plugins.node_resources_fit.args import NodeResourcesFitArgs, RequestedToCapacityRatio, ScoringStrategy
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.node_unschedulable import NodeUnschedulable
from kframework.plugins.shared_args import ResourceSpec, UtilizationShapePoint
from kframework.plugins.taint_toleration import TaintToleration
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod

NODES = 5000

#: Required: disk in (ssd, nvme) and cores > 4; preferred: zone-1, and no spot instance.
AFFINITY = msgspec.convert(
    {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
                            {"key": "cores", "operator": "Gt", "values": ["4"]},
                        ]
                    }
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 2, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]}},
                {"weight": 1, "preference": {"matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}]}},
            ],
        }
    },
    Affinity,
)


def main() -> None:
    """Print the table."""
    cluster = _cluster()
    pod = make_pod(
        cpu="500m",
        memory="512Mi",
        image="registry/web",
        host_ports=[8080],
        affinity=AFFINITY,
        tolerations=["dedicated=a:NoSchedule"],
    )
    pending = PendingPod(pod, cluster.interner)
    show(
        ("PLUGIN", "SIGN", "FILTER", "FILTER 5000", "SCORE", "SCORE 5000", "NORMALIZE 5000"),
        [_row(title, plugin, cluster, pending) for title, plugin in _plugins().items()],
    )


def _plugins() -> dict[str, Plugin]:
    shape = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
    three = tuple(ResourceSpec(name=name) for name in ("cpu", "memory", "ephemeral-storage"))
    strategies = {
        "LeastAllocated": ScoringStrategy(type="LeastAllocated"),
        "MostAllocated": ScoringStrategy(type="MostAllocated"),
        "RequestedToCapacityRatio": ScoringStrategy(
            type="RequestedToCapacityRatio", requested_to_capacity_ratio=RequestedToCapacityRatio(shape=shape)
        ),
        "three resources": ScoringStrategy(type="LeastAllocated", resources=three),
    }
    by_node = (NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodeDeclaredFeatures, ImageLocality)
    plugins = {plugin.name: _made(plugin) for plugin in (*by_node, NodePorts, DynamicResources)}
    for title, strategy in strategies.items():
        args = NodeResourcesFitArgs(scoring_strategy=strategy)
        plugins[f"NodeResourcesFit, {title}"] = _made(NodeResourcesFit, args)
    for title, resources in {"two resources": three[:2], "three": three}.items():
        balance = NodeResourcesBalancedAllocationArgs(resources=resources)
        plugins[f"...BalancedAllocation, {title}"] = _made(NodeResourcesBalancedAllocation, balance)
    return plugins


def _made(plugin: type[Plugin], args: PluginArgs | None = None) -> Plugin:
    return plugin(args or plugin.Args(), cast("Handle", ClusterState()))  # none of them asks more of it than stores


def _cluster() -> ClusterState:
    cluster = ClusterState()
    for number in range(NODES):
        taints = ("", "dedicated=a:NoSchedule", "", "dedicated=b:NoSchedule", "", "spot:PreferNoSchedule")[number % 6]
        node = make_node(
            f"node-{number}",
            cpu=2 if number % 3 else 1,
            allocatable={"ephemeral-storage": "100Gi"},
            labels={"disk": ("ssd", "hdd", "nvme")[number % 3], "cores": str(4 << number % 4), "zone": str(number % 2)},
            taints=[taints] if taints else [],
            unschedulable=number % 10 == 0,
            images={"registry/web:latest": 500 << 20} if number % 2 else {},
        )
        cluster.put_node(node)
        ports = [8080] if number % 3 == 1 else []
        name, node_name = f"pod-{number}", node.metadata.name
        cluster.put_pod(make_pod(name, cpu="700m", memory="1Gi", host_ports=ports, node_name=node_name))
    return cluster


def _row(title: str, plugin: Plugin, cluster: ClusterState, pod: PendingPod) -> list[object]:
    nodes, state, rows = cluster.nodes, CycleState(), cluster.nodes.order
    infos = list(nodes)

    def once(hook: str, *args: object) -> float | None:
        method = _hook(plugin, hook)
        return microseconds(lambda: method(*args)) if method is not None else None

    def per_row(hook: str) -> float | None:
        method = _hook(plugin, hook)
        if method is None:
            return None
        return microseconds(lambda: [method(state, pod, info) for info in infos]) / len(infos)

    for hook, args in {"pre_filter": (state, pod, nodes), "pre_score": (state, pod, nodes, rows)}.items():
        prepare = _hook(plugin, hook)
        if prepare is not None:
            prepare(*args)
    return [
        title,
        once("sign", pod),
        per_row("filter"),
        once("filter_nodes", state, pod, nodes, rows),
        per_row("score"),
        once("score_nodes", state, pod, nodes, rows),
        once("normalize_score", state, pod, np.arange(NODES, dtype=np.int64) % 3),
    ]


def _hook(plugin: Plugin, name: str) -> Callable[..., object] | None:
    return getattr(plugin, name, None)


if __name__ == "__main__":
    main()
