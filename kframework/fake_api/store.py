"""All that a fake API server has: the cluster, what of it is served, and the documents of each kind.

Served are the kinds known here, what plugins declare, and what users define.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from kframework.clock import Clock
from kframework.fake_api.built_in_kinds import built_in_kinds
from kframework.fake_api.collection import Collect, Collection
from kframework.fake_api.custom.definitions import CustomResourceDefinition, defined
from kframework.fake_api.served import Resource, built_in, declared
from kframework.fake_api.usage import Usage
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Kind, all_kinds


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
        return in_discovery_order(self._resources.values(), self._has_objects)

    def _has_objects(self, resource: Resource) -> bool:
        return bool(self._cluster.objects(resource.stored.struct))

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
        instability = max((_instability(each.version) for each in contested), default=0)
        return bool(contested) and not any(map(has_objects, contested)), instability, name

    return tuple(chain.from_iterable(groups[name] for name in sorted(groups, key=rank)))


def _instability(version: str) -> int:
    return 2 if "alpha" in version else 1 if "beta" in version else 0
