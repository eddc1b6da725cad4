"""All that a fake API server has: the cluster, what of it is served, and the documents of each kind.

Served are the kinds known here, what plugins declare, what users define, and the metrics of `kubectl top`: as nothing
runs, a pod uses what it requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from kframework.client.transitions import has_ended
from kframework.clock import Clock
from kframework.fake_api.collection import Collect, Collection
from kframework.fake_api.custom.definitions import CustomResourceDefinition, defined
from kframework.fake_api.schema.shared_specs import nanos
from kframework.fake_api.served import Resource, built_in, built_in_kinds, declared
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, name, text
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Kind, Node, Pod, all_kinds, kind_of
from kframework.objects.kinds import foreign_kind
from kframework.objects.requests import on_node_requests

API_VERSION = "metrics.k8s.io/v1beta1"
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
    used = []
    for each in containers:
        requests = mapping(each, "resources.requests")
        usage = _amounts(-(-nanos(requests.get("cpu")) // 10**6), nanos(requests.get("memory")) // 10**9)
        used.append({"name": text(each, "name"), "usage": usage})
    return _head(cluster, pod, "PodMetrics") | {"containers": used}


def _head(cluster: MemoryCluster, document: Data, kind: str) -> Data:
    metadata = mapping(document, "metadata")
    kept = {
        field: metadata[field] for field in ("name", "namespace", "labels", "creationTimestamp") if field in metadata
    }
    times = {"timestamp": cluster.timestamp(), "window": "1m0s"}
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": kept, **times}


def _amounts(cpu: int, memory: int) -> Data:
    """Write milli-CPU and bytes."""
    return {"cpu": f"{cpu}m", "memory": f"{memory // 1024}Ki"}


class Catalogue:
    """What is served, by apiVersion and plural name."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._usage = Usage(cluster)
        self._resources = self._collected()
        cluster.subscribe([CustomResourceDefinition], self._redefined)

    def find(self, api_version: str, plural: str) -> Resource | None:
        """Look a kind up by its place in the API; None if it is not served."""
        found = self._resources.get((api_version, plural))
        if found is None:
            self._resources = self._collected()  # a plugin may have declared it just now
            found = self._resources.get((api_version, plural))
        return found

    def resources(self) -> tuple[Resource, ...]:
        """List all that is served, group by group, in the order in which clients are to know the groups."""
        self._resources = self._collected()
        return in_discovery_order(
            self._resources.values(), lambda resource: bool(self._cluster.objects(resource.stored.struct))
        )

    def _collected(self) -> dict[tuple[str, str], Resource]:
        """Collect from all sources; where two serve the same, that counts which knows more of it.

        A definition of a kind that a plugin has declared serves that very kind, under its own short names and columns.
        """
        definitions = self._cluster.objects(CustomResourceDefinition)
        users = [resource for definition in definitions for resource in defined(definition)]
        collected: dict[tuple[str, str], Resource] = {}
        sources = (*map(built_in, built_in_kinds()), *users, *map(declared, all_kinds()), *self._usage.resources())
        for resource in sources:
            collected.setdefault((resource.kind.api_version, resource.kind.plural), resource)
        return collected

    def _redefined(self, change: Change) -> None:
        self._resources = {}


class Store:
    """A cluster as its API server sees it; `collect` makes the documents of a kind."""

    def __init__(self, cluster: MemoryCluster, clock: Clock, collect: Collect = Collection) -> None:
        self.cluster: MemoryCluster = cluster
        self.clock: Clock = clock
        self.catalogue: Catalogue = Catalogue(cluster)
        self._collect = collect
        self._collections: dict[type[ApiObject], Collection] = {}

    def collection(self, kind: Kind[ApiObject]) -> Collection:
        """Return the documents of a kind, which are kept from the moment when somebody first asks for them."""
        found = self._collections.get(kind.struct)
        if found is None:
            found = self._collections[kind.struct] = self._collect(kind, self.cluster)
        return found

    def delete_within(self, subject: ApiObject) -> None:
        """Delete what goes with an object: all custom resources of a definition."""
        if isinstance(subject, CustomResourceDefinition):
            for kind in dict.fromkeys(each.stored.struct for each in defined(subject)):
                for each in self.cluster.objects(kind):
                    self.cluster.remove(kind, each.metadata.name, each.metadata.namespace)


def in_discovery_order(served: Iterable[Resource], has_objects: Callable[[Resource], bool]) -> tuple[Resource, ...]:
    """Order what is served by its groups, and within a group by version and name.

    Where several groups have a resource of one name, kubectl takes the first: `kubectl get podgroups` is about one of
    three here. A real API server puts its own groups first, but serves their alpha versions only if it is told to. Here
    all are served, so groups with objects come first, then the more stable ones.
    """
    groups: dict[str, list[Resource]] = {}
    offering: dict[str, set[str]] = {}
    for resource in sorted(served, key=lambda each: (each.group, each.version, each.kind.plural)):
        groups.setdefault(resource.group, []).append(resource)
        if resource.group:  # the core comes before all others, wherever it stands
            offering.setdefault(resource.kind.plural, set()).add(resource.group)

    def rank(name: str) -> tuple[bool, int, str]:
        contested = [each for each in groups[name] if len(offering.get(each.kind.plural, ())) > 1]
        versions = [each.version for each in contested]
        instability = 2 if any("alpha" in each for each in versions) else int(any("beta" in each for each in versions))
        return bool(contested) and not any(map(has_objects, contested)), instability, name

    return tuple(chain.from_iterable(groups[name] for name in sorted(groups, key=rank)))
