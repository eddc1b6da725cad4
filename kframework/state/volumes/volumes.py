"""The storage of the cluster, looked up as the volume plugins need it; kept current by the stores."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Set, Sized
from typing import NamedTuple, TypeVar

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
from kframework.objects.claims import ClaimRequirements, is_claimed_by, is_free, storage_capacity, volume_class
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

    Free volumes are grouped by topology: `anywhere`; by the value of one node label, as local volumes are; all others
    (`elsewhere`). `reserved` has those reserved for a claim, or bound to it, by the claim's namespace and name;
    `topologies` are by volume name.
    """

    def __init__(self) -> None:
        self.anywhere: list[Entry] = []
        self.by_label: dict[str, dict[str, list[Entry]]] = {}
        self.elsewhere: list[Entry] = []
        self.reserved: dict[tuple[str, str], list[Entry]] = {}
        self.topologies: dict[str, VolumeTopology] = {}

    def add(self, volume: PersistentVolume) -> None:
        """Add a volume; one that is neither free nor reserved is ignored."""
        name = volume.metadata.name
        topology = self.topologies[name] = VolumeTopology.from_node_affinity(volume.spec.node_affinity)
        for entries in self._lists_with(volume, topology):
            insort(entries, (storage_capacity(volume), name, volume))

    def remove(self, volume: PersistentVolume) -> None:
        name, reference = volume.metadata.name, volume.spec.claim_ref
        topology = self.topologies.pop(name)
        for entries in self._lists_with(volume, topology):
            del entries[bisect_left(entries, (storage_capacity(volume), name))]
        if reference is not None:
            _drop_empty(self.reserved, (reference.namespace, reference.name))
        elif topology.label_values is not None:
            key, values = topology.label_values
            for value in values:
                _drop_empty(self.by_label.get(key, {}), value)
            _drop_empty(self.by_label, key)

    def _lists_with(self, volume: PersistentVolume, topology: VolumeTopology) -> Iterator[list[Entry]]:
        reference = volume.spec.claim_ref
        if reference is not None:
            yield self.reserved.setdefault((reference.namespace, reference.name), [])
        elif not is_free(volume):
            return
        elif topology.anywhere:
            yield self.anywhere
        elif topology.label_values is None:
            yield self.elsewhere
        else:
            key, values = topology.label_values
            for value in dict.fromkeys(values):
                yield self.by_label.setdefault(key, {}).setdefault(value, [])


def _drop_empty(by_key: dict[Key, Entries], key: Key) -> None:
    if key in by_key and not by_key[key]:
        del by_key[key]


class Candidates:
    """The volumes that one claim may get, computed node by node on demand; SelectorError as `ClaimRequirements`."""

    def __init__(self, volumes: ClassVolumes, claim: PersistentVolumeClaim) -> None:
        self._volumes = volumes
        self._requirements = ClaimRequirements(claim)
        reserved = volumes.reserved.get((claim.metadata.namespace, claim.metadata.name), ())
        self._reserved = [
            each for each in reserved if is_claimed_by(each[2], claim) and self._requirements.suits(each[2])
        ]
        self._fitting: dict[tuple[str, str], list[Entry]] = {}

    @property
    def labels(self) -> frozenset[str]:
        """The node labels that the choice depends on; empty if it is the same for all nodes."""
        volumes = self._volumes
        topologies = [volumes.topologies[name].labels for _, name, _ in (*self._reserved, *volumes.elsewhere)]
        return frozenset(volumes.by_label).union(*topologies)

    def find_best(self, labels: Mapping[str, str], taken: Set[str]) -> PersistentVolume | None:
        """Choose a volume for a node of these labels, without these names: the reserved one, else the smallest."""
        for _, name, volume in self._reserved:
            if name not in taken:
                return volume if self._volumes.topologies[name].includes(labels) else None
        smallest: Entry | None = None
        for entries in self._accessible(labels):
            first = next((entry for entry in entries if entry[1] not in taken), None)
            if first is not None and (smallest is None or first < smallest):
                smallest = first
        return smallest[2] if smallest is not None else None

    def _accessible(self, labels: Mapping[str, str]) -> Iterator[Iterable[Entry]]:
        """Yield the volumes that a node can access and the claim may get, in groups, each the smallest first."""
        volumes = self._volumes
        if volumes.anywhere:
            yield self._fitting_entries(("", ""), volumes.anywhere)
        for key, by_value in volumes.by_label.items():
            label = labels.get(key)
            if label is not None and label in by_value:
                yield self._fitting_entries((key, label), by_value[label])
        if volumes.elsewhere:
            fitting = self._fitting_entries(("", "elsewhere"), volumes.elsewhere)
            yield (each for each in fitting if volumes.topologies[each[1]].includes(labels))

    def _fitting_entries(self, group: tuple[str, str], entries: list[Entry]) -> list[Entry]:
        if group not in self._fitting:
            large_enough = entries[bisect_left(entries, (self._requirements.size,)) :]
            self._fitting[group] = [each for each in large_enough if self._requirements.may_take(each[2])]
        return self._fitting[group]


# -- indexes over the stores -------------------------------------------------------------------------------------------


