"""Admission of bindings: a pod is bound only to a node that has room for it, whatever its scheduler had seen.

API servers have no such check. There a kubelet fails the pod that its node has no room for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kframework.client import api_errors
from kframework.client.transitions import has_ended
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import Node, Pod
from kframework.objects.requests import allocatable, fit_requests, on_node_requests, reports_other_requests
from kframework.state.host_ports import HostPort, any_conflict, host_ports


class _Load(NamedTuple):
    """What a pod takes of its node."""

    node: str
    amounts: Mapping[str, int]
    ports: Sequence[HostPort]


class BindingAdmission:
    """Rejects bindings that a kubelet would reject for lack of resources, of a place among its pods or of host ports.

    It counts every binding at once, so of two schedulers that choose the last room on a node the second one loses.
    Resources that a node does not list are not checked, as in kubelets.

    Attributes:
        rejected: The bindings to nodes without room.
        late: The bindings of pods that were already bound, which the API server itself rejects.
    """

    def __init__(self, cluster: MemoryCluster) -> None:
        self.rejected: int = 0
        self.late: int = 0
        self._allocatable: dict[str, Mapping[str, int]] = {}
        self._used: dict[str, Counter[str]] = {}
        self._ports: dict[str, Counter[HostPort]] = {}
        self._loads: dict[str, _Load] = {}  # by uid
        for subject in (*cluster.objects(Node), *cluster.objects(Pod)):
            self._receive(Change(0, None, subject))
        cluster.subscribe([Node, Pod], self._receive)
        cluster.admit_binding = self.check

    def check(self, pod: Pod, node_name: str) -> None:
        """Raise ClusterError 403 if the node has no room for the pod; unknown nodes are not checked."""
        if pod.spec.node_name:
            self.late += 1
            return
        missing = self._find_shortage(pod, node_name)
        if missing:
            self.rejected += 1
            raise api_errors.forbidden(Pod, pod.metadata.name, f"node {node_name} has not enough {missing} left")

    def _find_shortage(self, pod: Pod, node_name: str) -> str:
        """Name what the node lacks for the pod; "" if it has room."""
        room, used = self._allocatable.get(node_name), self._used.get(node_name, Counter[str]())
        if room is None:
            return ""
        for name, amount in {**fit_requests(pod.spec), "pods": 1}.items():
            if amount and name in room and used[name] + amount > room[name]:
                return name
        ports = host_ports(pod.spec)
        return "host ports" if ports and any_conflict(ports, self._ports.get(node_name, ())) else ""

    def _receive(self, change: Change) -> None:
        match change.subject:
            case Pod() as pod:
                self._receive_pod(pod, change)
            case Node(metadata=metadata) as node:
                if change.new is None:
                    del self._allocatable[metadata.name]
                else:
                    self._allocatable[metadata.name] = allocatable(node)

    def _receive_pod(self, pod: Pod, change: Change) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        if not node or change.new is None or has_ended(pod):
            self._add(self._loads.pop(uid, None), -1)
        elif uid not in self._loads or not change.is_of_status or reports_other_requests(pod):
            self._add(self._loads.pop(uid, None), -1)
            self._loads[uid] = _Load(node, {**on_node_requests(pod), "pods": 1}, host_ports(pod.spec))
            self._add(self._loads[uid], 1)

    def _add(self, load: _Load | None, sign: int) -> None:
        if load is None:
            return
        used = self._used.setdefault(load.node, Counter())
        for name, amount in load.amounts.items():
            used[name] += sign * amount
        if load.ports:
            ports = self._ports.setdefault(load.node, Counter())
            ports.update(dict.fromkeys(load.ports, sign))
            self._ports[load.node] = +ports
