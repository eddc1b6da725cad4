"""The number of volumes of each CSI driver that nodes have attached, and their limits.

Updated row by row: the change log lists the rows whose pods changed, and each row records the claims, volumes, classes
and CSINodes it was counted from, so that a change of one of them recounts just those rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from kframework.objects import (
    ApiObject,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kframework.state.columns import Column
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore, Stores
from kframework.state.pods import PodInfo
from kframework.state.row_counts import RowCounts
from kframework.state.volumes.volume_ids import ObjectKey, UsedVolumes, VolumeId, VolumeIds, limited_volumes
from kframework.values.status import Status

#: The users of volumes on a row: its pods, and under the node's name the VolumeAttachments.
User = PodInfo | str
_NO_USERS: Mapping[User, UsedVolumes] = {}


class Attachments:
    """The volumes of the nodes' pods and VolumeAttachments, distinct and counted by driver.

    Call `refresh` before reading. `errors` has, for rows with limits, the error of a pod's volume there.
    """

    def __init__(self, stores: Stores, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._pod_log = nodes.pod_log.reader()
        self._ids = VolumeIds(stores)
        self._csi_nodes = stores.objects(CSINode)
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._capacity = 0
        #: Rows that must be recounted.
        self._stale: set[int] = set()
        #: The inputs of each row's count: volumes by user, volumes by pod, and objects read.
        self._users: dict[int, dict[User, UsedVolumes]] = {}
        self._attached = RowCounts[VolumeId]()
        self._used_by_pods = RowCounts[VolumeId]()
        self._readers = RowCounts[ObjectKey]()
        self._counts: dict[str, Column] = {}
        #: By driver, one more than a node can attach; 0 if it has no limit.
        self._limits: dict[str, Column] = {}
        #: By driver, 1 where it is installed; under "" where there is a CSINode.
        self._installed: dict[str, Column] = {"": Column(0)}
        self.errors: dict[int, Status] = {}
        stores.objects(VolumeAttachment).follow(self._attachment_changed)
        for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode):
            stores.objects(kind).on_change(self._object_changed)

    @staticmethod
    def for_stores(stores: Stores, nodes: NodeTable) -> Attachments:
        """Return the index that all callers with the same stores share."""
        holder = stores.objects(VolumeAttachment).index(_SharedIndex)
        if holder.index is None:
            holder.index = Attachments(stores, nodes)
        return holder.index

    # -- reading -------------------------------------------------------------------------------------------------------

    def exceeds(self, row: int, driver: str, wanted: Collection[VolumeId]) -> bool:
        """Return whether these volumes of a driver, added to the node's, exceed its limit.

        Volumes of the node's pods are attached already, those of mere VolumeAttachments are not (and so count twice, as
        in kube-scheduler).
        """
        limit = self._limits.get(driver)
        if limit is None or not limit.cells[row]:
            return False
        fresh = sum(row not in self._used_by_pods.rows(volume) for volume in wanted)
        return fresh > 0 and self._count_column(driver).cells[row] + fresh >= limit.cells[row]

    def exceeding_rows(self, driver: str, wanted: Collection[VolumeId]) -> NDArray[np.bool_]:
        limit = self._limits.get(driver)
        if limit is None:
            return np.zeros(self._capacity, dtype=np.bool_)
        fresh = np.full(self._capacity, len(wanted), dtype=np.int64)
        for volume in wanted:
            rows = self._used_by_pods.rows(volume)
            fresh[np.fromiter(rows, dtype=np.int64, count=len(rows))] -= 1
        full: NDArray[np.bool_] = self._count_column(driver).values + fresh >= limit.values
        return full & (limit.values > 0) & (fresh > 0)

    def is_missing(self, row: int, driver: str, *, is_migrated: bool) -> bool:
        """Return whether a row lacks a driver; without a CSINode it needs none that only migrated volumes need."""
        column = self._installed.get(driver)
        if column is not None and column.cells[row]:
            return False
        return not is_migrated or bool(self._installed[""].cells[row])

    def missing_rows(self, driver: str, *, is_migrated: bool) -> NDArray[np.bool_]:
        """Answer `is_missing` for all rows, as a mask."""
        column = self._installed.get(driver)
        missing: NDArray[np.bool_] = column.values == 0 if column else np.ones(self._capacity, dtype=np.bool_)
        return missing & (self._installed[""].values > 0) if is_migrated else missing

    # -- keeping current -----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Recount the rows that changed since the last call."""
        nodes, changed = self._nodes, self._pod_log.read_new()
        if nodes.capacity > self._capacity:
            self._capacity = nodes.capacity
            for column in (*self._counts.values(), *self._limits.values(), *self._installed.values()):
                column.grow(self._capacity)
        rows = range(nodes.size) if changed is None else dict.fromkeys((*changed, *self._stale))
        for row in rows:
            self._recount_row(nodes.by_row[row], row)
        self._stale.clear()

    def _recount_row(self, node: NodeInfo | None, row: int) -> None:
        """Compare the users of a row's volumes with the previous ones, and count the difference."""
        before = self._users.get(row, _NO_USERS)
        reusable = _NO_USERS if row in self._stale else before
        now: dict[User, UsedVolumes] = {}
        if node is not None:
            # The row also depends on its CSINode.
            read: list[ObjectKey] = [(VolumeAttachment, "", node.name), (CSINode, "", node.name)]
            attached = self._by_node.get(node.name, {}).values()
            now[node.name] = reusable.get(node.name) or self._ids.attached_volumes(attached, read)
            for pod in node.pods:
                if limited_volumes(pod):
                    now[pod] = reusable.get(pod) or self._ids.pod_volumes(pod)
        for user, volumes in before.items():
            if now.get(user) is not volumes:
                self._count(user, volumes, row, -1)
        for user, volumes in now.items():
            if before.get(user) is not volumes:
                self._count(user, volumes, row, 1)
        self._users[row] = now
        self._update_limits(node, row)

    def _count(self, user: User, volumes: UsedVolumes, row: int, sign: int) -> None:
        for volume in volumes.ids:
            number = self._attached.add(volume, row, sign)
            if number == (1 if sign > 0 else 0):
                self._count_column(volume.driver).cells[row] += sign
            if isinstance(user, PodInfo):
                self._used_by_pods.add(volume, row, sign)
        for source in volumes.read:
            self._readers.add(source, row, sign)

    def _update_limits(self, node: NodeInfo | None, row: int) -> None:
        """Store the limits of a row, and the volume error if there are limits."""
        csi_node = self._csi_nodes.latest(node.name) if node is not None else None
        limits = attach_limits(csi_node) if csi_node is not None else {}
        for driver in limits.keys() - self._limits.keys():
            self._limits[driver] = Column(self._capacity)
        for driver, column in self._limits.items():
            column.cells[row] = limits.get(driver, -1) + 1
        installed = {"", *(driver.name for driver in csi_node.spec.drivers)} if csi_node is not None else set[str]()
        for driver in installed - self._installed.keys():
            self._installed[driver] = Column(self._capacity)
        for driver, column in self._installed.items():
            column.cells[row] = driver in installed
        errors = (volumes.error for volumes in self._users[row].values())
        error = next((error for error in errors if error is not None), None)
        if limits and error is not None:
            self.errors[row] = error
        else:
            self.errors.pop(row, None)

    def _count_column(self, driver: str) -> Column:
        if driver not in self._counts:
            self._counts[driver] = Column(self._capacity)
        return self._counts[driver]

    # -- store callbacks -----------------------------------------------------------------------------------------------

    def _object_changed(self, old: ApiObject | None, new: ApiObject | None) -> None:
        changed = new or old
        assert changed is not None
        self._stale.update(self._readers.rows((type(changed), changed.metadata.namespace, changed.metadata.name)))

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        for attachment in filter(None, (old, new)):
            self._stale.update(self._readers.rows((VolumeAttachment, "", attachment.spec.node_name)))
        if old is not None:
            of_node = self._by_node[old.spec.node_name]
            del of_node[old.metadata.name]
            if not of_node:
                del self._by_node[old.spec.node_name]
        if new is not None:
            self._by_node.setdefault(new.spec.node_name, {})[new.metadata.name] = new


def attach_limits(csi_node: CSINode) -> dict[str, int]:
    """Return the number of volumes a node can attach, for each driver with a limit."""
    limits = ((driver.name, driver.allocatable) for driver in csi_node.spec.drivers)
    return {name: limit.count for name, limit in limits if limit is not None and limit.count is not None}


class _SharedIndex:
    """A holder of the stores' shared index."""

    def __init__(self, store: ObjectStore[VolumeAttachment]) -> None:
        self.index: Attachments | None = None
