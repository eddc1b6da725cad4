"""The controllers that a cluster in memory lacks: those of pods whose owners are not in its files."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.in_memory.admission import derive_uid
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import Key, MemoryController, key_of
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, ObjectMeta, Pod, PodStatus
from kframework.objects.kinds import find_kind


class Recreation(MemoryController):
    """Recreates each pod, under its name, that was deleted before it ended, unless its owner in the cluster does.

    With `keys` it recreates these pods alone.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod,)

    def __init__(self, cluster: MemoryCluster, keys: Collection[Key] | None = None) -> None:
        super().__init__(cluster)
        self._keys = keys
        self._deleted: list[Pod] = []

    @property
    def idle(self) -> bool:
        return not self._deleted

    def _receive(self, change: Change) -> None:
        pod = change.old
        if change.new is not None or not isinstance(pod, Pod) or _has_run(pod):
            return
        if not self._has_owner(pod) if self._keys is None else key_of(pod) in self._keys:
            self._deleted.append(pod)
            self._wake.set()

    def _has_owner(self, pod: Pod) -> bool:
        owner = pod.metadata.controlling_owner
        kind = None if owner is None else find_kind(owner.api_version, owner.kind)
        if owner is None or kind is None:
            return False
        found = self._cluster.find(kind.struct, owner.name, pod.metadata.namespace)
        return found is not None and found.metadata.uid == owner.uid

    def _work(self) -> None:
        deleted, self._deleted = self._deleted, []
        for pod in deleted:
            if self._cluster.find(Pod, pod.metadata.name, pod.metadata.namespace) is None:
                # Not admitted again: its classes need not be in the files either.
                self._cluster.write(_recreate(pod, self._cluster.timestamp()))


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
