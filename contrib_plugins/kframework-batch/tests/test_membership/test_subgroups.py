"""Which subgroup a pod is in, by the policies of its pod group."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kframework_batch.membership import SubGroupError, SubGroups, compile_subgroups
from kframework_batch.objects import SubGroupPolicy

from kframework.objects import LabelSelector, LabelSelectorRequirement

BY_RACK = SubGroupPolicy(name="racks", match_label_keys=("rack",))
BY_BOTH = SubGroupPolicy(name="both", match_label_keys=("row", "rack"))
WORKERS = SubGroupPolicy(
    name="workers", label_selector=LabelSelector(match_labels={"role": "worker"}), match_label_keys=("rack",)
)


def only(policy: SubGroupPolicy) -> SubGroups:
    (groups,) = compile_subgroups((policy,))
    return groups


@pytest.mark.parametrize(
    ("policy", "labels", "values"),
    [
        (BY_RACK, {"rack": "a"}, ("a",)),
        (BY_RACK, {"rack": ""}, ()),
        (BY_RACK, {}, ()),
        (BY_BOTH, {"rack": "a", "row": "1"}, ("1", "a")),
        (BY_BOTH, {"rack": "a"}, ()),
        (WORKERS, {"rack": "a", "role": "worker"}, ("a",)),
        (WORKERS, {"rack": "a", "role": "master"}, ()),
        (SubGroupPolicy(name="all"), {"rack": "a"}, ()),
    ],
)
def test_pods_with_equal_label_values_are_in_one_subgroup(
    policy: SubGroupPolicy, labels: Mapping[str, str], values: tuple[str, ...]
) -> None:
    assert only(policy).values(labels) == values


def test_subgroup_defaults_are_size_one_and_minimum_zero() -> None:
    assert (only(BY_RACK).size, only(BY_RACK).minimum) == (1, 0)
    said = only(SubGroupPolicy(name="said", sub_group_size=4, min_sub_groups=2))
    assert (said.size, said.minimum, said.name) == (4, 2, "said")


def test_subgroups_of_equal_policies_are_equal() -> None:
    assert compile_subgroups((BY_RACK, WORKERS)) == compile_subgroups((BY_RACK, WORKERS))
    assert compile_subgroups((BY_RACK,)) != compile_subgroups((BY_BOTH,))


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ((BY_RACK, BY_RACK), "there are two of the name 'racks'"),
        (
            (
                SubGroupPolicy(
                    name="odd",
                    label_selector=LabelSelector(
                        match_expressions=(LabelSelectorRequirement(key="rack", operator="Near"),)
                    ),
                ),
            ),
            "odd: labelSelector: label 'rack': unknown operator 'Near' (known: In, NotIn, Exists, DoesNotExist)",
        ),
    ],
)
def test_invalid_policy_is_named(policies: tuple[SubGroupPolicy, ...], message: str) -> None:
    with pytest.raises(SubGroupError) as error:
        compile_subgroups(policies)
    assert str(error.value) == message
