"""All that a fake API server has: the cluster, what of it is served, and the documents of each kind."""

from __future__ import annotations

from kframework.apiserver.catalogue import Catalogue
from kframework.apiserver.collection import Collection
from kframework.clock import Clock
from kframework.cluster.memory import MemoryCluster
from kframework.objects import Kind
from kframework.objects.meta import ApiObject

__all__ = ["Store"]


class Store:
    """A cluster as its API server sees it."""

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.catalogue = Catalogue(cluster)
        self._collections: dict[type[ApiObject], Collection] = {}

    def collection(self, kind: Kind[ApiObject]) -> Collection:
        """Return the documents of a kind, which are kept from the moment when somebody first asks for them."""
        found = self._collections.get(kind.struct)
        if found is None:
            found = self._collections[kind.struct] = Collection(kind, self.cluster)
        return found

    def empty(self, namespace: str) -> None:
        """Delete all that is in a namespace, pods without grace."""
        for kind in {resource.stored: None for resource in self.catalogue.resources() if resource.stored.namespaced}:
            for each in self.cluster.objects(kind.struct, namespace):
                self.cluster.remove(kind.struct, each.metadata.name, namespace, grace=0)
