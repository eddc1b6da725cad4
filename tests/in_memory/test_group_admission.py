"""What an API server fills in and refuses of groups and workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from kframework.errors import ClusterError
from kframework.in_memory.group_admission import PROTECTION, Group, admit_update, set_defaults
from kframework.in_memory.pod_admission import AdmissionError
from kframework.objects import (
    ApiObject,
    CompositePodGroup,
    ObjectMeta,
    PodGroup,
    PriorityClass,
    Workload,
    convert,
    kind_of,
)
from kframework.objects.pod_groups import PodGroupResourceClaimStatus, PodGroupStatus

K = TypeVar("K", bound=ApiObject)

GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
REFERENCE = {"workloadName": "w", "templateName": "t"}
CLASSES = [
    PriorityClass(metadata=ObjectMeta(name="high"), value=7),
    PriorityClass(metadata=ObjectMeta(name="usual"), value=3, global_default=True),
]


def make(kind: type[K], metadata: dict[str, Any] | None = None, **spec: Any) -> K:
    return convert({"metadata": {"name": "g", "namespace": "team", **(metadata or {})}, "spec": spec}, kind_of(kind))


def group(**spec: Any) -> PodGroup:
    return make(PodGroup, **GANG, **spec)


def composite(**spec: Any) -> CompositePodGroup:
    return make(CompositePodGroup, schedulingPolicy={"basic": {}}, workloadRef=REFERENCE, **spec)


@pytest.mark.parametrize("subject", [group(), composite()])
def test_group_is_disrupted_one_pod_at_a_time_unless_it_says_otherwise(subject: Group) -> None:
    mode = set_defaults(subject, []).spec.disruption_mode
    assert mode is not None and mode.single is not None and mode.all is None


def test_given_mode_of_disruption_is_kept() -> None:
    mode = set_defaults(group(disruptionMode={"all": {}}), []).spec.disruption_mode
    assert mode is not None and mode.single is None and mode.all is not None


def test_new_group_is_protected_until_its_pods_have_ended() -> None:
    assert set_defaults(group(), []).metadata.finalizers == (PROTECTION,)
    given = make(PodGroup, {"finalizers": ["a", PROTECTION]}, **GANG)
    assert set_defaults(given, []).metadata.finalizers == ("a", PROTECTION)
    assert set_defaults(make(PodGroup, {"resourceVersion": "1"}, **GANG), []).metadata.finalizers == ()
    assert set_defaults(composite(), []).metadata.finalizers == ()


@pytest.mark.parametrize("kind", [group, composite])
@pytest.mark.parametrize(
    ("spec", "classes", "priority", "class_name"),
    [
        ({}, [], 0, ""),
        ({}, CLASSES, 3, "usual"),
        ({"priorityClassName": "high"}, CLASSES, 7, "high"),
        ({"priorityClassName": "high", "priority": 7}, CLASSES, 7, "high"),
        ({"priorityClassName": "system-node-critical"}, [], 2_000_001_000, "system-node-critical"),
        ({"priority": 5}, CLASSES, 5, ""),
        ({"priorityClassName": "gone", "priority": 5}, CLASSES, 5, "gone"),
    ],
)
def test_group_has_the_priority_of_its_class(
    kind: Any, spec: dict[str, Any], classes: Sequence[PriorityClass], priority: int, class_name: str
) -> None:
    admitted = set_defaults(kind(**spec), classes).spec
    assert (admitted.priority, admitted.priority_class_name) == (priority, class_name)


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"priorityClassName": "nosuch"}, "priorityClassName", "no PriorityClass with name nosuch was found"),
        (
            {"priorityClassName": "high", "priority": 5},
            "priority",
            "priority set in the pod group (5) must match the priority computed (7) based on the priority class",
        ),
    ],
)
def test_group_with_a_wrong_class_or_priority_is_refused(spec: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(AdmissionError) as refused:
        set_defaults(group(**spec), CLASSES)
    assert refused.value.path == ("spec", path)
    assert str(refused.value).startswith(f'podgroups.scheduling.k8s.io "g" is forbidden: {message}')


def test_update_keeps_what_admission_filled_in() -> None:
    stored = set_defaults(group(priorityClassName="high"), CLASSES)
    changed = admit_update(stored, make(PodGroup, schedulingPolicy={"gang": {"minCount": 5}}))
    assert isinstance(changed, PodGroup) and changed.spec.scheduling_policy.gang is not None
    assert changed.spec.scheduling_policy.gang.min_count == 5
    kept = changed.spec
    assert (kept.priority, kept.priority_class_name, kept.disruption_mode) == (7, "high", stored.spec.disruption_mode)


def test_update_of_fixed_fields_is_refused_with_all_causes() -> None:
    with pytest.raises(ClusterError) as refused:
        admit_update(group(priority=1), group(priority=2, disruptionMode={"all": {}}))
    assert refused.value.status == 422
    assert [cause["field"] for cause in refused.value.causes] == ["spec.disruptionMode", "spec.priority"]
    assert all(cause["message"] == "Invalid value: null: field is immutable" for cause in refused.value.causes)


def test_status_names_claims_of_the_group() -> None:
    old = group(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    created = [PodGroupResourceClaimStatus(name=name, resource_claim_name="c") for name in ("gpu", "nic")]
    right = replace(old, status=PodGroupStatus(resource_claim_statuses=(created[0],)))
    assert admit_update(old, right) == right
    with pytest.raises(ClusterError) as refused:
        admit_update(old, replace(old, status=PodGroupStatus(resource_claim_statuses=tuple(created))))
    (cause,) = refused.value.causes
    assert cause["field"] == "status.resourceClaimStatuses[1].name"
    assert cause["message"] == 'Invalid value: "nic": must match the name of an entry in `spec.resourceClaims`'


def test_templates_of_a_workload_cannot_be_added() -> None:
    old, new = (
        make(Workload, podGroupTemplates=[{"name": name, **GANG} for name in names]) for names in (("a",), ("a", "b"))
    )
    assert admit_update(old, old) == old
    with pytest.raises(ClusterError, match=r"spec\.podGroupTemplates\[1\]: Forbidden: item may not be added"):
        admit_update(old, new)


def test_other_kinds_are_left_alone() -> None:
    old, new = PriorityClass(value=1), PriorityClass(value=2)
    assert admit_update(old, new) is new
