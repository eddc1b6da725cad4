"""The node constraints of a pod's claims, and the volumes they would get (kube-scheduler's FindPodVolumes).

Bound claims require that the node can access their volumes. Waiting claims get a free volume that the node can access,
or else one is provisioned there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.objects import PersistentVolume, PersistentVolumeClaim
from kframework.objects.claims import NO_PROVISIONER, SELECTED_NODE, claim_class, requested_storage, volume_class
from kframework.objects.csi_migration import (
    TranslationError,
    migrated_plugin,
    node_affinity_after_migration,
    translate_volume,
)
from kframework.objects.quantity import value
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.selection import Mask
from kframework.state.volumes.volumes import Candidates, FreeStorage, Migrations, Storage, VolumeTopology
from kframework.values.scores import Rows

#: The reasons to reject a node, as bits; reported in this order.
NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING = 1, 2, 4, 8

Bits = NDArray[np.int64]


class PodVolumes(msgspec.Struct, frozen=True):
    """The plan for waiting claims on a node: `static` pairs of volume and claim, claims to be `provisioned`."""

    static: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provisioned: tuple[PersistentVolumeClaim, ...] = ()


class StorageDemand(NamedTuple):
    """The bytes of a storage class that a pod requests, and those that there are for it."""

    requested: int
    capacity: int

    @property
    def percentage(self) -> int:
        """The share of the storage that is requested, 0 to 100; 100 if it is more than there is, or there is none."""
        return self.requested * 100 // self.capacity if self.requested <= self.capacity and self.capacity else 100


class PodClaims:
    """The claims of one pod, in one cycle: bound ones, and those that wait for their first consumer.

    `find_volumes` and `rejections` raise SelectorError if they need the selector of a claim and it does not parse, and
    TranslationError if a bound volume is served by a CSI driver that cannot.
    """

    def __init__(
        self,
        storage: Storage,
        bound: Sequence[PersistentVolumeClaim],
        waiting: Sequence[PersistentVolumeClaim],
    ) -> None:
        self._storage = storage
        self._bound = bound
        selected = [claim for claim in waiting if SELECTED_NODE in claim.metadata.annotations]
        self._selected = tuple(selected)
        self._nodes_selected = {claim.metadata.annotations[SELECTED_NODE] for claim in selected}
        others = [claim for claim in waiting if SELECTED_NODE not in claim.metadata.annotations]
        self._others = tuple(sorted(others, key=requested_storage))

    @property
    def all_bound(self) -> bool:
        return not self._selected and not self._others

    # -- one node ------------------------------------------------------------------------------------------------------

    def find_volumes(self, node: NodeInfo) -> tuple[int, PodVolumes]:
        """Return the rejection bits of a node, and the volumes that its waiting claims would get there."""
        bits = 0
        for access in self._bound_access:
            if access is None or not access.includes(node):
                bits = VOLUME_MISSING if access is None else NODE_CONFLICT
                break
        if any(name != node.name for name in self._nodes_selected):
            return bits | BIND_CONFLICT, PodVolumes()
        static, unmatched = self._match(node.labels)
        provisioned = (*self._selected, *unmatched)
        provisions = (self._provisions[claim.metadata.name] for claim in provisioned)
        bits |= next(filter(None, (provision.rejection(node.labels) for provision in provisions)), 0)
        return bits, PodVolumes(static, provisioned)

    def _match(
        self, labels: Mapping[str, str]
    ) -> tuple[tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...], tuple[PersistentVolumeClaim, ...]]:
        """Match free volumes to claims, the smallest claim first; return the pairs and the unmatched claims."""
        pairs: dict[str, tuple[PersistentVolume, PersistentVolumeClaim]] = {}
        unmatched = []
        for claim, candidates in zip(self._others, self._candidates, strict=True):
            volume = candidates.find_best(labels, pairs.keys())
            if volume is None:
                unmatched.append(claim)
            else:
                pairs[volume.metadata.name] = (volume, claim)
        return tuple(pairs.values()), tuple(unmatched)

    def storage_demand(self, labels: Mapping[str, str]) -> list[StorageDemand]:
        """Return what the waiting claims would take at a node of these labels, for each storage class.

        If any claim gets an existing volume, only existing volumes count. As in kube-scheduler, the capacity for new
        volumes is not summed, and claims whose driver reports none are left out.
        """
        static, unmatched = self._match(labels)
        demand: dict[str, StorageDemand] = {}
        for volume, claim in static:
            before = demand.get(volume_class(volume), StorageDemand(0, 0))
            size = value(volume.spec.capacity.get("storage", 0))
            demand[volume_class(volume)] = StorageDemand(before.requested + _bytes(claim), before.capacity + size)
        for claim in () if static else (*self._selected, *unmatched):
            capacity = self._provisions[claim.metadata.name].capacity(labels)
            if capacity is not None:
                before = demand.get(claim_class(claim), StorageDemand(0, capacity))
                demand[claim_class(claim)] = before._replace(requested=before.requested + _bytes(claim))
        return list(demand.values())

    # -- many rows -----------------------------------------------------------------------------------------------------

    def rejections(self, nodes: NodeTable, rows: Rows) -> Bits:
        """Return the rejection bits of these rows, like `find_volumes` for each."""
        row_numbers = np.arange(nodes.capacity)[rows]
        bits = np.zeros(len(row_numbers), dtype=np.int64)
        for access in self._bound_access:
            conflict = VOLUME_MISSING if access is None else np.where(access.mask(nodes, row_numbers), 0, NODE_CONFLICT)
            bits = np.where(bits == 0, conflict, bits)
        if self.all_bound:
            return bits
        # A claim's volume is provisioned, or to be provisioned, for another node.
        elsewhere = np.zeros(len(row_numbers), dtype=np.bool_)
        for name in self._nodes_selected:
            selected = nodes.row(name)
            elsewhere |= row_numbers != (-1 if selected is None else selected)
        bits[elsewhere] |= BIND_CONFLICT
        for positions, unmatched in self._group_by_unmatched(nodes, row_numbers, np.flatnonzero(~elsewhere)):
            unprovisioned = np.zeros(len(positions), dtype=np.int64)
            for claim in (*self._selected, *unmatched):
                provision = self._provisions[claim.metadata.name]
                unprovisioned = np.where(
                    unprovisioned == 0, provision.rejections(nodes, row_numbers[positions]), unprovisioned
                )
            bits[positions] |= unprovisioned
        return bits

    def _group_by_unmatched(
        self, nodes: NodeTable, rows: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], tuple[PersistentVolumeClaim, ...]]]:
        """Group positions of rows by the claims that get no free volume there, computed once per set of labels."""
        if not len(positions):
            return
        keys = sorted(frozenset[str]().union(*(candidates.labels for candidates in self._candidates)))
        label_sets, set_of_row = _distinct_label_sets(nodes, keys, rows[positions])
        groups: dict[tuple[int, ...], int] = {}
        unmatched_by_group: list[tuple[PersistentVolumeClaim, ...]] = []
        group_of_set = np.zeros(len(label_sets), dtype=np.int64)
        for number, labels in enumerate(label_sets):
            unmatched = self._match(labels)[1]
            group = groups.setdefault(tuple(map(id, unmatched)), len(unmatched_by_group))
            if group == len(unmatched_by_group):
                unmatched_by_group.append(unmatched)
            group_of_set[number] = group
        for group, unmatched in enumerate(unmatched_by_group):
            yield positions[group_of_set[set_of_row] == group], unmatched

    def storage_demands(self, nodes: NodeTable, rows: Rows) -> tuple[list[list[StorageDemand]], NDArray[np.int64]]:
        """Return the distinct demands on storage at these rows, and each row's; like `storage_demand` for each."""
        keys = frozenset[str]().union(
            *(candidates.labels for candidates in self._candidates),
            *(provision.labels for provision in self._provisions.values()),
        )
        label_sets, set_of_row = _distinct_label_sets(nodes, sorted(keys), np.arange(nodes.capacity)[rows])
        return [self.storage_demand(labels) for labels in label_sets], set_of_row

    # -- computed once in a cycle --------------------------------------------------------------------------------------

    @cached_property
    def _bound_access(self) -> Sequence[VolumeAccess | None]:
        """The nodes that can access each bound claim's volume; None for a volume that does not exist."""
        storage = self._storage
        volumes = (storage.volumes.get(claim.spec.volume_name) for claim in self._bound)
        return [VolumeAccess(volume, storage.migrations) if volume is not None else None for volume in volumes]

    @cached_property
    def _candidates(self) -> Sequence[Candidates]:
        return [Candidates(self._storage.by_class[claim_class(claim)], claim) for claim in self._others]

    @cached_property
    def _provisions(self) -> dict[str, _Provisioning]:
        return {claim.metadata.name: _Provisioning(self._storage, claim) for claim in (*self._selected, *self._others)}


