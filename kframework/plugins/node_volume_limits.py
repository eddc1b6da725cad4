"""NodeVolumeLimits: a node can attach a limited number of volumes of a CSI driver."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, PluginArgs, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import Suggestions, delete_any, drop_volumes
from kframework.objects import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kframework.objects.csi_migration import DRIVERS, TranslationError, in_tree_plugin, translate_inline_volume
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.volumes.attachments import Attachments, attach_limits
from kframework.state.volumes.volume_ids import VolumeId, VolumeIds, VolumeProblem, claim_names, limited_volumes
from kframework.values.scores import Rows, Scores
from kframework.values.status import Code, Skip, Status, unschedulable

REASON = "node(s) exceed max volume count"
NOT_INSTALLED = "{} CSI driver is not installed on the node"

#: The gate of drivers that keep pods off nodes without them, on by default since 1.37.
_SCALING = "VolumeLimitScaling"

_EXCEEDED = unschedulable(REASON)
# Reason bits; the bits above them hold the index of the driver that is not installed.
_TOO_MANY, _MISSING, _NO_DRIVER = 1, 2, 4
_INDEX_SHIFT = 3


class RequestedVolumes(NamedTuple):
    """The volumes that a pod needs attached, by driver, and the problems of its other volumes.

    `required` are the drivers without which no node is suitable, with whether only migrated volumes need them.
    """

    problems: tuple[VolumeProblem, ...]
    by_driver: Mapping[str, list[VolumeId]]
    required: Sequence[tuple[str, bool]]


_VOLUMES = StateKey[RequestedVolumes]("NodeVolumeLimits.volumes")


class VolumeError(Exception):
    """Raised instead of returning a column if the error must be reported node by node."""


class NodeVolumeLimits(Plugin):
    """Reject nodes that cannot attach all of the pod's volumes in addition to those they have."""

    name = "NodeVolumeLimits"
    reads: ClassVar[Reads] = "pods"
    sign_reads: ClassVar[SignReads] = ()
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(PersistentVolumeClaim),
        Watch(PersistentVolume),
        Watch(StorageClass),
        Watch(CSINode),
        Watch(VolumeAttachment),
        Watch(CSIDriver),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scales_limits = handle.feature_gates.is_enabled(_SCALING)

    @cached_property
    def _attachments(self) -> Attachments:
        return Attachments.for_stores(self.handle, self.handle.nodes)

    @cached_property
    def _ids(self) -> VolumeIds:
        return VolumeIds(self.handle)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return None if limited_volumes(pod) else NOTHING

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        if not limited_volumes(pod):
            return Skip
        state[_VOLUMES] = self._resolve_volumes(pod)
        return None

    def _resolve_volumes(self, pod: PendingPod) -> RequestedVolumes:
        volumes, by_driver = self._ids.pod_volumes(pod), dict[str, list[VolumeId]]()
        for volume in volumes.ids:
            by_driver.setdefault(volume.driver, []).append(volume)
        required = [(name, name not in volumes.native_drivers) for name in sorted(by_driver) if self._is_required(name)]
        return RequestedVolumes(volumes.problems, by_driver, required)

    def _is_required(self, name: str) -> bool:
        """Return whether a driver asks to keep its pods off nodes where it is not installed."""
        driver = self.handle.objects(CSIDriver).get(name) if self._scales_limits else None
        return driver is not None and bool(driver.spec.prevent_pod_scheduling_if_missing)

    def _requested_volumes(self, state: CycleState, pod: PendingPod) -> RequestedVolumes:
        """Return the pod's volumes; a profile may have this plugin at Filter and not at PreFilter."""
        return state[_VOLUMES] if _VOLUMES in state else self._resolve_volumes(pod)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        requested = self._requested_volumes(state, pod)
        for problem in requested.problems:
            if not problem.migrated or self.handle.objects(CSINode).get(node.name) is not None:
                return problem.status
        if not requested.by_driver:
            return None
        attachments, row = self._attachments, node.row
        attachments.refresh()
        for driver, is_migrated in requested.required:
            if attachments.is_missing(row, driver, is_migrated=is_migrated):
                return unschedulable(NOT_INSTALLED.format(driver))
        if row in attachments.errors:
            return attachments.errors[row]
        exceeds = any(attachments.exceeds(row, driver, volumes) for driver, volumes in requested.by_driver.items())
        return _EXCEEDED if exceeds else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        requested, bits = self._requested_volumes(state, pod), np.zeros(nodes.capacity, dtype=np.int64)
        if requested.problems:
            first = requested.problems[0]
            if not first.status.is_rejected:
                raise VolumeError(first.status.message)
            bits[:] = _MISSING
        elif requested.by_driver:
            attachments = self._attachments
            attachments.refresh()
            for driver, volumes in requested.by_driver.items():
                bits[attachments.exceeding_rows(driver, volumes)] = _TOO_MANY
            for index, (driver, is_migrated) in reversed([*enumerate(requested.required)]):
                missing = attachments.missing_rows(driver, is_migrated=is_migrated)
                bits[missing] = _NO_DRIVER | index << _INDEX_SHIFT
            for row in np.arange(nodes.capacity)[rows].tolist() if attachments.errors else ():
                if row in attachments.errors and not bits[row] & _NO_DRIVER:
                    raise VolumeError(attachments.errors[row].message)
        return bits[rows]

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        if bits & _NO_DRIVER:
            driver, _ = self._resolve_volumes(pod).required[bits >> _INDEX_SHIFT]
            return unschedulable(NOT_INSTALLED.format(driver))
        return self._ids.pod_volumes(pod).problems[0].status if bits & _MISSING else _EXCEEDED

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        if node is not None and status.code == Code.UNSCHEDULABLE:
            yield from delete_any(node.pods)
        yield from drop_volumes(pod)

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        added, changed, deleted = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
        driver_events = [
            ClusterEvent(EventResource.CSI_DRIVER, changed | deleted),
            ClusterEvent(EventResource.CSI_NODE, changed, after_driver_installation),
        ]
        return [
            *(driver_events if self._scales_limits else ()),
            ClusterEvent(EventResource.NODE, added),
            ClusterEvent(EventResource.CSI_NODE, added | deleted),
            ClusterEvent(EventResource.CSI_NODE, changed, after_csi_node_change),
            ClusterEvent(EventResource.POD, deleted, after_pod_deletion),
            ClusterEvent(EventResource.ASSIGNED_POD, added, self.after_pod_arrival),
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, added | changed, after_claim_change),
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, deleted),
            ClusterEvent(EventResource.PERSISTENT_VOLUME, added | changed, self.after_volume_change),
            ClusterEvent(EventResource.PERSISTENT_VOLUME, deleted),
            ClusterEvent(EventResource.STORAGE_CLASS, deleted),
            ClusterEvent(EventResource.VOLUME_ATTACHMENT, deleted, after_attachment_deletion),
        ]

    def after_pod_arrival(self, pod: PendingPod, old: None, new: PodInfo) -> QueueingHint:
        """Queue the pod if a pod with a common volume was added to a node: there it is attached once for both."""
        return queue_if(
            limited_volumes(new) and not self._ids.pod_volumes(pod).ids.isdisjoint(self._ids.pod_volumes(new).ids)
        )

    def after_volume_change(self, pod: PendingPod, old: PersistentVolume | None, new: PersistentVolume) -> QueueingHint:
        """Queue the pod if the volume of one of its claims was added or changed."""
        claims = self.handle.objects(PersistentVolumeClaim)
        for name in claim_names(pod):
            claim = claims.get(name, pod.namespace)
            if claim is not None and claim.spec.volume_name == new.metadata.name:
                return QueueingHint.QUEUE
        return QueueingHint.SKIP


