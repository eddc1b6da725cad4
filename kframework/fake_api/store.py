"""The contents of a fake API server: the cluster, the served resources, and the documents of each kind.

Served are built-in kinds, kinds that plugins declare, custom resources, and the metrics of `kubectl top`, where a pod
uses what it requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from kframework.client.transitions import has_ended
from kframework.clock import Clock
from kframework.fake_api.collection import Collection, CollectionFactory
from kframework.fake_api.custom.definitions import CustomResourceDefinition, defined_resources
from kframework.fake_api.resources import ApiResource, built_in_kinds, built_in_resource, declared_resource
from kframework.fake_api.schema.shared_specs import parse_nanos
from kframework.fake_api.wire.documents import Data
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Kind, Node, Pod, all_kinds, kind_of
from kframework.objects.kinds import foreign_kind
from kframework.objects.plain_data import entries, mapping, name, text
from kframework.objects.requests import on_node_requests

API_VERSION = "metrics.k8s.io/v1beta1"
_READ = ("get", "list")


class ResourceUsage:
    """Resource usage in a cluster; sums by node are cached until the next write."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._version = -1
        self._nodes: dict[str, Counter[str]] = {}

    def resources(self) -> tuple[ApiResource, ...]:
        nodes = foreign_kind(API_VERSION, "NodeMetrics", "nodes", namespaced=False)
        pods = foreign_kind(API_VERSION, "PodMetrics", "pods", namespaced=True)
        pod_view = partial(_pod_metrics, self._cluster)
        return (
            ApiResource(nodes, kind_of(Node), "", to_view=self._node_metrics, read_verbs=_READ, is_live=True),
            ApiResource(pods, kind_of(Pod), "", to_view=pod_view, read_verbs=_READ, is_live=True),
        )

    def _node_metrics(self, node: Data) -> Data:
        if self._version != self._cluster.version:
            self._version, self._nodes = self._cluster.version, {}
            for pod in self._cluster.objects(Pod):
                if pod.spec.node_name and not has_ended(pod):
                    self._nodes.setdefault(pod.spec.node_name, Counter()).update(on_node_requests(pod))
        used = self._nodes.get(name(node), Counter[str]())
        return _metrics_head(self._cluster, node, "NodeMetrics") | {
            "usage": _format_usage(used.get("cpu", 0), used.get("memory", 0))
        }


def _pod_metrics(cluster: MemoryCluster, pod: Data) -> Data:
    runs = text(pod, "status.phase") == "Running"
    containers = entries(pod, "spec.containers") if runs else []
    used = []
    for each in containers:
        requests = mapping(each, "resources.requests")
        cpu, memory = parse_nanos(requests.get("cpu")), parse_nanos(requests.get("memory"))
        usage = _format_usage(-(-cpu // 10**6), memory // 10**9)
        used.append({"name": text(each, "name"), "usage": usage})
    return _metrics_head(cluster, pod, "PodMetrics") | {"containers": used}


def _metrics_head(cluster: MemoryCluster, document: Data, kind: str) -> Data:
    metadata = mapping(document, "metadata")
    kept_metadata = {
        field: metadata[field] for field in ("name", "namespace", "labels", "creationTimestamp") if field in metadata
    }
    times = {"timestamp": cluster.timestamp(), "window": "1m0s"}
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": kept_metadata, **times}


def _format_usage(cpu: int, memory: int) -> Data:
    return {"cpu": f"{cpu}m", "memory": f"{memory // 1024}Ki"}


class Catalogue:
    """The resources that a cluster serves by its feature gates, by apiVersion and plural."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._built_in = [each for each in built_in_kinds() if each.is_served(cluster.feature_gates)]
        self._absent = {(each.api_version, each.plural) for each in built_in_kinds()}.difference(
            (each.api_version, each.plural) for each in self._built_in
        )
        self._usage = ResourceUsage(cluster)
        self._resources = self._collect()
        cluster.subscribe([CustomResourceDefinition], self._invalidate)

    def find(self, api_version: str, plural: str) -> ApiResource | None:
        resource = self._resources.get((api_version, plural))
        if resource is None:
            self._resources = self._collect()  # a plugin may have declared it meanwhile
            resource = self._resources.get((api_version, plural))
        return resource

    def resources(self) -> tuple[ApiResource, ...]:
        self._resources = self._collect()
        return sort_for_discovery(
            self._resources.values(), lambda resource: bool(self._cluster.objects(resource.storage_kind.struct))
        )

    def _collect(self) -> dict[tuple[str, str], ApiResource]:
        """Collect the resources from all sources; the first source of a resource wins.

        A definition of a kind that a plugin has declared serves that kind, with its own short names and columns. Usage
        is measured here, also if a plugin declares the kind to read it.
        """
        definitions = self._cluster.objects(CustomResourceDefinition)
        custom = [resource for definition in definitions for resource in defined_resources(definition)]
        resources: dict[tuple[str, str], ApiResource] = {}
        declared = (
            declared_resource(kind) for kind in all_kinds() if (kind.api_version, kind.plural) not in self._absent
        )
        sources = (*map(built_in_resource, self._built_in), *self._usage.resources(), *custom, *declared)
        for resource in sources:
            resources.setdefault((resource.kind.api_version, resource.kind.plural), resource)
        return resources

    def _invalidate(self, change: Change) -> None:
        self._resources = {}


class Store:
    """A cluster with its served resources; `collect` creates the collection of a kind."""

    def __init__(self, cluster: MemoryCluster, clock: Clock, collect: CollectionFactory = Collection) -> None:
        self.cluster: MemoryCluster = cluster
        self.clock: Clock = clock
        self.catalogue: Catalogue = Catalogue(cluster)
        self._collect = collect
        self._collections: dict[type[ApiObject], Collection] = {}

    def collection(self, kind: Kind[ApiObject]) -> Collection:
        collection = self._collections.get(kind.struct)
        if collection is None:
            collection = self._collections[kind.struct] = self._collect(kind, self.cluster)
        return collection

    def delete_contents(self, subject: ApiObject) -> None:
        """Delete what belongs to an object: all custom resources of a definition."""
        if isinstance(subject, CustomResourceDefinition):
            for kind in dict.fromkeys(each.storage_kind.struct for each in defined_resources(subject)):
                for each in self.cluster.objects(kind):
                    self.cluster.remove_object(each)


def sort_for_discovery(
    served: Iterable[ApiResource], has_objects: Callable[[ApiResource], bool]
) -> tuple[ApiResource, ...]:
    """Sort resources by group, and within a group by version and name.

    If several groups have a resource of the same name, kubectl uses the first: `kubectl get podgroups` can mean three.
    A real API server puts its own groups first and serves no alpha versions by default. Here all are served, so groups
    with objects come first, then the more stable ones.
    """
    groups: dict[str, list[ApiResource]] = {}
    groups_by_plural: dict[str, set[str]] = {}
    for resource in sorted(served, key=lambda each: (each.group, each.version, each.kind.plural)):
        groups.setdefault(resource.group, []).append(resource)
        if resource.group:  # the core always comes first
            groups_by_plural.setdefault(resource.kind.plural, set()).add(resource.group)

    def rank(name: str) -> tuple[bool, int, str]:
        contested = [each for each in groups[name] if len(groups_by_plural.get(each.kind.plural, ())) > 1]
        versions = [each.version for each in contested]
        instability = 2 if any("alpha" in each for each in versions) else int(any("beta" in each for each in versions))
        return bool(contested) and not any(map(has_objects, contested)), instability, name

    return tuple(chain.from_iterable(groups[name] for name in sorted(groups, key=rank)))
