"""Find a pod's group, of the three kinds that are read, and its subgroup within the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from kframework.objects import LabelSelector, Pod, Selector, SelectorError, kind_of, label_selector
from kframework_batch.objects import (
    KubePodGroup,
    KubePodGroupStatus,
    PodGroup,
    PodGroupStatus,
    SigsPodGroup,
    SigsPodGroupStatus,
    SubGroupPolicy,
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
    return {owner.name: owner.kind for owner in group.metadata.owner_references}


def owner_of(group: GroupObject) -> str:
    """Name what a pod group belongs to, as `Job default/train`; "" if that is not one thing."""
    owners = owners_of(group)
    if len(owners) != 1:
        return ""
    ((name, kind),) = owners.items()
    return f"{kind} {group.metadata.namespace}/{name}"


def ref_of(group: GroupObject) -> GroupRef:
    return GroupRef(type(group), group.metadata.namespace, group.metadata.name)


class SubGroupError(ValueError):
    """A policy cannot be read."""


class SubGroups(msgspec.Struct, frozen=True):
    """The subgroups of one policy: pods that have the same values of some labels are in the same one.

    `size` is the number of tasks that one needs, `minimum` how many of them the job needs. Two with the same policy
    are equal.
    """

    policy: SubGroupPolicy
    selector: Selector

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def size(self) -> int:
        """The number of tasks that a subgroup needs: one, unless the policy has another."""
        return 1 if self.policy.sub_group_size is None else self.policy.sub_group_size

    @property
    def minimum(self) -> int:
        return self.policy.min_sub_groups or 0

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the label values that identify the subgroup of a pod, () if it is in none of these.

        A policy without `matchLabelKeys` groups nothing, as Volcano has it.
        """
        values = tuple(labels.get(key, "") for key in self.policy.match_label_keys)
        return values if all(values) and self.selector.matches(labels) else ()


def compile_subgroups(policies: Iterable[SubGroupPolicy]) -> tuple[SubGroups, ...]:
    """Read policies; SubGroupError names the first that cannot be read."""
    found: dict[str, SubGroups] = {}
    for policy in policies:
        if policy.name in found:
            raise SubGroupError(f"there are two of the name {policy.name!r}")
        try:
            selector = label_selector(policy.label_selector or LabelSelector())
        except SelectorError as error:
            raise SubGroupError(f"{policy.name}: labelSelector: {error}") from error
        found[policy.name] = SubGroups(policy, selector)
    return tuple(found.values())
