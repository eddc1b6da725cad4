"""NodePorts: a host port of a node can be used only once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from kframework.framework.cycle_state import CycleState
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, hookimpl
from kframework.framework.suggestions import PENDING_POD, Suggestion, Suggestions, delete_all, patch_field
from kframework.objects import Container, PodSpec
from kframework.state.host_ports import HostPort, any_conflict
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows, Scores
from kframework.values.status import Skip, Status, unschedulable

REASON = "node(s) didn't have free ports for the requested pod ports"

_CONFLICT = unschedulable(REASON)


class NodePorts(Plugin):
    """Reject nodes where another pod uses a host port that the pod needs."""

    name = "NodePorts"
    reads: ClassVar[Reads] = "pods"
    sign_reads: ClassVar[SignReads] = ()

    @hookimpl
    def sign(self, pod: PendingPod) -> frozenset[HostPort]:
        return pod.template.cached(NodePorts, lambda spec: frozenset(pod.template.host_ports))

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        return None if pod.template.host_ports else Skip

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        row, host_ports = node.row, node.table.host_ports
        conflicts = any(
            row in rows for wanted in pod.template.host_ports for rows in host_ports.conflicting_rows(wanted)
        )
        return _CONFLICT if conflicts else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        bits = np.zeros(nodes.capacity, dtype=np.int64)
        for wanted in pod.template.host_ports:
            for conflicting in nodes.host_ports.conflicting_rows(wanted):
                bits[np.fromiter(conflicting, dtype=np.int64, count=len(conflicting))] = 1
        return bits[rows]

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _CONFLICT

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None  # only `filter` rejects
        wanted = pod.template.host_ports
        used = [port for other in node.pods for port in other.template.host_ports]
        return [
            delete_all(other for other in node.pods if any_conflict(wanted, other.template.host_ports)),
            tuple(drop_host_port(port) for port in dict.fromkeys(wanted) if any_conflict((port,), used)),
        ]

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.POD, ActionType.DELETE, after_pod_deletion),
            ClusterEvent(EventResource.NODE, ActionType.ADD),
        ]


def drop_host_port(wanted: HostPort) -> Suggestion:
    def drop_port(container: Container) -> Container:
        ports = tuple(
            replace(port, host_port=0)
            if (port.host_ip or wanted.ip, port.protocol or "TCP", port.host_port) == wanted
            else port
            for port in container.ports
        )
        return replace(container, ports=ports)

    def patch(spec: PodSpec) -> PodSpec:
        init_containers = tuple(map(drop_port, spec.init_containers))
        return replace(spec, containers=tuple(map(drop_port, spec.containers)), init_containers=init_containers)

    text = f"drop the pod's host port {wanted.port}/{wanted.protocol}"
    port = {"port": wanted.port, "protocol": wanted.protocol, "ip": wanted.ip}
    return Suggestion(text, PENDING_POD, patch_field("spec", patch), "dropHostPort", port)


def after_pod_deletion(pod: PendingPod, old: PodInfo, new: None) -> QueueingHint:
    """Queue the pod if a pod that used, or was nominated with, one of its ports has left its node."""
    was_on_node = bool(old.node_name or old.nominated_node_name)
    return queue_if(was_on_node and any_conflict(pod.template.host_ports, old.template.host_ports))
