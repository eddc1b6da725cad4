"""The storage of the cluster, looked up as the volume plugins need it; kept current by the stores."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Set, Sized
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from kframework.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    LabelSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from kframework.objects.claims import Wanted, capacity, is_claimed_by, is_free, volume_class
from kframework.objects.csi_migration import migrated_plugins
from kframework.objects.label_selectors import SelectorError, label_selector
from kframework.objects.node_selectors import NodeSelectorTerms
from kframework.objects.quantity import value
from kframework.state import selection
from kframework.state.nodes import NodeTable
from kframework.state.objects import ObjectStore, Stores
from kframework.state.selection import Mask
from kframework.values.scores import Rows

Key = TypeVar("Key")
Entries = TypeVar("Entries", bound=Sized)

#: A volume preceded by its sort key: its capacity, then its name.
Entry = tuple[int, str, PersistentVolume]


class ClassVolumes:
    """The available volumes of one storage class, the smallest first.

    Free volumes are grouped by reach: `anywhere`; by the value of one node label, as local volumes are; or another way
    (`elsewhere`). `kept` are those reserved for a claim, or bound to it, by its namespace and name. `reach_of` has the
    reach of each, by its name.
    """

    def __init__(self) -> None:
        self.anywhere: list[Entry] = []
        self.by_label: dict[str, dict[str, list[Entry]]] = {}
        self.elsewhere: list[Entry] = []
        self.kept: dict[tuple[str, str], list[Entry]] = {}
        self.reach_of: dict[str, Reach] = {}

    def add(self, volume: PersistentVolume) -> None:
        """Add a volume; one that is neither free nor reserved is ignored."""
        name = volume.metadata.name
        reach = self.reach_of[name] = Reach.of_volume(volume.spec.node_affinity)
        for entries in self._places(volume, reach):
            insort(entries, (capacity(volume), name, volume))

    def remove(self, volume: PersistentVolume) -> None:
        """Leave a volume out."""
        name, by = volume.metadata.name, volume.spec.claim_ref
        reach = self.reach_of.pop(name)
        for entries in self._places(volume, reach):
            del entries[bisect_left(entries, (capacity(volume), name))]
        if by is not None:
            _drop_empty(self.kept, (by.namespace, by.name))
        elif reach.label_values is not None:
            key, values = reach.label_values
            for value in values:
                _drop_empty(self.by_label.get(key, {}), value)
            _drop_empty(self.by_label, key)

    def _places(self, volume: PersistentVolume, reach: Reach) -> Iterator[list[Entry]]:
        by = volume.spec.claim_ref
        if by is not None:
            yield self.kept.setdefault((by.namespace, by.name), [])
        elif not is_free(volume):
            return
        elif reach.anywhere:
            yield self.anywhere
        elif reach.label_values is None:
            yield self.elsewhere
        else:
            key, values = reach.label_values
            for value in dict.fromkeys(values):
                yield self.by_label.setdefault(key, {}).setdefault(value, [])


def _drop_empty(by_key: dict[Key, Entries], key: Key) -> None:
    if key in by_key and not by_key[key]:
        del by_key[key]


class Candidates:
    """The volumes that one claim may get, computed node by node on demand; SelectorError as `Wanted`."""

    def __init__(self, volumes: ClassVolumes, claim: PersistentVolumeClaim) -> None:
        self._volumes = volumes
        self._wanted = Wanted(claim)
        kept = volumes.kept.get((claim.metadata.namespace, claim.metadata.name), ())
        self._kept = [each for each in kept if is_claimed_by(each[2], claim) and self._wanted.suits(each[2])]
        self._sifted: dict[tuple[str, str], list[Entry]] = {}

    @property
    def labels(self) -> frozenset[str]:
        """The node labels that the choice depends on; empty if it is the same for all nodes."""
        volumes = self._volumes
        reaches = [volumes.reach_of[name].labels for _, name, _ in (*self._kept, *volumes.elsewhere)]
        return frozenset(volumes.by_label).union(*reaches)

    def best(self, labels: Mapping[str, str], taken: Set[str]) -> PersistentVolume | None:
        """Choose for a node of these labels, leaving out the volumes of these names.

        A volume that is kept for the claim is its only choice; else it is the smallest that will do, of equals the
        first by name.
        """
        for _, name, volume in self._kept:
            if name not in taken:
                return volume if self._volumes.reach_of[name].covers(labels) else None
        smallest: Entry | None = None
        for entries in self._reached(labels):
            first = next((entry for entry in entries if entry[1] not in taken), None)
            if first is not None and (smallest is None or first < smallest):
                smallest = first
        return smallest[2] if smallest is not None else None

    def _reached(self, labels: Mapping[str, str]) -> Iterator[Iterable[Entry]]:
        """List the volumes that a node reaches and the claim may take, place by place, each the smallest first."""
        volumes = self._volumes
        if volumes.anywhere:
            yield self._best_fit(("", ""), volumes.anywhere)
        for key, by_value in volumes.by_label.items():
            label = labels.get(key)
            if label is not None and label in by_value:
                yield self._best_fit((key, label), by_value[label])
        if volumes.elsewhere:
            fitting = self._best_fit(("", "elsewhere"), volumes.elsewhere)
            yield (each for each in fitting if volumes.reach_of[each[1]].covers(labels))

    def _best_fit(self, place: tuple[str, str], entries: list[Entry]) -> list[Entry]:
        if place not in self._sifted:
            large_enough = entries[bisect_left(entries, (self._wanted.size,)) :]
            self._sifted[place] = [each for each in large_enough if self._wanted.may_take(each[2])]
        return self._sifted[place]


# -- indexes over the stores ---------------------------------------------------------------------------------------


class VolumesByClass:
    """The volumes of each storage class."""

    def __init__(self, store: ObjectStore[PersistentVolume]) -> None:
        self._classes: dict[str, ClassVolumes] = {}
        store.follow(self._changed)

    def __getitem__(self, name: str) -> ClassVolumes:
        """Return the volumes of a class, possibly empty."""
        return self._classes.get(name) or ClassVolumes()

    def _changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            name = volume_class(old)
            self._classes[name].remove(old)
            if not self._classes[name].reach_of:
                del self._classes[name]
        if new is not None:
            self._classes.setdefault(volume_class(new), ClassVolumes()).add(new)


class StorageCapacities:
    """The capacity for new volumes of each storage class."""

    def __init__(self, store: ObjectStore[CSIStorageCapacity]) -> None:
        self._classes: dict[str, dict[tuple[str, str], tuple[int, Reach]]] = {}
        store.follow(self._changed)

    def enough(self, storage_class: str, size: int) -> list[Reach]:
        """Return the reaches with capacity for a volume of this many bytes."""
        return [reach for limit, reach in self._classes.get(storage_class, {}).values() if limit >= size]

    def _changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None:
            self._classes.get(old.storage_class_name, {}).pop((old.metadata.namespace, old.metadata.name), None)
        limit = largest_volume(new) if new is not None else None
        if new is not None and limit is not None:
            rooms = self._classes.setdefault(new.storage_class_name, {})
            rooms[new.metadata.namespace, new.metadata.name] = (limit, Reach.of_capacity(new.node_topology))


def largest_volume(room: CSIStorageCapacity) -> int | None:
    """Return the size of the largest volume for which there is room, in bytes; None if that is not known."""
    limit = room.maximum_volume_size if room.maximum_volume_size is not None else room.capacity
    return value(limit) if limit is not None else None


class Migrations:
    """The nodes on which CSI drivers do the work of an in-tree plugin."""

    def __init__(self, store: ObjectStore[CSINode]) -> None:
        self._nodes: dict[str, dict[str, None]] = {}
        store.follow(self._changed)

    def nodes(self, plugin: str) -> Collection[str]:
        """Name the nodes on which a plugin has been replaced."""
        return self._nodes.get(plugin, ())

    def _changed(self, old: CSINode | None, new: CSINode | None) -> None:
        if old is not None:
            for plugin in migrated_plugins(old):
                del self._nodes[plugin][old.metadata.name]
        if new is not None:
            for plugin in migrated_plugins(new):
                self._nodes.setdefault(plugin, {})[new.metadata.name] = None


class Storage:
    """The stores and shared indexes that volume plugins use."""

    def __init__(self, stores: Stores) -> None:
        self.claims: ObjectStore[PersistentVolumeClaim] = stores.objects(PersistentVolumeClaim)
        self.volumes: ObjectStore[PersistentVolume] = stores.objects(PersistentVolume)
        self.classes: ObjectStore[StorageClass] = stores.objects(StorageClass)
        self.drivers: ObjectStore[CSIDriver] = stores.objects(CSIDriver)
        self.by_class: VolumesByClass = self.volumes.index(VolumesByClass)
        self.capacities: StorageCapacities = stores.objects(CSIStorageCapacity).index(StorageCapacities)
        self.migrations: Migrations = stores.objects(CSINode).index(Migrations)


class Reach:
    """The nodes whose labels match one of these terms; conditions on other fields are ignored.

    An empty or invalid term matches no node.
    """

    __slots__ = ("_compiled", "_terms", "anywhere", "labels")

    def __init__(self, terms: Iterable[NodeSelectorTerm]) -> None:
        said = (term for term in terms if term.match_expressions or term.match_fields)
        sound = [replace(term, match_fields=()) for term in said if not NodeSelectorTerms((term,)).errors]
        #: Whether every node matches.
        self.anywhere: bool = any(not term.match_expressions for term in sound)
        #: The labels that decide; empty if every node matches.
        self.labels: frozenset[str] = frozenset(each.key for term in sound for each in term.match_expressions)
        if self.anywhere:
            self.labels = frozenset()
        self._terms = tuple(sound)
        self._compiled = NodeSelectorTerms(sound)

    @classmethod
    def of_volume(cls, affinity: VolumeNodeAffinity | None) -> Reach:
        """Read the node affinity of a PersistentVolume."""
        required = affinity.required if affinity is not None else None
        return ANYWHERE if required is None else cls(required.node_selector_terms)

    @classmethod
    def of_class(cls, allowed: tuple[TopologySelectorTerm, ...]) -> Reach:
        """Read the allowed topologies of a StorageClass; none means that all are allowed."""
        if not allowed:
            return ANYWHERE
        return cls(
            NodeSelectorTerm(
                match_expressions=tuple(_in(each.key, each.values) for each in term.match_label_expressions)
            )
            for term in allowed
        )

    @classmethod
    def of_capacity(cls, selector: LabelSelector | None) -> Reach:
        """Return the reach of a CSIStorageCapacity topology; None matches no node."""
        try:
            label_selector(selector)
        except SelectorError:
            selector = None
        if selector is None:
            return cls(())
        expressions = [_in(key, (value,)) for key, value in selector.match_labels.items()]
        expressions += [
            NodeSelectorRequirement(key=each.key, operator=each.operator, values=each.values)
            for each in selector.match_expressions
        ]
        return cls((NodeSelectorTerm(match_expressions=tuple(expressions)),)) if expressions else ANYWHERE

    @property
    def label_values(self) -> tuple[str, tuple[str, ...]] | None:
        """The one label that decides and the values that it may have; None if it is not as simple as that."""
        if self.anywhere or len(self._terms) != 1 or len(self._terms[0].match_expressions) != 1:
            return None
        (expression,) = self._terms[0].match_expressions
        return (expression.key, expression.values) if expression.operator == "In" else None

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels matches."""
        return self.anywhere or self._compiled.matches(labels, "")

    def covered(self, nodes: NodeTable, rows: Rows) -> Mask:
        """Return a mask of the rows that match."""
        if self.anywhere:
            return np.ones(nodes.capacity, dtype=np.bool_)[rows]
        return selection.matched(nodes, self._terms, rows)


def _in(key: str, values: tuple[str, ...]) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator="In", values=values)


_ANY_NAME = NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=("",))
#: Every node: a term without label conditions.
ANYWHERE = Reach((NodeSelectorTerm(match_fields=(_ANY_NAME,)),))