def _bytes(claim: PersistentVolumeClaim) -> int:
    return value(claim.spec.resources.requests.get("storage", 0))


def _distinct_label_sets(
    nodes: NodeTable, keys: Sequence[str], rows: NDArray[np.int64]
) -> tuple[list[dict[str, str]], NDArray[np.int64]]:
    """Return the distinct sets of values of these labels on these rows, and each row's set."""
    columns = [nodes.label(key) for key in keys]
    packed = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        # Renumbered after each label, so that the product never overflows an integer.
        packed = np.unique(packed * len(column.meanings) + column.values[rows], return_inverse=True)[1]
    _, firsts, set_of_row = np.unique(packed, return_index=True, return_inverse=True)
    label_sets = []
    for row in rows[firsts].tolist():
        meanings = ((key, column.meanings[column.cells[row]]) for key, column in zip(keys, columns, strict=True))
        label_sets.append({key: meaning for key, meaning in meanings if meaning is not None})
    return label_sets, set_of_row


class VolumeAccess:
    """The nodes that can access a volume; where a CSI driver serves it now, by that driver's labels.

    For such a node it raises TranslationError if the driver cannot serve the volume.
    """

    def __init__(self, volume: PersistentVolume, migrations: Migrations) -> None:
        self._topology = VolumeTopology.from_node_affinity(volume.spec.node_affinity)
        self._migrations = migrations
        self._plugin = migrated_plugin(volume.spec)
        self._volume = volume

    def includes(self, node: NodeInfo) -> bool:
        if self._plugin is not None and node.name in self._migrations.nodes(self._plugin):
            return self._migrated_topology.includes(node.labels)
        return self._topology.includes(node.labels)

    def mask(self, nodes: NodeTable, rows: NDArray[np.int64]) -> Mask:
        mask = self._topology.mask(nodes, rows)
        if self._plugin is None:
            return mask
        migrated_rows = [nodes.row(name) for name in self._migrations.nodes(self._plugin)]
        is_migrated = np.isin(rows, [row for row in migrated_rows if row is not None])
        return np.where(is_migrated, self._migrated_topology.mask(nodes, rows), mask) if is_migrated.any() else mask

    @cached_property
    def _migrated_topology(self) -> VolumeTopology:
        assert self._plugin is not None
        try:
            translate_volume(self._volume)
        except TranslationError as problem:
            raise TranslationError(f"could not translate pv: {problem}") from problem
        return VolumeTopology.from_node_affinity(node_affinity_after_migration(self._volume, self._plugin))


