"""Which pod group a pod belongs to."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kframework_batch.membership import GROUP_KINDS, GroupObject, GroupRef, group_of, ref_of
from kframework_batch.objects import KubePodGroup, PodGroup, SigsPodGroup
from msgspec.structs import replace

from kframework.objects import ObjectMeta, Pod, PodSchedulingGroup
from kframework.testing import make_pod

VOLCANO = {"scheduling.k8s.io/group-name": "v"}
SIGS = {"scheduling.x-k8s.io/pod-group": "s"}


def pod(annotations: Mapping[str, str], labels: Mapping[str, str], group: str | None) -> Pod:
    made = make_pod(namespace="n", annotations=annotations, labels=labels)
    return replace(made, spec=replace(made.spec, scheduling_group=PodSchedulingGroup(pod_group_name=group)))


@pytest.mark.parametrize(
    ("annotations", "labels", "group", "expected"),
    [
        ({}, {}, None, None),
        ({}, {}, "", None),
        ({"scheduling.k8s.io/group-name": ""}, {"scheduling.x-k8s.io/pod-group": ""}, None, None),
        (VOLCANO, {}, None, GroupRef(PodGroup, "n", "v")),
        ({}, VOLCANO, None, None),
        ({}, {}, "k", GroupRef(KubePodGroup, "n", "k")),
        ({}, SIGS, None, GroupRef(SigsPodGroup, "n", "s")),
        (SIGS, {}, None, None),
        (VOLCANO, SIGS, "k", GroupRef(PodGroup, "n", "v")),
        ({}, SIGS, "k", GroupRef(KubePodGroup, "n", "k")),
    ],
)
def test_group_of_a_pod_is_in_its_annotations_labels_or_spec(
    annotations: Mapping[str, str], labels: Mapping[str, str], group: str | None, expected: GroupRef | None
) -> None:
    assert group_of(pod(annotations, labels, group)) == expected


def test_pod_without_scheduling_group_has_no_group() -> None:
    assert group_of(make_pod()) is None


def test_groups_of_one_name_do_not_collide() -> None:
    uids = [GroupRef(kind, "n", "g").uid for kind in GROUP_KINDS]
    assert uids == ["n/g", "scheduling.x-k8s.io/n/g", "scheduling.k8s.io/n/g"]


@pytest.mark.parametrize("kind", GROUP_KINDS)
def test_group_reference_equals_that_of_its_pods(kind: type[GroupObject]) -> None:
    assert ref_of(kind(metadata=ObjectMeta(namespace="n", name="g"))) == GroupRef(kind, "n", "g")
