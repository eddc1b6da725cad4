"""The controllers that a cluster in memory lacks: those of pods whose owners are not in its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock
from kframework.in_memory.admission import derive_uid
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import MemoryController
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, ObjectMeta, Pod, PodStatus
from kframework.objects.kinds import find_kind


class Recreation(MemoryController):
    """Recreates pods, under their names, that were deleted before they ended: those that `covers` accepts."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod,)

    def __init__(self, cluster: MemoryCluster, covers: Callable[[Pod], bool]) -> None:
        super().__init__(cluster)
        self._covers = covers
        self._deleted: list[Pod] = []

    @property
    def idle(self) -> bool:
        return not self._deleted

    def _receive(self, change: Change) -> None:
        pod = change.old
        if change.new is None and isinstance(pod, Pod) and not _has_run(pod) and self._covers(pod):
            self._deleted.append(pod)
            self._wake.set()

    def _work(self) -> None:
        deleted, self._deleted = self._deleted, []
        for pod in deleted:
            if self._cluster.find(Pod, pod.metadata.name, pod.metadata.namespace) is None:
                # Not admitted again: its classes need not be in the files either.
                self._cluster.write(_recreate(pod, self._cluster.timestamp()))


def create_recreation(cluster: MemoryCluster, clock: Clock) -> Recreation:
    """Create the controller that recreates the pods whose owners are not in the cluster."""
    return Recreation(cluster, lambda pod: not _has_owner(cluster, pod))


def _has_owner(cluster: MemoryCluster, pod: Pod) -> bool:
    owner = pod.metadata.controlling_owner
    kind = None if owner is None else find_kind(owner.api_version, owner.kind)
    if owner is None or kind is None:
        return False
    found = cluster.find(kind.struct, owner.name, pod.metadata.namespace)
    return found is not None and found.metadata.uid == owner.uid


def _has_run(pod: Pod) -> bool:
    """Return whether a pod ended by itself, not by a disruption."""
    return has_ended(pod) and not any(each.type == "DisruptionTarget" for each in pod.status.conditions)


def _recreate(pod: Pod, now: str) -> Pod:
    """Return a pod as it was before it had a node."""
    old = pod.metadata
    metadata = ObjectMeta(
        name=old.name,
        namespace=old.namespace,
        uid=derive_uid(f"{old.uid}/recreated"),
        labels=old.labels,
        annotations=old.annotations,
        owner_references=old.owner_references,
        creation_timestamp=now,
    )
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))
