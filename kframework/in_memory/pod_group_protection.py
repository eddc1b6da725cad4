"""The controller that keeps a PodGroup until its pods have ended, as kube-controller-manager's, by a finalizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, group_key_of, key_of
from kframework.in_memory.group_admission import PROTECTION
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Pod, PodGroup


class PodGroupProtectionController(ControlLoop):
    """Removes the finalizer of a deleted group when no pod uses it, and adds it to a used group that lacks it."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (PodGroup, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        cluster.honor_finalizer(PROTECTION)
        #: The uids of the pods that have not ended, by group.
        self._users: dict[Key, set[str]] = {}

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        if isinstance(change.subject, PodGroup):
            yield key_of(change.subject)
        elif isinstance(change.subject, Pod) and (key := group_key_of(change.subject)) is not None:
            was_used, users = key in self._users, self._users.setdefault(key, set())
            if change.new is None or has_ended(change.subject):
                users.discard(change.subject.metadata.uid)
            else:
                users.add(change.subject.metadata.uid)
            if not users:
                del self._users[key]
            if was_used != bool(users):
                yield key

    def _reconcile(self, key: Key) -> None:
        group = self._cluster.find(PodGroup, key[1], key[0])
        if group is None:
            return
        finalizers, is_used = group.metadata.finalizers, key in self._users
        if group.metadata.deletion_timestamp is not None and not is_used:
            finalizers = tuple(each for each in finalizers if each != PROTECTION)
        elif group.metadata.deletion_timestamp is None and is_used and PROTECTION not in finalizers:
            finalizers = (*finalizers, PROTECTION)
        if finalizers != group.metadata.finalizers:
            self._cluster.replace(replace(group, metadata=replace(group.metadata, finalizers=finalizers)))
