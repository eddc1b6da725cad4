"""VolumeZone: a pod runs in the zones and regions that the labels of its bound volumes name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import Suggestions, drop_volumes
from kframework.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from kframework.objects.claims import WAIT_FOR_FIRST_CONSUMER, claim_class
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Rows, Scores
from kframework.values.status import Skip, Status, unresolvable

REASON = "node(s) had no available volume zone"
NAMELESS = "PersistentVolumeClaim had no name"
WITHOUT_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
WITHOUT_VOLUME = "PersistentVolume had no name"
NO_BINDING_MODE = 'VolumeBindingMode not set for StorageClass "{}"'
NOT_FOUND = '{} "{}" not found'

_WRONG_ZONE = unresolvable(REASON)
# Reason bits: the node is in another zone; the pod's volumes cannot be looked up.
_NO_MATCH, _UNKNOWN = 1, 2

#: The labels of zones and regions: the old ones, with the current ones that nodes may have instead.
_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


#: A label, and the values of it that a volume allows.
Zones = tuple[str, frozenset[str]]

_ZONES = StateKey[tuple[Zones, ...]]("VolumeZone")


class VolumeZone(Plugin):
    """Reject nodes outside the zones of the volumes that the pod's claims are bound to."""

    name = "VolumeZone"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(PersistentVolumeClaim),
        Watch(PersistentVolume),
        Watch(StorageClass),
    )

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return None if pod.claims else NOTHING

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        zones = self._zones(pod)
        if isinstance(zones, Status):
            return zones
        state[_ZONES] = zones
        return None if zones else Skip

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        zones = self._zones_in_cycle(state, pod)
        if isinstance(zones, Status):
            return zones
        labels = node.labels
        if not any(key in labels for key in _LABELS):
            return None
        allowed = all(labels.get(key, labels.get(_LABELS[key])) in values for key, values in zones)
        return None if allowed else _WRONG_ZONE

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        zones = self._zones_in_cycle(state, pod)
        bits = np.zeros(nodes.capacity, dtype=np.int64)[rows]
        if isinstance(zones, Status):
            return bits | _UNKNOWN
        zoned = np.logical_or.reduce([nodes.label(key).values[rows] != 0 for key in _LABELS])
        for key, values in zones:
            allowed = _is_among(nodes, key, values, rows)
            if _LABELS[key] != key:
                absent = nodes.label(key).values[rows] == 0
                allowed |= absent & _is_among(nodes, _LABELS[key], values, rows)
            bits[zoned & ~allowed] = _NO_MATCH
        return bits

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        zones = self._zones(pod) if bits & _UNKNOWN else ()
        return zones if isinstance(zones, Status) else _WRONG_ZONE

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        return drop_volumes(pod)

    def _zones_in_cycle(self, state: CycleState, pod: PendingPod) -> tuple[Zones, ...] | Status:
        """Return the zones; a profile may have this plugin at Filter and not at PreFilter."""
        return state[_ZONES] if _ZONES in state else self._zones(pod)

    def _zones(self, pod: PendingPod) -> tuple[Zones, ...] | Status:
        """Collect the zones of the volumes of all claims; a claim that waits for its first pod has none."""
        zones: list[Zones] = []
        for name in pod.claims:
            if not name:
                return unresolvable(NAMELESS)
            claim = self.handle.objects(PersistentVolumeClaim).get(name, pod.namespace)
            if claim is None:
                return unresolvable(NOT_FOUND.format("persistentvolumeclaim", name))
            if not claim.spec.volume_name:
                problem = self._unbound_problem(claim)
                if problem is not None:
                    return unresolvable(problem)
                continue
            volume = self.handle.objects(PersistentVolume).get(claim.spec.volume_name)
            if volume is None:
                return unresolvable(NOT_FOUND.format("persistentvolume", claim.spec.volume_name))
            zones += _zones_of(volume)
        return tuple(zones)

    def _unbound_problem(self, claim: PersistentVolumeClaim) -> str | None:
        """Return the problem of a claim without a volume; None if it waits for its first consumer."""
        name = claim_class(claim)
        if not name:
            return WITHOUT_CLASS
        storage_class = self.handle.objects(StorageClass).get(name)
        if storage_class is None:
            return NOT_FOUND.format("storageclass.storage.k8s.io", name)
        if storage_class.volume_binding_mode is None:
            return NO_BINDING_MODE.format(name)
        return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else WITHOUT_VOLUME

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        new_or_changed = ActionType.ADD | ActionType.UPDATE
        return [
            ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD, after_class_addition),
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, new_or_changed, after_claim_change),
            ClusterEvent(EventResource.PERSISTENT_VOLUME, new_or_changed, after_volume_change),
        ]


def after_class_addition(pod: PendingPod, old: None, new: StorageClass) -> QueueingHint:
    return queue_if(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def after_claim_change(pod: PendingPod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> QueueingHint:
    return queue_if(new.metadata.namespace == pod.namespace and new.metadata.name in pod.claims)


def after_volume_change(pod: PendingPod, old: PersistentVolume | None, new: PersistentVolume) -> QueueingHint:
    """Queue the pod for a volume that is new or has changed zones."""
    return queue_if(old is None or _zones_of(old) != _zones_of(new))


def _zones_of(volume: PersistentVolume) -> list[Zones]:
    """Parse a volume's zone labels: values are joined by `__`, and one with an empty part is ignored."""
    labels: Mapping[str, str] = volume.metadata.labels
    split = {key: [part.strip() for part in labels[key].split("__")] for key in _LABELS if key in labels}
    return [(key, frozenset(parts)) for key, parts in split.items() if all(parts)]


def _is_among(nodes: NodeTable, key: str, values: frozenset[str], rows: Rows) -> NDArray[np.bool_]:
    column = nodes.label(key)
    codes = [code for code in map(column.find_code, values) if code is not None]
    return np.isin(column.values[rows], codes)
