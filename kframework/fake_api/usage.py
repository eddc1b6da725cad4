"""What nodes and pods use, for `kubectl top`: as nothing runs, what they ask for.

The API is metrics-server's, `metrics.k8s.io`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from kframework.client.transitions import has_ended
from kframework.fake_api.served import Resource
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, name, text
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Node, Pod, kind_of
from kframework.objects.kinds import foreign_kind
from kframework.objects.quantity import QuantityError, nano
from kframework.objects.requests import on_node_requests

API_VERSION = "metrics.k8s.io/v1beta1"
_WINDOW = "1m0s"
_READ = ("get", "list")


class Usage:
    """What is used in a cluster; by node it is added up once for all who ask before something else is written."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._version = -1
        self._nodes: dict[str, Counter[str]] = {}

    def resources(self) -> tuple[Resource, ...]:
        """Serve it: pods and nodes, as seen by their use."""
        nodes = foreign_kind(API_VERSION, "NodeMetrics", "nodes", namespaced=False)
        pods = foreign_kind(API_VERSION, "PodMetrics", "pods", namespaced=True)
        return (
            Resource(nodes, kind_of(Node), "", shown=self._node, reading=_READ, is_live=True),
            Resource(pods, kind_of(Pod), "", shown=partial(_pod, self._cluster), reading=_READ, is_live=True),
        )

    def _node(self, node: Data) -> Data:
        if self._version != self._cluster.version:
            self._version, self._nodes = self._cluster.version, {}
            for pod in self._cluster.objects(Pod):
                if pod.spec.node_name and not has_ended(pod):
                    self._nodes.setdefault(pod.spec.node_name, Counter()).update(on_node_requests(pod))
        used = self._nodes.get(name(node), Counter[str]())
        return _head(self._cluster, node, "NodeMetrics") | {
            "usage": _amounts(used.get("cpu", 0), used.get("memory", 0))
        }


def _pod(cluster: MemoryCluster, pod: Data) -> Data:
    """Say what the containers of a pod use, those of one that does not run nothing."""
    runs = text(pod, "status.phase") == "Running"
    containers = entries(pod, "spec.containers") if runs else []
    used = [{"name": text(each, "name"), "usage": _asked(mapping(each, "resources.requests"))} for each in containers]
    return _head(cluster, pod, "PodMetrics") | {"containers": used}


def _head(cluster: MemoryCluster, document: Data, kind: str) -> Data:
    metadata = mapping(document, "metadata")
    kept = {
        field: metadata[field] for field in ("name", "namespace", "labels", "creationTimestamp") if field in metadata
    }
    times = {"timestamp": cluster.timestamp(), "window": _WINDOW}
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": kept, **times}


def _asked(requests: Mapping[str, object]) -> Data:
    return _amounts(-(-_nanos(requests.get("cpu")) // 10**6), _nanos(requests.get("memory")) // 10**9)


def _nanos(amount: object) -> int:
    try:
        return nano(amount) if isinstance(amount, str | int | float) else 0
    except QuantityError:
        return 0


def _amounts(cpu: int, memory: int) -> Data:
    """Write milli-CPU and bytes."""
    return {"cpu": f"{cpu}m", "memory": f"{memory // 1024}Ki"}
