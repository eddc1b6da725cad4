"""All that a fake API server has: the cluster, what of it is served, and the documents of each kind."""

from __future__ import annotations

from kframework.apiserver.catalogue import Catalogue
from kframework.apiserver.collection import Collection
from kframework.apiserver.custom import CustomResourceDefinition, defined
from kframework.apiserver.wire.documents import Complete
from kframework.clock import Clock
from kframework.cluster.memory import MemoryCluster
from kframework.objects import Kind
from kframework.objects.meta import ApiObject


class Store:
    """A cluster as its API server sees it; `complete` adds to each document what the cluster does not know of."""

    def __init__(self, cluster: MemoryCluster, clock: Clock, complete: Complete) -> None:
        self.cluster: MemoryCluster = cluster
        self.clock: Clock = clock
        self.catalogue: Catalogue = Catalogue(cluster)
        self._complete = complete
        self._collections: dict[type[ApiObject], Collection] = {}

    def collection(self, kind: Kind[ApiObject]) -> Collection:
        """Return the documents of a kind, which are kept from the moment when somebody first asks for them."""
        found = self._collections.get(kind.struct)
        if found is None:
            found = self._collections[kind.struct] = Collection(kind, self.cluster, self._complete)
        return found

    def delete_within(self, subject: ApiObject) -> None:
        """Delete what goes with an object: all custom resources of a definition."""
        if isinstance(subject, CustomResourceDefinition):
            for kind in dict.fromkeys(each.stored.struct for each in defined(subject)):
                for each in self.cluster.objects(kind):
                    self.cluster.remove(kind, each.metadata.name, each.metadata.namespace)
