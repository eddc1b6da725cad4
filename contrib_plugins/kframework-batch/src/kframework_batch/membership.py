"""Which pod group a pod belongs to, of the three kinds of pod group that are read."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kframework.objects import Pod, kind_of
from kframework_batch.objects import (
    KubePodGroup,
    KubePodGroupStatus,
    PodGroup,
    PodGroupStatus,
    SigsPodGroup,
    SigsPodGroupStatus,
)

#: How a pod joins a pod group of Volcano: an annotation with its name.
GROUP_NAME = "scheduling.k8s.io/group-name"
#: How a pod joins a pod group of kubernetes-sigs: a label with its name.
SIGS_GROUP_NAME = "scheduling.x-k8s.io/pod-group"

GroupObject: TypeAlias = PodGroup | SigsPodGroup | KubePodGroup
GroupStatus: TypeAlias = PodGroupStatus | SigsPodGroupStatus | KubePodGroupStatus

GROUP_KINDS: tuple[type[GroupObject], ...] = (PodGroup, SigsPodGroup, KubePodGroup)


class GroupRef(NamedTuple):
    """Names a pod group, whether there is one of this name or not."""

    kind: type[GroupObject]
    namespace: str
    name: str

    @property
    def uid(self) -> str:
        """What its job goes by: namespace/name; before that the API group, unless it is of Volcano's kind."""
        own = f"{self.namespace}/{self.name}"
        return own if self.kind is PodGroup else f"{kind_of(self.kind).api_version.partition('/')[0]}/{own}"


def group_of(pod: Pod) -> GroupRef | None:
    """Return which pod group a pod belongs to, None if to none; it is in the pod's own namespace.

    Of several that it names, Volcano's counts first, then that of Kubernetes, then that of kubernetes-sigs.
    """
    namespace = pod.metadata.namespace
    if name := pod.metadata.annotations.get(GROUP_NAME):
        return GroupRef(PodGroup, namespace, name)
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return GroupRef(KubePodGroup, namespace, group.pod_group_name)
    if name := pod.metadata.labels.get(SIGS_GROUP_NAME):
        return GroupRef(SigsPodGroup, namespace, name)
    return None


def owners_of(group: GroupObject) -> dict[str, str]:
    """Return the kinds of what a pod group belongs to, by name."""
    return {owner.name: owner.kind for owner in group.metadata.owner_references}


def owner_of(group: GroupObject) -> str:
    """Name what a pod group belongs to, as `Job default/train`; "" if that is not one thing."""
    owners = owners_of(group)
    if len(owners) != 1:
        return ""
    ((name, kind),) = owners.items()
    return f"{kind} {group.metadata.namespace}/{name}"


def ref_of(group: GroupObject) -> GroupRef:
    """Name a pod group."""
    return GroupRef(type(group), group.metadata.namespace, group.metadata.name)
