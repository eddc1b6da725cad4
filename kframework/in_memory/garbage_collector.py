"""The garbage collector of a cluster in memory: it deletes the dependents of an owner, as kube-controller-manager's.

Background: dependents are deleted after their owner; foreground: blocking ones before it; or they are orphaned.
An owner that never existed here is no reason to delete anything: files rarely hold all objects of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import FOREGROUND, ORPHAN
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import MemoryController
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, ObjectMeta


class _ObjectKey(NamedTuple):
    kind: type[ApiObject]
    namespace: str
    name: str

    @classmethod
    def from_object(cls, subject: ApiObject) -> _ObjectKey:
        return cls(type(subject), subject.metadata.namespace, subject.metadata.name)


class GarbageCollector(MemoryController):
    """Deletes objects without remaining owners, and releases owners that wait for dependents; it watches all kinds."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        # By the uid of the owner, and by their own.
        self._dependents: dict[str, dict[_ObjectKey, None]] = {}
        self._live: dict[str, _ObjectKey] = {}
        # Uids to process, in order: of deleted owners, and of those that wait for dependents.
        self._deleted: dict[str, None] = {}
        self._waiting: dict[str, None] = {}

    @property
    def idle(self) -> bool:
        return not self._deleted and not self._waiting

    def _subscribe(self) -> Callable[[], None]:
        return self._cluster.subscribe_all(self._receive)

    def _receive(self, change: Change) -> None:
        old, new = change.old, change.new
        metadata = change.subject.metadata
        for uid in _owners(old) | _owners(new):
            dependents = self._dependents.setdefault(uid, {})
            if new is not None and uid in _owners(new):
                dependents[_ObjectKey.from_object(new)] = None
            else:
                dependents.pop(_ObjectKey.from_object(change.subject), None)
            key = self._live.get(uid)
            owner = self._find(key) if key is not None else None
            if owner is not None and _is_waiting(owner.metadata):
                self._waiting[uid] = None
        if new is None:
            self._live.pop(metadata.uid, None)
            self._deleted[metadata.uid] = None
        else:
            self._live[metadata.uid] = _ObjectKey.from_object(new)
            if _is_waiting(metadata):
                self._waiting[metadata.uid] = None
        if self._deleted or self._waiting:
            self._wake.set()

    def _find(self, key: _ObjectKey) -> ApiObject | None:
        return self._cluster.find(key.kind, key.name, key.namespace)

    def _work(self) -> None:
        while self._deleted or self._waiting:
            deleted, self._deleted = self._deleted, {}
            for uid in deleted:
                self._delete_dependents(uid)
            waiting, self._waiting = self._waiting, {}
            for uid in waiting:
                self._process_waiting_owner(uid)

    def _delete_dependents(self, uid: str) -> None:
        """Delete the dependents of a deleted owner, unless they have other owners."""
        for key in [*self._dependents.pop(uid, ())]:
            dependent = self._find(key)
            if dependent is None or dependent.metadata.deletion_timestamp is not None:
                continue
            if any(other in self._live for other in _owners(dependent) if other != uid):
                self._remove_owner(dependent, uid)
            else:
                self._cluster.remove_object(dependent)

    def _process_waiting_owner(self, uid: str) -> None:
        key = self._live.get(uid)
        owner = self._find(key) if key is not None else None
        if key is None or owner is None or not _is_waiting(owner.metadata):
            return
        dependents = [subject for each in [*self._dependents.get(uid, ())] if (subject := self._find(each)) is not None]
        if ORPHAN in owner.metadata.finalizers:
            for dependent in dependents:
                self._remove_owner(dependent, uid)
            self._remove_finalizer(key, ORPHAN)
            return
        for dependent in dependents:
            if dependent.metadata.deletion_timestamp is None:
                # Its own dependents are deleted before it.
                policy = "Foreground" if self._dependents.get(dependent.metadata.uid) else None
                self._cluster.remove_object(dependent, policy=policy)
        if not any(self._blocks(each, uid) for each in [*self._dependents.get(uid, ())]):
            self._remove_finalizer(key, FOREGROUND)

    def _blocks(self, key: _ObjectKey, uid: str) -> bool:
        subject = self._find(key)
        references = subject.metadata.owner_references if subject is not None else ()
        return any(each.uid == uid and each.block_owner_deletion for each in references)

    def _remove_owner(self, dependent: ApiObject, uid: str) -> None:
        metadata = dependent.metadata
        rest = tuple(each for each in metadata.owner_references if each.uid != uid)
        self._cluster.replace(replace(dependent, metadata=replace(metadata, owner_references=rest)))

    def _remove_finalizer(self, key: _ObjectKey, finalizer: str) -> None:
        owner = self._find(key)
        if owner is not None:
            rest = tuple(each for each in owner.metadata.finalizers if each != finalizer)
            self._cluster.replace(replace(owner, metadata=replace(owner.metadata, finalizers=rest)))


def _owners(subject: ApiObject | None) -> dict[str, None]:
    return {each.uid: None for each in subject.metadata.owner_references} if subject is not None else {}


def _is_waiting(metadata: ObjectMeta) -> bool:
    finalizers = metadata.finalizers
    return metadata.deletion_timestamp is not None and (ORPHAN in finalizers or FOREGROUND in finalizers)
