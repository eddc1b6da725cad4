"""VolumeRestrictions: some disks can be mounted only once, and a ReadWriteOncePod claim belongs to one pod."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import Suggestions, delete_all, delete_any, drop_volumes
from kframework.objects import PersistentVolumeClaim, Volume
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows, Scores
from kframework.values.status import Skip, Status, unresolvable, unschedulable

DISK_TAKEN = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

_TAKEN, _IN_USE = unschedulable(DISK_TAKEN), unschedulable(CLAIM_IN_USE)
# Reason bits.
_DISK, _CLAIM = 1, 2

_ONE_POD = "ReadWriteOncePod"


@dataclass(slots=True)
class OwnClaims:
    """The pod's ReadWriteOncePod claims, and the number of conflicting uses by pods on nodes."""

    names: frozenset[str]
    conflicts: int

    def clone(self) -> OwnClaims:
        return OwnClaims(self.names, self.conflicts)

    def uses(self, pod: PodInfo) -> int:
        """Count the volumes of another pod with such a claim; as in kube-scheduler, in any namespace."""
        return sum(claim in self.names for claim in pod.claims)


_CLAIMS = StateKey[OwnClaims]("VolumeRestrictions.claims")


class VolumeRestrictions(Plugin):
    """Reject nodes where a disk of the pod is mounted, and all nodes while its ReadWriteOncePod claim is in use."""

    name = "VolumeRestrictions"
    reads: ClassVar[Reads] = "pods"
    sign_reads: ClassVar[SignReads] = ()
    watches: ClassVar[tuple[Watch, ...]] = (Watch(PersistentVolumeClaim),)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return None if pod.claims or disks(pod) else NOTHING

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        names: set[str] = set()
        for name in pod.claims:
            claim = self.handle.objects(PersistentVolumeClaim).latest(name, pod.namespace)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if _ONE_POD in claim.spec.access_modes:
                names.add(name)
        conflicts = sum(1 for name in names if nodes.claims.rows((pod.namespace, name)))
        if not conflicts and not disks(pod):
            return Skip
        state[_CLAIMS] = OwnClaims(frozenset(names), conflicts)
        return None

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        state[_CLAIMS].conflicts += state[_CLAIMS].uses(other)

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        state[_CLAIMS].conflicts -= state[_CLAIMS].uses(other)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        wanted = disks(pod)
        if wanted and any(_has_conflict(wanted, disks(other)) for other in node.pods):
            return _TAKEN
        return _IN_USE if state[_CLAIMS].conflicts > 0 else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        bits = np.full(nodes.capacity, _CLAIM if state[_CLAIMS].conflicts > 0 else 0, dtype=np.int64)
        wanted = disks(pod)
        if wanted:
            self._disk_pods.refresh()
            for row, others in self._disk_pods.by_row.items():
                if any(_has_conflict(wanted, disks(other)) for other in others):
                    bits[row] |= _DISK
        return bits[rows]

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _TAKEN if bits & _DISK else _IN_USE

    @cached_property
    def _disk_pods(self) -> SelectedPods:
        """The pods with disks that can be mounted only once: usually few."""
        return SelectedPods(self.handle.nodes, disks)

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        """Delete the pods that use the same claims, on any node, or a pod with volumes on this node."""
        if node is not None:
            nodes = node.table
            yield delete_all(
                {
                    other.uid: other
                    for claim in pod.claims
                    for row in nodes.claims.rows((pod.namespace, claim))
                    for other in nodes[row].pods
                    if claim in other.claims and other.namespace == pod.namespace
                }.values()
            )
            yield from delete_any(other for other in node.pods if other.spec.volumes)
        yield from drop_volumes(pod)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.POD, ActionType.DELETE, after_pod_deletion),
            # The volumes of a deleted node's pods are free before these pods are deleted.
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.DELETE),
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, after_claim_addition),
        ]


def after_pod_deletion(pod: PendingPod, old: PodInfo, new: None) -> QueueingHint:
    """Queue the pod if a pod with one of its disks or claims was deleted."""
    shares = old.namespace == pod.namespace and not set(pod.claims).isdisjoint(old.claims)
    return queue_if(shares or _has_conflict(disks(pod), disks(old)))


def after_claim_addition(pod: PendingPod, old: None, new: PersistentVolumeClaim) -> QueueingHint:
    return queue_if(new.metadata.namespace == pod.namespace and new.metadata.name in pod.claims)


def disks(pod: PodInfo) -> tuple[Volume, ...]:
    return pod.template.cached(disks, lambda spec: tuple(filter(_is_disk, spec.volumes)))


def _is_disk(volume: Volume) -> bool:
    sources = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(source is not None for source in sources)


def _has_conflict(wanted: tuple[Volume, ...], mounted: tuple[Volume, ...]) -> bool:
    return any(_same_disk(one, other) for one in wanted for other in mounted)


def _same_disk(one: Volume, other: Volume) -> bool:
    if one.gce_persistent_disk is not None and other.gce_persistent_disk is not None:
        disk, held = one.gce_persistent_disk, other.gce_persistent_disk
        return disk.pd_name == held.pd_name and not (disk.read_only and held.read_only)
    if one.aws_elastic_block_store is not None and other.aws_elastic_block_store is not None:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi is not None and other.iscsi is not None:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd is not None and other.rbd is not None:
        image, mapped = one.rbd, other.rbd
        return (
            (image.pool, image.image) == (mapped.pool, mapped.image)
            and not set(image.monitors).isdisjoint(mapped.monitors)
            and not (image.read_only and mapped.read_only)
        )
    return False


class SelectedPods:
    """The selected pods on nodes, by row; rows without any are omitted.

    Call `refresh` before reading.
    """

    def __init__(self, nodes: NodeTable, is_selected: Callable[[PodInfo], object]) -> None:
        self._nodes = nodes
        self._pod_log = nodes.pod_log.reader()
        self._is_selected = is_selected
        self.by_row: dict[int, list[PodInfo]] = {}

    def refresh(self) -> None:
        """Select again on the rows whose pods changed since the last call."""
        nodes, changed = self._nodes, self._pod_log.read_new()
        for row in range(nodes.size) if changed is None else dict.fromkeys(changed):
            node = nodes.by_row[row]
            pods = [pod for pod in node.pods if self._is_selected(pod)] if node is not None else []
            if pods:
                self.by_row[row] = pods
            else:
                self.by_row.pop(row, None)