class VolumesByClass:
    """The volumes of each storage class."""

    def __init__(self, store: ObjectStore[PersistentVolume]) -> None:
        self._classes: dict[str, ClassVolumes] = {}
        store.follow(self._on_change)

    def __getitem__(self, name: str) -> ClassVolumes:
        """Return the volumes of a class, possibly empty."""
        return self._classes.get(name) or ClassVolumes()

    def _on_change(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            name = volume_class(old)
            self._classes[name].remove(old)
            if not self._classes[name].topologies:
                del self._classes[name]
        if new is not None:
            self._classes.setdefault(volume_class(new), ClassVolumes()).add(new)


class FreeStorage(NamedTuple):
    """The storage that is free for new volumes at the nodes of a topology, in bytes."""

    topology: VolumeTopology
    capacity: int


class StorageCapacities:
    """The capacity for new volumes of each storage class."""

    def __init__(self, store: ObjectStore[CSIStorageCapacity]) -> None:
        #: By class, then by namespace and name: the largest volume, and the object with its topology.
        self._classes: dict[str, dict[tuple[str, str], tuple[int, FreeStorage]]] = {}
        store.follow(self._on_change)

    def with_room(self, storage_class: str, size: int) -> list[FreeStorage]:
        """Return where a volume of this many bytes fits."""
        return [free for limit, free in self._classes.get(storage_class, {}).values() if limit >= size]

    def _on_change(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None:
            self._classes.get(old.storage_class_name, {}).pop((old.metadata.namespace, old.metadata.name), None)
        limit = max_volume_size(new) if new is not None else None
        if new is not None and limit is not None:
            capacities = self._classes.setdefault(new.storage_class_name, {})
            free = FreeStorage(VolumeTopology.from_selector(new.node_topology), value(new.capacity or 0))
            capacities[new.metadata.namespace, new.metadata.name] = (limit, free)


def max_volume_size(capacity: CSIStorageCapacity) -> int | None:
    """Return the size of the largest volume that fits, in bytes; None if that is not known."""
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return value(limit) if limit is not None else None


class Migrations:
    """The nodes on which CSI drivers do the work of an in-tree plugin."""

    def __init__(self, store: ObjectStore[CSINode]) -> None:
        self._nodes: dict[str, dict[str, None]] = {}
        store.follow(self._on_change)

    def nodes(self, plugin: str) -> Collection[str]:
        """Name the nodes on which a plugin has been replaced."""
        return self._nodes.get(plugin, ())

    def _on_change(self, old: CSINode | None, new: CSINode | None) -> None:
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


class VolumeTopology:
    """The nodes whose labels match one of these terms; conditions on other fields are ignored.

    An empty or invalid term matches no node.
    """

    __slots__ = ("_compiled", "_terms", "anywhere", "labels")

    def __init__(self, terms: Iterable[NodeSelectorTerm]) -> None:
        nonempty = (term for term in terms if term.match_expressions or term.match_fields)
        valid = [replace(term, match_fields=()) for term in nonempty if not NodeSelectorTerms((term,)).errors]
        #: Whether every node matches.
        self.anywhere: bool = any(not term.match_expressions for term in valid)
        #: The labels that decide; empty if every node matches.
        self.labels: frozenset[str] = frozenset(each.key for term in valid for each in term.match_expressions)
        if self.anywhere:
            self.labels = frozenset()
        self._terms = tuple(valid)
        self._compiled = NodeSelectorTerms(valid)

    @classmethod
    def from_node_affinity(cls, affinity: VolumeNodeAffinity | None) -> VolumeTopology:
        """Read the node affinity of a PersistentVolume."""
        required = affinity.required if affinity is not None else None
        return ANY_NODE if required is None else cls(required.node_selector_terms)

    @classmethod
    def from_allowed_topologies(cls, allowed: tuple[TopologySelectorTerm, ...]) -> VolumeTopology:
        """Read the allowed topologies of a StorageClass; none means that all are allowed."""
        if not allowed:
            return ANY_NODE
        return cls(
            NodeSelectorTerm(
                match_expressions=tuple(_in_requirement(each.key, each.values) for each in term.match_label_expressions)
            )
            for term in allowed
        )

    @classmethod
    def from_selector(cls, selector: LabelSelector | None) -> VolumeTopology:
        """Return the topology of a CSIStorageCapacity; None matches no node."""
        try:
            label_selector(selector)
        except SelectorError:
            selector = None
        if selector is None:
            return cls(())
        expressions = [_in_requirement(key, (value,)) for key, value in selector.match_labels.items()]
        expressions += [
            NodeSelectorRequirement(key=each.key, operator=each.operator, values=each.values)
            for each in selector.match_expressions
        ]
        return cls((NodeSelectorTerm(match_expressions=tuple(expressions)),)) if expressions else ANY_NODE

    @property
    def label_values(self) -> tuple[str, tuple[str, ...]] | None:
        """The one label that decides and the values that it may have; None if it is not as simple as that."""
        if self.anywhere or len(self._terms) != 1 or len(self._terms[0].match_expressions) != 1:
            return None
        (expression,) = self._terms[0].match_expressions
        return (expression.key, expression.values) if expression.operator == "In" else None

    def includes(self, labels: Mapping[str, str]) -> bool:
        return self.anywhere or self._compiled.matches(labels, "")

    def mask(self, nodes: NodeTable, rows: Rows) -> Mask:
        if self.anywhere:
            return np.ones(nodes.capacity, dtype=np.bool_)[rows]
        return selection.match_terms(nodes, self._terms, rows)


def _in_requirement(key: str, values: tuple[str, ...]) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator="In", values=values)


_ANY_NAME = NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=("",))
#: Every node: a term without label conditions.
ANY_NODE = VolumeTopology((NodeSelectorTerm(match_fields=(_ANY_NAME,)),))