class _Provisioning:
    """The nodes where a volume can be provisioned for a claim: allowed by its class, with capacity of its driver."""

    def __init__(self, storage: Storage, claim: PersistentVolumeClaim) -> None:
        name = claim_class(claim)
        storage_class = storage.classes.get(name)
        provisioner = storage_class.provisioner if storage_class is not None else ""
        allowed = storage_class.allowed_topologies if storage_class is not None else ()
        self._can_provision = provisioner not in ("", NO_PROVISIONER)
        self._allowed = VolumeTopology.from_allowed_topologies(allowed)
        driver = storage.drivers.get(provisioner)
        size = claim.spec.resources.requests.get("storage")
        #: Where there is room; None if the driver does not report it.
        self._free: list[FreeStorage] | None = None
        if driver is not None and driver.spec.storage_capacity and size is not None:
            self._free = storage.capacities.with_room(name, value(size))

    @property
    def labels(self) -> frozenset[str]:
        """The node labels that the capacity depends on."""
        return frozenset[str]().union(*(free.topology.labels for free in self._free or ()))

    def rejection(self, labels: Mapping[str, str]) -> int:
        """Return the rejection bits of a node with these labels."""
        if not self._can_provision or not self._allowed.includes(labels):
            return BIND_CONFLICT
        return 0 if self._free is None or self.capacity(labels) is not None else NOT_ENOUGH_SPACE

    def capacity(self, labels: Mapping[str, str]) -> int | None:
        """Return the free bytes at a node with these labels; None if the driver reports none for it."""
        return next((free.capacity for free in self._free or () if free.topology.includes(labels)), None)

    def rejections(self, nodes: NodeTable, rows: NDArray[np.int64]) -> Bits:
        if not self._can_provision:
            return np.full(len(rows), BIND_CONFLICT)
        bits = np.zeros(len(rows), dtype=np.int64)
        if self._free is not None:
            has_capacity = np.zeros(len(rows), dtype=np.bool_)
            for free in self._free:
                has_capacity |= free.topology.mask(nodes, rows)
            bits[~has_capacity] = NOT_ENOUGH_SPACE
        bits[~self._allowed.mask(nodes, rows)] = BIND_CONFLICT
        return bits
