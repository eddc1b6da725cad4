"""The pod group controller: a pod of this scheduler that is in no group gets one, alone or with those of its owner."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeAlias

from kframework import Clock, Watch
from kframework.engine import Cluster
from kframework.objects import (
    ApiObject,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kframework_batch.controllers.controller import Reconciler, merge_patch
from kframework_batch.controllers.inheritance import inherited_annotations, inherited_labels, min_resources
from kframework_batch.groups import QUEUE_NAME
from kframework_batch.membership import GROUP_NAME, group_of
from kframework_batch.objects import PodGroup, PodGroupSpec
from kframework_batch.queue import DEFAULT_QUEUE
from kframework_batch.task_status import has_ended

#: With this begins the name of a group that is made here; the uid of the owner, or of the pod, follows.
PREFIX = "podgroup-"
#: How many pods of an owner must run together; on the owner, or on the pod.
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"

_INHERITED = "volcano.sh/"

_Owner: TypeAlias = ReplicaSet | StatefulSet | ReplicationController
_OWNERS: tuple[type[_Owner], ...] = (ReplicaSet, StatefulSet, ReplicationController)

_log = logging.getLogger(__name__)


class PodGroupController(Reconciler):
    """Creates groups for plain pods, and deletes those without possible members.

    A subject is a pod group by namespace/name. `schedulers` are those whose pods get groups.
    """

    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(Pod, verbs=("patch",)),
        Watch(PodGroup, verbs=("create", "patch", "delete")),
        *map(Watch, _OWNERS),
    )

    def __init__(
        self, cluster: Cluster, clock: Clock, schedulers: frozenset[str], default_queue: str = DEFAULT_QUEUE
    ) -> None:
        super().__init__(cluster, clock)
        self._schedulers = schedulers
        self._default_queue = default_queue

    def subjects(self, obj: ApiObject) -> Iterable[str]:
        namespace, owner = obj.metadata.namespace, obj.metadata.controlling_owner
        match obj:
            case PodGroup(metadata=metadata) if owner is not None and metadata.name == PREFIX + owner.uid:
                return (f"{namespace}/{metadata.name}",)
            case Pod():
                group = group_of(obj)
                name = PREFIX + (owner.uid if owner is not None else obj.metadata.uid)
                if group == (PodGroup, namespace, name) or (
                    group is None and obj.spec.scheduler_name in self._schedulers
                ):
                    return (f"{namespace}/{name}",)
            case ReplicaSet() | StatefulSet() | ReplicationController():
                return (f"{namespace}/{PREFIX}{obj.metadata.uid}",)
        return ()

    def is_relevant(self, old: ApiObject, new: ApiObject) -> bool:
        if isinstance(old, Pod) and isinstance(new, Pod):
            return (*self.subjects(old), has_ended(old)) != (*self.subjects(new), has_ended(new))
        if isinstance(old, PodGroup) and isinstance(new, PodGroup):
            return old.spec != new.spec
        return True

    async def reconcile(self, subject: str) -> None:
        namespace, name = subject.split("/", 1)
        group = self.mirror.find(PodGroup, name, namespace)
        owners: list[_Owner] = [owner for kind in _OWNERS for owner in self.mirror.for_subject(subject, kind)]
        pods = self.mirror.for_subject(subject, Pod)
        alive = [pod for pod in pods if not has_ended(pod)]
        if not pods and not owners and group is not None:
            await self.delete(group)
        if not alive:
            return
        if group is None:
            await self.create(self._build_group(name, alive[0], owners))
        elif owners:
            wanted = self._build_group(name, alive[0], owners)
            await self.patch_spec(group, merge_patch(group.spec, wanted.spec))
        for pod in alive:
            await self.annotate(pod, GROUP_NAME, name)

    def _build_group(self, name: str, pod: Pod, owners: Iterable[_Owner]) -> PodGroup:
        """Make the group of a pod and those like it, as Volcano's controller makes it."""
        of_owner: dict[str, str] = {}
        for owner in owners:
            of_owner |= owner.metadata.annotations
        of_pod = pod.metadata.annotations
        members = _min_member(of_owner | of_pod, pod)
        inherited = {key: value for key, value in of_owner.items() if key.startswith(_INHERITED)}
        owned_by = pod.metadata.owner_references
        if pod.metadata.controlling_owner is None:
            own, uid = pod.metadata.name, pod.metadata.uid
            itself = OwnerReference(
                api_version="v1", kind="Pod", name=own, uid=uid, controller=True, block_owner_deletion=True
            )
            owned_by = (itself,)
        return PodGroup(
            metadata=ObjectMeta(
                name=name,
                namespace=pod.metadata.namespace,
                annotations=inherited | inherited_annotations(of_pod),
                labels=inherited_labels(pod.metadata.labels),
                owner_references=owned_by,
            ),
            spec=PodGroupSpec(
                min_member=members,
                queue=of_pod.get(QUEUE_NAME) or self._default_queue,
                priority_class_name=pod.spec.priority_class_name,
                min_resources=min_resources([(pod.spec, members)]),
            ),
        )


def _min_member(annotations: Mapping[str, str], pod: Pod) -> int:
    """Return how many pods must run together: 1 without a valid annotation."""
    text = annotations.get(MIN_MEMBER)
    if text is None:
        return 1
    if text.isascii() and text.isdecimal():
        return int(text)
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    _log.warning("pod %s: its annotation %s, or its owner's, is %r, not a number: 1 is meant", key, MIN_MEMBER, text)
    return 1
