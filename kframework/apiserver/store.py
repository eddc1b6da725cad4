"""All that a fake API server has: the cluster, what of it is served, and the documents of each kind."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.apiserver.catalogue import Catalogue
from kframework.apiserver.collection import Collection
from kframework.apiserver.custom import CustomResourceDefinition, defined
from kframework.clock import Clock
from kframework.cluster.memory import MemoryCluster
from kframework.objects import Kind, Namespace
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

    def delete_within(self, subject: ApiObject) -> None:
        """Delete what goes with an object: all that is in a namespace, all custom resources of a definition."""
        if isinstance(subject, Namespace):
            kinds = {each.stored: None for each in self.catalogue.resources() if each.stored.namespaced}
            self._empty(kinds, subject.metadata.name)
        elif isinstance(subject, CustomResourceDefinition):
            self._empty({each.stored: None for each in defined(subject)}, "")

    def _empty(self, kinds: Iterable[Kind[ApiObject]], namespace: str) -> None:
        """Delete all objects of these kinds, in a namespace or in all, pods without grace."""
        for kind in kinds:
            for each in self.cluster.objects(kind.struct, namespace):
                metadata = each.metadata
                self.cluster.remove(kind.struct, metadata.name, metadata.namespace, grace=0)