def after_csi_node_change(pod: PendingPod, old: CSINode, new: CSINode) -> QueueingHint:
    """Queue the pod if the limit of a driver on the node was raised or removed."""
    before, after = attach_limits(old), attach_limits(new)
    more = any(limit > before.get(driver, 0) for driver, limit in after.items())
    return queue_if(more or before.keys() - after.keys())


def after_driver_installation(pod: PendingPod, old: CSINode, new: CSINode) -> QueueingHint:
    """Queue the pod if a driver was installed on the node."""
    return queue_if({driver.name for driver in new.spec.drivers} - {driver.name for driver in old.spec.drivers})


def after_pod_deletion(pod: PendingPod, old: PodInfo, new: None) -> QueueingHint:
    """Queue the pod if a pod with volumes left its node, or its nominated node."""
    was_on_node = bool(old.node_name or old.nominated_node_name)
    return queue_if(was_on_node and limited_volumes(old))


def after_claim_change(pod: PendingPod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> QueueingHint:
    return queue_if(new.metadata.namespace == pod.namespace and new.metadata.name in claim_names(pod))


def after_attachment_deletion(pod: PendingPod, old: VolumeAttachment, new: None) -> QueueingHint:
    """Queue the pod if it has a claim, or an in-tree volume of the driver that has detached one."""
    return queue_if(any(_may_use_driver(old, volume) for volume in limited_volumes(pod)))


def _may_use_driver(attachment: VolumeAttachment, volume: Volume) -> bool:
    plugin = in_tree_plugin(volume)
    if plugin is None or DRIVERS[plugin] == attachment.spec.attacher:
        return True
    try:
        translate_inline_volume(volume)
    except TranslationError:
        return True
    return False
