"""The utilization of nodes: columns of numbers, one per node, from which a picture of thousands of nodes is drawn."""

from __future__ import annotations

import msgspec
import numpy as np

from kframework.plugins.dynamic_resources.devices import NodeDevice, node_devices
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeTable

#: The maximum numbers of shown resources, pods of a node and devices of a node.
MAX_RESOURCES, MAX_PODS, MAX_DEVICES = 12, 250, 250

_FIRST = ("cpu", "memory", "pods", "ephemeral-storage")


class Utilisation(msgspec.Struct, frozen=True):
    """A resource's allocatable and requested amounts by node: milli-CPU for `cpu`, whole units for all else."""

    resource: str
    allocatable: list[int]
    requested: list[int]


class NodeColumns(msgspec.Struct, frozen=True):
    """The nodes in node order, a column per fact.

    `zone` is an index into `zones`; `cordoned` and `tainted` list the positions of nodes that are.
    """

    names: list[str]
    zones: list[str]
    zone: list[int]
    cordoned: list[int]
    tainted: list[int]
    utilisation: list[Utilisation]


class NodePod(msgspec.Struct, frozen=True):
    """A pod on a node; `requests` are (resource, amount) in the units of `Utilisation`."""

    pod: str
    priority: int
    terminating: bool
    requests: tuple[tuple[str, int], ...]


class NodeDetails(msgspec.Struct, frozen=True, rename="camel"):
    """One node: its labels, its taints as text, its largest pods, and the first of its `devices_total` devices."""

    node: str
    labels: dict[str, str]
    taints: tuple[str, ...]
    total: int
    pods: tuple[NodePod, ...]
    devices_total: int = 0
    devices: tuple[NodeDevice, ...] = ()


def list_nodes(table: NodeTable) -> NodeColumns:
    order, by_row = table.order, table.by_row
    rows: list[int] = order.tolist()
    zones: dict[tuple[str, str], int] = {}
    # Resources of every node come first.
    resources = [name for name, column in table.allocatables.items() if column.values.any()]
    resources.sort(key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    return NodeColumns(
        names=[by_row[row].name for row in rows],
        zone=[zones.setdefault(table.zone(row), len(zones)) for row in rows],
        zones=["/".join(filter(None, zone)) for zone in zones],
        cordoned=np.flatnonzero(table.unschedulable.values[order]).tolist(),
        tainted=np.flatnonzero(table.taint_sets.values[order]).tolist(),
        utilisation=[
            Utilisation(
                resource, table.allocatable(resource)[order].tolist(), table.requested(resource)[order].tolist()
            )
            for resource in resources[:MAX_RESOURCES]
        ],
    )


def describe_node(cluster: ClusterState, name: str) -> NodeDetails | None:
    """Show one node; None if there is no such node."""
    info = cluster.nodes.find(name)
    if info is None:
        return None
    pods = sorted(info.pods, key=lambda pod: (*pod.non_zero, pod.key), reverse=True)
    devices = node_devices(cluster, info)
    return NodeDetails(
        name,
        dict(info.labels),
        tuple(f"{each.key}{f'={each.value}' if each.value else ''}:{each.effect}" for each in info.taints),
        len(pods),
        tuple(NodePod(pod.key, pod.priority, pod.terminating, pod.on_node) for pod in pods[:MAX_PODS]),
        len(devices),
        tuple(devices[:MAX_DEVICES]),
    )
