"""Subgroups of jobs: gangs within a gang, as the policies of a pod group make them out of the labels of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kframework.objects import LabelSelector, Selector, SelectorError, label_selector
from kframework_batch.objects import SubGroupPolicy


class SubGroupError(ValueError):
    """A policy cannot be read."""


class SubGroups(msgspec.Struct, frozen=True):
    """The subgroups of one policy: pods that have the same values of some labels are in the same one.

    `size` is the number of tasks that one needs, `minimum` how many of them the job needs. Two that say the same are
    equal.
    """

    policy: SubGroupPolicy
    selector: Selector

    @property
    def name(self) -> str:
        """The name of the policy."""
        return self.policy.name

    @property
    def size(self) -> int:
        """How many tasks a subgroup needs: one, unless the policy says."""
        return 1 if self.policy.sub_group_size is None else self.policy.sub_group_size

    @property
    def minimum(self) -> int:
        """How many subgroups the job needs."""
        return self.policy.min_sub_groups or 0

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return what tells the subgroup of a pod from others, () if it is in none of these.

        A policy without `matchLabelKeys` groups nothing, as Volcano has it.
        """
        values = tuple(labels.get(key, "") for key in self.policy.match_label_keys)
        return values if all(values) and self.selector.matches(labels) else ()


def compiled(policies: Iterable[SubGroupPolicy]) -> tuple[SubGroups, ...]:
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
